// Arithmetic for processors with AVX2, FMA and F16C (each that has the first has the last); built with those flags on x86-64 only, and chosen at run time (alu_select.cpp).
#define TLX_SIM_FIND find_fast_avx2
#include "sim/alu_fast.inc"
