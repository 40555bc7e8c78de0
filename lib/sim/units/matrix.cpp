// The arithmetic of the tensor cores. In double, products, cut terms and their sums are exact; rows whose numbers are moderate take an integer kernel.
#include "sim/units/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/units/matrix_kernel.hpp"

namespace tlx::sim {
namespace {

constexpr int formats = 19, units = 3, chips = 2;

using model_table = std::array<mma_model, static_cast<std::size_t>(chips * units * formats)>;
std::size_t index_of(chip on, matrix_unit unit, number a) {
  return static_cast<std::size_t>((static_cast<int>(on) * units + static_cast<int>(unit)) * formats + static_cast<int>(a));
}

/// Starting values: H200 observations for Hopper (bf16 keeps two bits below the f32 place and cuts; fp8 has 13 fraction bits), wider fp8 on Blackwell.
model_table default_models() {
  model_table t{};
  for (const matrix_unit unit : {matrix_unit::mma_sync, matrix_unit::wgmma, matrix_unit::tcgen05}) {
    for (const chip on : {chip::hopper, chip::blackwell}) {
      for (const number n : {number::f16, number::bf16}) t[index_of(on, unit, n)] = {.fraction_bits = 25, .block_k = 16, .result_bits = 23};
      t[index_of(on, unit, number::tf32)] = {.fraction_bits = 25, .block_k = 8, .result_bits = 23};
      const bool narrow_fp8 = on == chip::hopper;
      for (const number n : {number::e4m3, number::e5m2, number::e3m2, number::e2m3})
        t[index_of(on, unit, n)] = {.fraction_bits = narrow_fp8 ? 13 : 25, .block_k = 32, .result_bits = narrow_fp8 ? 13 : 23};
      t[index_of(on, unit, number::e2m1)] = {.fraction_bits = 35, .block_k = 64, .result_bits = 23};
    }
  }
  return t;
}
model_table& models() {
  static model_table t = default_models();
  return t;
}

int smallest_exponent(number n) {
  switch (n) {
    case number::f16: case number::e5m2: return -14;
    case number::e4m3: return -6;
    case number::e3m2: return -2;
    case number::e2m3: case number::e2m1: return 0;
    default: return -126;
  }
}

/// 2^exponent of a value as its format sees it: a subnormal has the smallest exponent. 0 for 0.
double power_of(float x, float smallest_power) {
  if (x == 0) return 0;
  const float p = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7F800000U);
  return static_cast<double>(p > smallest_power ? p : smallest_power);
}
double power_of_scale(float s) { return s == 0 ? 0 : std::ldexp(1.0, std::ilogb(s)); }

/// The power of the accumulator term (a double because a shifted f32 may leave its range).
double power_of_addend(double c) {
  if (c == 0) return 0;
  const double p = std::bit_cast<double>(std::bit_cast<std::uint64_t>(c) & 0x7FF0000000000000U);
  return p > 0x1p-126 ? p : 0x1p-126;
}

bool is_special(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7F800000U) == 0x7F800000U; }

/// Cut to `result_bits` fraction bits and to the f32 grid below the normal range; beyond the range infinity.
float finish_f32(double v, int result_bits) {
  if (v == 0) return 0.0F;
  if (std::isnan(v)) return std::bit_cast<float>(0x7FFFFFFFU);
  if (std::isinf(v)) return static_cast<float>(v);
  const double cut = std::bit_cast<double>(std::bit_cast<std::uint64_t>(v) & (~std::uint64_t{0} << (52 - result_bits)));
  if (std::fabs(cut) >= 0x1p128) return std::copysign(HUGE_VALF, static_cast<float>(cut > 0 ? 1 : -1));
  return narrow_to_f32(cut, rounding::rz);
}
float finish_f16(double v) { return f16_to_f32(static_cast<std::uint16_t>(narrow(number::f16, v))); }

