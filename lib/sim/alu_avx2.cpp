// Arithmetic for processors with AVX2 and FMA; built with those flags on x86-64 only, and chosen at run time (alu_select.cpp).
#define TLX_SIM_FIND find_fast_avx2
#include "sim/alu_fast.inc"
