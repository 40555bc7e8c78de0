#include "tlx/dsl/kernel.hpp"

using namespace tlx;
using namespace tlx::literals;

void body(block& cta) { cta.warps(4_warps); }