/// One output of one block, by definition. `b_step` walks along k.
double block_sum(int fraction_bits, const double* a, const double* a_power, const double* b, const double* b_power, std::ptrdiff_t b_step, int k, double c) {
  double plain = c, top = power_of_addend(c);
  bool special = !std::isfinite(c);
  for (int i = 0; i < k; ++i) {
    const double p = a[i] * b[i * b_step];
    plain += p;
    if (!std::isfinite(p)) special = true;
    top = std::max(top, a_power[i] * b_power[i * b_step]);
  }
  if (special) return plain;
  if (top == 0) return 0;
  const double scale = std::ldexp(1.0, fraction_bits - std::ilogb(top));
  std::int64_t sum = static_cast<std::int64_t>(c * scale);
  for (int i = 0; i < k; ++i) sum += static_cast<std::int64_t>(a[i] * b[i * b_step] * scale);
  return std::ldexp(static_cast<double>(sum), std::ilogb(top) - fraction_bits);
}

struct prepared {
  const double *a, *a_power, *b, *b_power;
};

/// Operands to double with their powers, B turned to [k][n], scales multiplied in, rows and columns with NaN or infinity marked.
prepared prepare(const mma_operands& x, mma_scratch& s) {
  const std::size_t mk = static_cast<std::size_t>(x.m) * static_cast<std::size_t>(x.k), nk = static_cast<std::size_t>(x.n) * static_cast<std::size_t>(x.k);
  s.a.resize(mk), s.a_power.resize(mk), s.b.resize(nk), s.b_power.resize(nk);
  s.row_special.assign(static_cast<std::size_t>(x.m), 0);
  s.column_special.assign(static_cast<std::size_t>(x.n), 0);
  const int scales = x.k / x.scale_block;
  const auto fill = [&](const float* from, const float* scale, number format, bool negate, int rows, std::ptrdiff_t row_step, std::ptrdiff_t k_step, double* to,
                        double* power, std::uint8_t* special) {
    const float smallest = std::ldexp(1.0F, smallest_exponent(format));
    const double sign = negate ? -1.0 : 1.0;
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < x.k; ++k) {
        const float v = from[static_cast<std::ptrdiff_t>(r) * x.k + k];
        double value = sign * static_cast<double>(v), p = power_of(v, smallest);
        bool odd = is_special(v);
        if (scale != nullptr) {
          const float f = scale[r * scales + k / x.scale_block];
          value *= static_cast<double>(f);
          p *= power_of_scale(f);
          odd = odd || is_special(f);
        }
        to[r * row_step + k * k_step] = value;
        power[r * row_step + k * k_step] = p;
        if (odd) special[r] = 1;
      }
  };
  fill(x.a, x.a_scale, x.a_format, x.negate_a, x.m, x.k, 1, s.a.data(), s.a_power.data(), s.row_special.data());
  fill(x.b, x.b_scale, x.b_format, x.negate_b, x.n, 1, x.n, s.b.data(), s.b_power.data(), s.column_special.data());
  return {s.a.data(), s.a_power.data(), s.b.data(), s.b_power.data()};
}

constexpr int chunk = 64;

