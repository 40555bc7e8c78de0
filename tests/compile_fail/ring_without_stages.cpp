// error: tlx: a ring has at least one stage
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) { (void)cta.ring<0>("r", shared<bf16, 64, 64>); }
