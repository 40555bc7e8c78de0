// error: literal operator
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) { cta.warps(4_warps); }
