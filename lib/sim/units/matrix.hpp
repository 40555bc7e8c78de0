// Tensor-core arithmetic: exact products, aligned to the largest exponent, cut to a fixed number of bits, summed, rounded once.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/units/formats.hpp"

namespace tlx::sim {

enum class chip : std::uint8_t { hopper, blackwell };
enum class matrix_unit : std::uint8_t { mma_sync, wgmma, tcgen05 };

/// The constants of one (chip, unit, kind). A block of `block_k` products and the accumulator are summed at once: each term is cut (toward zero) at
/// 2^(E - fraction_bits), where E is the largest exponent of all terms and a product's exponent is the sum of its factors' exponents (a subnormal factor has
/// the smallest exponent of its format). The sum is cut to `result_bits` fraction bits and stored as f32 by truncation, or as f16 by rounding to nearest.
/// NaN, and infinity minus infinity, give 0x7fffffff. `fraction_bits` up to 40 keep the fast path exact.
struct mma_model {
  int fraction_bits = 25;
  int block_k = 16;
  int result_bits = 23;
};
/// `a` names the operand format (block-scaled kinds: the element). Throws nothing; every format has a row.
const mma_model& model_of(chip on, matrix_unit unit, number a);
/// For calibration: replaces a row for this process.
void set_model(chip on, matrix_unit unit, number a, const mma_model& model);

/// Scratch that callers keep between calls to avoid allocation. One per thread.
struct mma_scratch {
  std::vector<double> a, a_power, b, b_power;  // A [m][k], B [k][n]
  std::vector<float> fa, fa_power, fb, fb_power;
  std::vector<std::uint8_t> row_special, column_special;
  std::vector<std::int32_t> b_integer;
};

/// `values` are exact in f32, dense. A is [m][k], B is [n][k] (row = column of B). The exponent rule for subnormal inputs needs the format's smallest
/// exponent: `a_format`, `b_format`. `scale` pointers (may be null) multiply exactly: a_scale is [m][k / scale_block].
struct mma_operands {
  int m = 0, n = 0, k = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  number a_format = number::f16, b_format = number::f16;
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
  int scale_block = 32;
  bool negate_a = false, negate_b = false;
};
/// D[m][n] = A*B + (use_d ? D * 2^-d_shift : 0), f32, rows `d_stride` floats apart. Fast path; equal to multiply_slow to the bit.
void multiply(const mma_model& model, const mma_operands& x, float* d, std::ptrdiff_t d_stride, bool use_d, mma_scratch& scratch, int d_shift = 0);
/// The definition, one output at a time. `f16_result`: as multiply_f16.
void multiply_slow(const mma_model& model, const mma_operands& x, float* d, std::ptrdiff_t d_stride, bool use_d, int d_shift = 0, bool f16_result = false);
/// The same with a f16 accumulator held as f32 values (exactly representable in f16 on entry and exit).
void multiply_f16(const mma_model& model, const mma_operands& x, float* d, std::ptrdiff_t d_stride, bool use_d, mma_scratch& scratch, int d_shift = 0);

/// mma.sync of fp8 on Hopper, whose tensor cores take fp8 only from wgmma (seen on an H200): elements become f16, the first two of every four along k make one
/// product of depth k / 2 and the other two the next, both summed from zero, and the accumulator is added at last, rounded to nearest. `f16_result`: sums and
/// accumulator are f16, as in multiply_f16.
void multiply_fp8_as_f16(const mma_model& of_f16, const mma_operands& x, float* d, std::ptrdiff_t d_stride, mma_scratch& scratch, bool f16_result = false);

/// Integers: exact, wraps at 32 bits unless `saturate`. A [m][k], B [n][k] as s16 values.
void multiply_integers(int m, int n, int k, const std::int16_t* a, const std::int16_t* b, std::int32_t* d, std::ptrdiff_t d_stride, bool use_d, bool saturate,
                       mma_scratch& scratch);
/// mma.sync f64: one fused multiply-add after another along k.
void multiply_f64(int m, int n, int k, const double* a, const double* b, double* d, std::ptrdiff_t d_stride);

// ---- fragment maps. `lane` in a warp (wgmma: thread 0..127 of the warpgroup); `index` counts elements, low bits of a register first.
struct cell { int row = 0, column = 0; };
/// mma.sync.mMnNkK: A is row x k, B is k x column, C/D is row x column. `bits` is the element's width (tf32 32, f64 64: one per register).
cell mma_a_cell(int m, int k, int bits, int lane, int index);
cell mma_b_cell(int k, int bits, int lane, int index);
cell mma_c_cell(int m, int lane, int index);  // f32, s32, f64 one per register; f16 two per register: element index
int mma_a_count(int m, int k);                // elements per lane
int mma_b_count(int k, int n);
int mma_c_count(int m, int n);

cell wgmma_d_cell(int thread, int index);            // element of D (f16: two per register)
cell wgmma_a_cell(int bits, int thread, int index);  // A in registers; column is k

/// ldmatrix/stmatrix .m8n8.b16: element `half` (0, 1) of the register of `lane` is (row, column) of its 8x8 matrix.
cell matrix_8x8_cell(int lane, int half, bool transposed);

}  // namespace tlx::sim