/// The same in f32 for the kernel. False when a factor or a product of powers leaves the range in which the kernel's steps are exact.
bool prepare_floats(const mma_model& model, const mma_operands& x, mma_scratch& s, bool& zero_is_zero) {
  if (model.fraction_bits > kernel::largest_fraction_bits) return false;
  const std::size_t mk = static_cast<std::size_t>(x.m) * static_cast<std::size_t>(x.k);
  const std::ptrdiff_t step = (x.n + kernel::columns_per_step - 1) / kernel::columns_per_step * kernel::columns_per_step;
  const std::size_t nk = static_cast<std::size_t>(step) * static_cast<std::size_t>(x.k);
  s.fa.resize(mk), s.fa_power.resize(mk);
  s.fb.resize(nk), s.fb_power.resize(nk);
  if (step != x.n) {
    std::fill(s.fb.begin(), s.fb.end(), 0.0F);
    std::fill(s.fb_power.begin(), s.fb_power.end(), 0.0F);
  }
  s.row_special.assign(static_cast<std::size_t>(x.m), 0);
  s.column_special.assign(static_cast<std::size_t>(x.n), 0);
  const int scales = x.k / x.scale_block;
  struct range { float low = HUGE_VALF, high = 0; bool exact = true; };
  const auto fill = [&](const float* from, const float* scale, number format, bool negate, int rows, std::ptrdiff_t row_step, std::ptrdiff_t k_step, float* to,
                        float* power, std::uint8_t* special) {
    range all;
    const float smallest = std::ldexp(1.0F, smallest_exponent(format));
    const std::uint32_t flip = negate ? 0x80000000U : 0U;
    for (int r = 0; r < rows; ++r) {
      std::uint8_t odd = 0;
      for (int k = 0; k < x.k; ++k) {
        float v = from[static_cast<std::ptrdiff_t>(r) * x.k + k];
        float p = std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & 0x7F800000U);
        bool bad = p > 0x1p127F;  // NaN or infinity
        p = p > smallest ? p : smallest;
        if (scale != nullptr) {
          const float f = scale[r * scales + k / x.scale_block];
          bad = bad || is_special(f);
          const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
          if (!bad && v != 0 && ((bits & 0x007FFFFFU) != 0 || f < 0x1p-60F || f > 0x1p60F || p < 0x1p-60F || p > 0x1p60F)) all.exact = false;
          v *= f;
          p *= f;
        }
        odd |= static_cast<std::uint8_t>(bad);
        v = bad ? 0.0F : v;
        p = v != 0 ? p : 0.0F;
        all.low = v != 0 && p < all.low ? p : all.low;
        all.high = p > all.high ? p : all.high;
        to[r * row_step + k * k_step] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) ^ flip);
        power[r * row_step + k * k_step] = p;
      }
      special[r] = odd;
    }
    return all;
  };
  const range a = fill(x.a, x.a_scale, x.a_format, x.negate_a, x.m, x.k, 1, s.fa.data(), s.fa_power.data(), s.row_special.data());
  const range b = fill(x.b, x.b_scale, x.b_format, x.negate_b, x.n, 1, step, s.fb.data(), s.fb_power.data(), s.column_special.data());
  zero_is_zero = a.high == 0 || b.high == 0 || static_cast<double>(a.low) * static_cast<double>(b.low) >= 0x1p-126;
  return a.exact && b.exact && static_cast<double>(a.high) * static_cast<double>(b.high) <= 0x1p120;
}

/// `columns` sums of one row: the vector form of block_sum. `c` is [columns]; special values give garbage here and are done again by the caller.
[[gnu::always_inline]] inline void row_sums_body(int fraction_bits, const double* __restrict a, const double* __restrict a_power, const double* __restrict b,
                                                 const double* __restrict b_power, std::ptrdiff_t n, int k, int columns, const double* __restrict c,
                                                 double* __restrict sum) {
  double top[chunk], scale[chunk];
  const double up = static_cast<double>(std::uint64_t{1} << fraction_bits);
  for (int j = 0; j < columns; ++j) {
    const double p = std::bit_cast<double>(std::bit_cast<std::uint64_t>(c[j]) & 0x7FF0000000000000U);
    top[j] = c[j] == 0 ? 0.0 : p > 0x1p-126 ? p : 0x1p-126;
  }
  for (int i = 0; i < k; ++i) {
    const double pa = a_power[i];
    const double* __restrict row = b_power + i * n;
    for (int j = 0; j < columns; ++j) {
      const double p = pa * row[j];
      top[j] = p > top[j] ? p : top[j];
    }
  }
  for (int j = 0; j < columns; ++j) {
    top[j] = top[j] == 0 ? 1.0 : top[j];
    scale[j] = up / top[j];
    sum[j] = __builtin_trunc(c[j] * scale[j]);
  }
  for (int i = 0; i < k; ++i) {
    const double va = a[i];
    const double* __restrict row = b + i * n;
    for (int j = 0; j < columns; ++j) sum[j] += __builtin_trunc(va * row[j] * scale[j]);
  }
  for (int j = 0; j < columns; ++j) sum[j] *= top[j] / up;
}

