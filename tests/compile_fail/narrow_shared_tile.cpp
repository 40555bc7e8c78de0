// error: tlx: a row of a shared tile must be a multiple of 32 bytes
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) { (void)cta.ring<1>("r", shared<bf16, 64, 24>); }
