#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) { (void)cta.ring<1>("r", shared<bf16, 64, 64>); }