/// f32 by truncation for results in the normal range; anything else marks `odd`.
[[gnu::always_inline]] inline bool cut_f32_body(const double* __restrict sum, int columns, int result_bits, float* __restrict d) {
  const std::uint64_t mask = ~std::uint64_t{0} << (52 - result_bits);
  std::uint64_t odd = 0;
  for (int j = 0; j < columns; ++j) {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(sum[j]);
    const double magnitude = std::bit_cast<double>(bits & 0x7FFFFFFFFFFFFFFFU);
    d[j] = static_cast<float>(std::bit_cast<double>(bits & mask)) + 0.0F;  // -0 becomes +0
    odd |= static_cast<std::uint64_t>((magnitude != 0) & !(magnitude >= 0x1p-126 && magnitude < 0x1p127));
  }
  return odd != 0;
}

void row_sums_plain(int f, const double* a, const double* ap, const double* b, const double* bp, std::ptrdiff_t n, int k, int columns, const double* c, double* sum) {
  row_sums_body(f, a, ap, b, bp, n, k, columns, c, sum);
}
bool cut_f32_plain(const double* sum, int columns, int result_bits, float* d) { return cut_f32_body(sum, columns, result_bits, d); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] void row_sums_avx2(int f, const double* a, const double* ap, const double* b, const double* bp, std::ptrdiff_t n, int k, int columns,
                                           const double* c, double* sum) {
  if (columns == chunk) {
    row_sums_body(f, a, ap, b, bp, n, k, chunk, c, sum);
  } else {
    row_sums_body(f, a, ap, b, bp, n, k, columns, c, sum);
  }
}
[[gnu::target("avx2")]] bool cut_f32_avx2(const double* sum, int columns, int result_bits, float* d) { return cut_f32_body(sum, columns, result_bits, d); }
const bool wide = __builtin_cpu_supports("avx2") != 0;
#endif

void row_sums(int f, const double* a, const double* ap, const double* b, const double* bp, std::ptrdiff_t n, int k, int columns, const double* c, double* sum) {
#if defined(__x86_64__)
  if (wide) return row_sums_avx2(f, a, ap, b, bp, n, k, columns, c, sum);
#endif
  row_sums_plain(f, a, ap, b, bp, n, k, columns, c, sum);
}
bool cut_f32(const double* sum, int columns, int result_bits, float* d) {
#if defined(__x86_64__)
  if (wide) return cut_f32_avx2(sum, columns, result_bits, d);
#endif
  return cut_f32_plain(sum, columns, result_bits, d);
}

struct part { int k0, k, n0, columns; };

/// One row of one part in double, with columns that hold NaN or infinity done by definition.
void row_in_double(const mma_model& model, const mma_operands& x, const mma_scratch& s, const part& w, int m, const float* c32, double shrink, double* sum) {
  const double* a = s.a.data() + static_cast<std::ptrdiff_t>(m) * x.k + w.k0;
  const double* a_power = s.a_power.data() + static_cast<std::ptrdiff_t>(m) * x.k + w.k0;
  const double* b = s.b.data() + static_cast<std::ptrdiff_t>(w.k0) * x.n + w.n0;
  const double* b_power = s.b_power.data() + static_cast<std::ptrdiff_t>(w.k0) * x.n + w.n0;
  double c[chunk];
  for (int j = 0; j < w.columns; ++j) c[j] = static_cast<double>(c32[j]) * shrink;
  row_sums(model.fraction_bits, a, a_power, b, b_power, x.n, w.k, w.columns, c, sum);
  const bool row_special = s.row_special[static_cast<std::size_t>(m)] != 0;
  for (int j = 0; j < w.columns; ++j)
    if (row_special || s.column_special[static_cast<std::size_t>(w.n0 + j)] != 0 || !std::isfinite(c[j]))
      sum[j] = block_sum(model.fraction_bits, a, a_power, b + j, b_power + j, x.n, w.k, c[j]);
}

