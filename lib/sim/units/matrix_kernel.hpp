// The vector kernel of the tensor-core arithmetic for one row of outputs: products in f32 (exact for the formats it is given), cut terms summed in 32-bit
// integers. It declines what leaves its range, and the caller computes that row in double.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tlx::sim::kernel {

constexpr int columns_per_step = 16;
constexpr int largest_fraction_bits = 25;
// A term is below 2^(fraction_bits + 2), so 16 of them fit a signed 32-bit sum.
constexpr int terms_per_sum = 16;

struct row {
  const float *a, *a_power;  // [k]
  const float *b, *b_power;  // [k][b_step], padded with zeros to a multiple of 16 columns
  std::ptrdiff_t b_step;
  int k, columns;            // columns: a multiple of 16
  const float* c;            // [columns]
  int fraction_bits, result_bits;
  bool zero_is_zero;         // no product of nonzero factors can have a power that underflows
};

/// Both forms write `columns` sums as f32 to `out`, or exact doubles to `sums` when that is given. They return true when some column is outside the range
/// handled here: powers from 2^-90 to 2^120 keep every step normal, and what is smaller than 2^-126 next to them is cut anyway.
bool run_plain(const row& r, float* out, double* sums);
bool run_avx2(const row& r, float* out, double* sums);
bool has_avx2();

inline bool run(const row& r, float* out, double* sums) {
  static const bool wide = has_avx2();
  return wide ? run_avx2(r, out, sums) : run_plain(r, out, sums);
}

}  // namespace tlx::sim::kernel
