// error: tlx: these tiles have different shapes
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) { (void)(row_index<8, 16>(cta.home()) + row_index<8, 32>(cta.home())); }