void run(const mma_model& model, const mma_operands& x, float* d, std::ptrdiff_t d_stride, bool use_d, mma_scratch& s, int d_shift, bool f16_result) {
  bool zero_is_zero = false, in_double = false;
  const bool use_kernel = d_shift == 0 && prepare_floats(model, x, s, zero_is_zero);
  const std::ptrdiff_t b_step = (x.n + kernel::columns_per_step - 1) / kernel::columns_per_step * kernel::columns_per_step;
  alignas(32) float c[chunk] = {}, result[chunk];
  alignas(32) double sum[chunk];
  for (int k0 = 0; k0 < x.k; k0 += model.block_k) {
    const bool read = use_d || k0 > 0;
    const double shrink = k0 == 0 ? std::ldexp(1.0, -d_shift) : 1.0;
    for (int n0 = 0; n0 < x.n; n0 += chunk) {
      const part w{k0, std::min(model.block_k, x.k - k0), n0, std::min(chunk, x.n - n0)};
      const std::size_t bytes = static_cast<std::size_t>(w.columns) * sizeof(float);
      const bool column_special = use_kernel && std::memchr(s.column_special.data() + n0, 1, static_cast<std::size_t>(w.columns)) != nullptr;
      for (int m = 0; m < x.m; ++m) {
        float* out = d + m * d_stride + n0;
        std::fill(c, c + chunk, 0.0F);
        if (read) std::memcpy(c, out, bytes);
        bool done = false;
        if (use_kernel && !column_special && s.row_special[static_cast<std::size_t>(m)] == 0) {
          const kernel::row r{.a = s.fa.data() + static_cast<std::ptrdiff_t>(m) * x.k + k0,
                              .a_power = s.fa_power.data() + static_cast<std::ptrdiff_t>(m) * x.k + k0,
                              .b = s.fb.data() + k0 * b_step + n0,
                              .b_power = s.fb_power.data() + k0 * b_step + n0,
                              .b_step = b_step,
                              .k = w.k,
                              .columns = (w.columns + kernel::columns_per_step - 1) / kernel::columns_per_step * kernel::columns_per_step,
                              .c = c,
                              .fraction_bits = model.fraction_bits,
                              .result_bits = model.result_bits,
                              .zero_is_zero = zero_is_zero};
          if (f16_result) {
            done = !kernel::run(r, nullptr, sum);
          } else if (!kernel::run(r, result, nullptr)) {
            std::memcpy(out, result, bytes);
            continue;
          }
        }
        if (!done) {
          if (!in_double) prepare(x, s);
          in_double = true;
          row_in_double(model, x, s, w, m, c, shrink, sum);
        }
        if (f16_result) {
          for (int j = 0; j < w.columns; ++j) out[j] = finish_f16(sum[j]);
        } else if (cut_f32(sum, w.columns, model.result_bits, out)) {
          for (int j = 0; j < w.columns; ++j) out[j] = finish_f32(sum[j], model.result_bits);
        }
      }
    }
  }
}

}  // namespace

const mma_model& model_of(chip on, matrix_unit unit, number a) { return models()[index_of(on, unit, a)]; }
void set_model(chip on, matrix_unit unit, number a, const mma_model& model) { models()[index_of(on, unit, a)] = model; }

void multiply(const mma_model& model, const mma_operands& x, float* d, std::ptrdiff_t d_stride, bool use_d, mma_scratch& scratch, int d_shift) {
  run(model, x, d, d_stride, use_d, scratch, d_shift, false);
}
void multiply_f16(const mma_model& model, const mma_operands& x, float* d, std::ptrdiff_t d_stride, bool use_d, mma_scratch& scratch, int d_shift) {
  run(model, x, d, d_stride, use_d, scratch, d_shift, true);
}

