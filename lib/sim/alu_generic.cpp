// Arithmetic for any x86-64 or other processor.
#define TLX_SIM_FIND find_fast_generic
#include "sim/alu_fast.inc"
