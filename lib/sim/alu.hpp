// Register arithmetic: one function per (operation, type), over all 32 lanes of a warp.
#pragma once
#include "sim/program.hpp"

namespace tlx::sim {

enum class alu : std::uint8_t { mov, add, sub, mul, mul_hi, mul_wide, mad, mad_hi, mad_wide, minimum, maximum, neg, abs, bit_and, bit_or, bit_xor, bit_not, shl, shr,
                                selp, cvt, setp, div, rem, sad, popc, clz, brev, bfind, bfind_shift, bfe, bfi, prmt, lop3, shf_l, shf_r, dp4a, dp2a, cnot, slct, fma, set,
                                add_cc, addc, addc_cc, sub_cc, subc, subc_cc, mad_lo_cc, madc_lo, madc_lo_cc, mad_hi_cc, madc_hi, madc_hi_cc,
                                mul24, mad24, mul24_hi, mad24_hi, bmsk, szext, fns, copysign, testp, rcp, sqrt, approximate, minimum3, maximum3, pack, unpack, pack_saturated, ex2, video };

enum class compare : std::uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan, lo, ls, hi, hs };

/// Null when there is no such fast function. `from`: source type of cvt; `how`: setp.
alu_function find_fast_generic(alu op, scalar type, scalar from, compare how, bool ftz);
alu_function find_fast_avx2(alu op, scalar type, scalar from, compare how, bool ftz);
/// The best for this processor.
alu_function find_fast(alu op, scalar type, scalar from = scalar::none, compare how = compare::eq, bool ftz = false);
/// Everything else; the modifiers come from instruction::mode at run time. Null when there is no such operation on the type.
alu_function find_rare(alu op, scalar type, const arithmetic_mode& mode);

}  // namespace tlx::sim