void multiply_fp8_as_f16(const mma_model& of_f16, const mma_operands& x, float* d, std::ptrdiff_t d_stride, mma_scratch& scratch, bool f16_result) {
  const auto pairs_first = [&](const float* from, int rows) {
    std::vector<float> to(static_cast<std::size_t>(rows) * static_cast<std::size_t>(x.k));
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < x.k; ++k) {
        const int place = k / 4 * 2 + k % 2 + (k % 4 / 2) * (x.k / 2);
        to[static_cast<std::size_t>(r * x.k + place)] = from[r * x.k + k];
      }
    return to;
  };
  const std::vector<float> a = pairs_first(x.a, x.m), b = pairs_first(x.b, x.n);
  std::vector<float> sum(static_cast<std::size_t>(x.m) * static_cast<std::size_t>(x.n));
  mma_operands halves = x;
  halves.a = a.data(), halves.b = b.data();
  halves.a_format = halves.b_format = number::f16;
  mma_model two_steps = of_f16;
  two_steps.block_k = x.k / 2;
  run(two_steps, halves, sum.data(), x.n, false, scratch, 0, f16_result);
  const auto half = [](float v) { return static_cast<std::uint16_t>(narrow(number::f16, v)); };
  for (int r = 0; r < x.m; ++r)
    for (int c = 0; c < x.n; ++c) {
      float& out = d[r * d_stride + c];
      const float all = sum[static_cast<std::size_t>(r * x.n + c)];
      out = f16_result ? f16_to_f32(add_half(number::f16, half(all), half(out))) : add_f32(all, out);
    }
}

void multiply_slow(const mma_model& model, const mma_operands& x, float* d, std::ptrdiff_t d_stride, bool use_d, int d_shift, bool f16_result) {
  mma_scratch s;
  const prepared p = prepare(x, s);
  for (int m = 0; m < x.m; ++m)
    for (int n = 0; n < x.n; ++n)
      for (int k0 = 0; k0 < x.k; k0 += model.block_k) {
        const std::ptrdiff_t ka = static_cast<std::ptrdiff_t>(m) * x.k + k0, kb = static_cast<std::ptrdiff_t>(k0) * x.n + n;
        float& out = d[m * d_stride + n];
        const double c = !use_d && k0 == 0 ? 0.0 : static_cast<double>(out) * (k0 == 0 ? std::ldexp(1.0, -d_shift) : 1.0);
        const double sum = block_sum(model.fraction_bits, p.a + ka, p.a_power + ka, p.b + kb, p.b_power + kb, x.n, std::min(model.block_k, x.k - k0), c);
        out = f16_result ? finish_f16(sum) : finish_f32(sum, model.result_bits);
      }
}

void multiply_integers(int m, int n, int k, const std::int16_t* a, const std::int16_t* b, std::int32_t* d, std::ptrdiff_t d_stride, bool use_d, bool saturate,
                       mma_scratch& s) {
  s.b_integer.resize(static_cast<std::size_t>(n) * static_cast<std::size_t>(k));
  for (int c = 0; c < n; ++c)
    for (int i = 0; i < k; ++i) s.b_integer[static_cast<std::size_t>(i) * static_cast<std::size_t>(n) + static_cast<std::size_t>(c)] = b[c * k + i];
  std::vector<std::int32_t> sum(static_cast<std::size_t>(n));
  for (int r = 0; r < m; ++r) {
    std::fill(sum.begin(), sum.end(), 0);
    for (int i = 0; i < k; ++i) {
      const std::int32_t va = a[r * k + i];
      const std::int32_t* row = s.b_integer.data() + static_cast<std::ptrdiff_t>(i) * n;
      for (int c = 0; c < n; ++c) sum[static_cast<std::size_t>(c)] += va * row[c];
    }
    std::int32_t* out = d + r * d_stride;
    for (int c = 0; c < n; ++c) {
      const std::int64_t total = std::int64_t{use_d ? out[c] : 0} + sum[static_cast<std::size_t>(c)];
      const std::int64_t kept = saturate ? std::clamp<std::int64_t>(total, INT32_MIN, INT32_MAX) : total;
      out[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(kept));
    }
  }
}

void multiply_f64(int m, int n, int k, const double* a, const double* b, double* d, std::ptrdiff_t d_stride) {
  for (int r = 0; r < m; ++r)
    for (int c = 0; c < n; ++c) {
      double x = d[r * d_stride + c];
      for (int i = 0; i < k; ++i) x = std::fma(a[r * k + i], b[c * k + i], x);
      d[r * d_stride + c] = x;
    }
}

}  // namespace tlx::sim
