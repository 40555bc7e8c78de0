// Scalar arithmetic with one rounding. Sums and products are exact in double or carry their rest as a "round to odd" bit, which survives a second rounding.
#include <cfenv>

#include "sim/units/formats.hpp"

namespace tlx::sim {
namespace {

const float f32_nan = std::bit_cast<float>(0x7FFFFFFFU);

/// `near` is a value rounded to nearest and `rest` has the sign of what is missing: makes the last bit say "inexact".
double to_odd(double near, double rest) {
  if (rest == 0 || !std::isfinite(near)) return near;
  const std::uint64_t x = std::bit_cast<std::uint64_t>(near);
  if ((x & 1U) != 0) return near;
  return std::bit_cast<double>((rest > 0) == (near > 0) ? x + 1 : x - 1);
}

/// x + y with the rest kept (two-sum), rounded to odd. `minus_zero`: the sign of an exact zero from a cancellation.
double sum_to_odd(double x, double y, bool minus_zero) {
  const double s = x + y;
  if (!std::isfinite(s)) return s;
  if (s == 0) return (std::signbit(x) && std::signbit(y)) || (minus_zero && (x != 0 || std::signbit(x) != std::signbit(y))) ? -0.0 : 0.0;
  const double t = s - x;
  return to_odd(s, (x - (s - t)) + (y - t));
}

float finish(double wide, const f32_mode& mode) {
  float r = narrow_to_f32(wide, mode.how);
  if (mode.ftz) r = flush_f32(r);
  if (mode.sat) r = r > 0 ? (r < 1 ? r : 1.0F) : 0.0F;  // NaN compares false and gives +0
  return r;
}

/// With .ftz the chip flushes what is below 2^-126 when it is rounded to 24 bits with an exponent of any size (seen on an H200). `wide` is rounded to odd, so
/// that scaling and rounding it once more is exact.
float finish_tiny_first(double wide, const f32_mode& mode) {
  const bool tiny = mode.ftz && std::fabs(wide) < 0x1p-100 && std::fabs(narrow_to_f32(wide * 0x1p100, mode.how)) < 0x1p-26F;
  return finish(tiny ? std::copysign(0.0, wide) : wide, mode);
}

float input(float x, const f32_mode& mode) { return mode.ftz ? flush_f32(x) : x; }

/// Runs `f` under a hardware rounding mode; volatile keeps the operation between the two switches.
template <class F>
double under(rounding how, F f) {
  if (how == rounding::rn) return f();
  const int before = std::fegetround();
  std::fesetround(how == rounding::rz ? FE_TOWARDZERO : how == rounding::rm ? FE_DOWNWARD : FE_UPWARD);
  const volatile double r = f();
  std::fesetround(before);
  return r;
}
double tidy(double x) { return std::isnan(x) ? std::bit_cast<double>(std::uint64_t{0x7FFFFFFFFFFFFFFF}) : x; }

float half_in(number format, std::uint16_t bits, bool ftz) {
  if (ftz && (bits & (format == number::f16 ? 0x7C00U : 0x7F80U)) == 0) bits &= 0x8000U;
  return format == number::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}
std::uint16_t half_out(number format, double wide, const half_mode& mode) {
  std::uint16_t r = static_cast<std::uint16_t>(narrow(format, wide, {.relu = mode.relu}));
  if (mode.ftz && (r & (format == number::f16 ? 0x7C00U : 0x7F80U)) == 0) r &= 0x8000U;
  if (mode.sat) {
    const float v = half_in(format, r, false);
    if (!(v > 0)) return 0;
    if (v > 1) return format == number::f16 ? 0x3C00 : 0x3F80;
  }
  return r;
}

template <class T>
T extreme(T a, T b, bool want_max, bool nan_wins, T nan) {
  if (std::isnan(a) || std::isnan(b)) {
    if (nan_wins || (std::isnan(a) && std::isnan(b))) return nan;
    return std::isnan(a) ? b : a;
  }
  if (a == b) return std::signbit(a) == want_max ? b : a;  // the zeros
  return (a < b) == want_max ? b : a;
}

float extreme_f32(float a, float b, const extreme_mode& m, bool want_max) {
  if (m.ftz) a = flush_f32(a), b = flush_f32(b);
  if (!m.xorsign_abs) return extreme(a, b, want_max, m.nan, f32_nan);
  const bool negative = std::signbit(a) != std::signbit(b);
  const float r = extreme(std::fabs(a), std::fabs(b), want_max, m.nan, f32_nan);
  return std::isnan(r) ? f32_nan : std::copysign(r, negative ? -1.0F : 1.0F);
}
std::uint16_t extreme_half(number format, std::uint16_t a, std::uint16_t b, const extreme_mode& m, bool want_max) {
  const float r = extreme_f32(half_in(format, a, m.ftz), half_in(format, b, m.ftz), {.nan = m.nan, .xorsign_abs = m.xorsign_abs}, want_max);
  return static_cast<std::uint16_t>(narrow(format, static_cast<double>(r)));
}

}  // namespace

float add_f32(float a, float b, f32_mode mode) {
  a = input(a, mode), b = input(b, mode);
  return finish(sum_to_odd(static_cast<double>(a), static_cast<double>(b), mode.how == rounding::rm), mode);
}

float mul_f32(float a, float b, f32_mode mode) {
  const double product = static_cast<double>(input(a, mode)) * static_cast<double>(input(b, mode));
  return finish_tiny_first(product, mode);
}

float fma_f32(float a, float b, float c, f32_mode mode) {
  const double product = static_cast<double>(input(a, mode)) * static_cast<double>(input(b, mode));
  return finish_tiny_first(sum_to_odd(product, static_cast<double>(input(c, mode)), mode.how == rounding::rm), mode);
}

float div_f32(float a, float b, f32_mode mode) {
  const double x = static_cast<double>(input(a, mode)), y = static_cast<double>(input(b, mode));
  const double q = x / y;
  if (!std::isfinite(q) || q == 0 || std::isinf(y)) return finish(q, mode);
  const double rest = std::fma(-q, y, x);  // exact: the sign tells on which side of q the quotient lies
  return finish_tiny_first(to_odd(q, y > 0 ? rest : -rest), mode);
}

float sqrt_f32(float a, f32_mode mode) {
  const double x = static_cast<double>(input(a, mode));
  const double r = std::sqrt(x);
  if (!std::isfinite(r) || r == 0) return finish(r, mode);
  return finish(to_odd(r, std::fma(-r, r, x)), mode);
}

double add_f64(double a, double b, rounding how) {
  const volatile double x = a, y = b;
  return tidy(under(how, [&] { const volatile double r = x + y; return static_cast<double>(r); }));
}
double mul_f64(double a, double b, rounding how) {
  const volatile double x = a, y = b;
  return tidy(under(how, [&] { const volatile double r = x * y; return static_cast<double>(r); }));
}
double fma_f64(double a, double b, double c, rounding how) {
  const volatile double x = a, y = b, z = c;
  return tidy(under(how, [&] { const volatile double r = std::fma(static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)); return static_cast<double>(r); }));
}
double div_f64(double a, double b, rounding how) {
  const volatile double x = a, y = b;
  return tidy(under(how, [&] { const volatile double r = x / y; return static_cast<double>(r); }));
}
double sqrt_f64(double a, rounding how) {
  const volatile double x = a;
  return tidy(under(how, [&] { const volatile double r = std::sqrt(static_cast<double>(x)); return static_cast<double>(r); }));
}

std::uint16_t add_half(number format, std::uint16_t a, std::uint16_t b, half_mode mode) {
  return half_out(format, sum_to_odd(static_cast<double>(half_in(format, a, mode.ftz)), static_cast<double>(half_in(format, b, mode.ftz)), false), mode);
}
std::uint16_t sub_half(number format, std::uint16_t a, std::uint16_t b, half_mode mode) {
  return add_half(format, a, static_cast<std::uint16_t>(b ^ 0x8000U), mode);
}
std::uint16_t mul_half(number format, std::uint16_t a, std::uint16_t b, half_mode mode) {
  return half_out(format, static_cast<double>(half_in(format, a, mode.ftz)) * static_cast<double>(half_in(format, b, mode.ftz)), mode);
}
std::uint16_t fma_half(number format, std::uint16_t a, std::uint16_t b, std::uint16_t c, half_mode mode) {
  const double product = static_cast<double>(half_in(format, a, mode.ftz)) * static_cast<double>(half_in(format, b, mode.ftz));
  return half_out(format, sum_to_odd(product, static_cast<double>(half_in(format, c, mode.ftz)), false), mode);
}

float min_f32(float a, float b, extreme_mode mode) { return extreme_f32(a, b, mode, false); }
float max_f32(float a, float b, extreme_mode mode) { return extreme_f32(a, b, mode, true); }
double min_f64(double a, double b) { return extreme(a, b, false, false, tidy(std::nan(""))); }
double max_f64(double a, double b) { return extreme(a, b, true, false, tidy(std::nan(""))); }
std::uint16_t min_half(number format, std::uint16_t a, std::uint16_t b, extreme_mode mode) { return extreme_half(format, a, b, mode, false); }
std::uint16_t max_half(number format, std::uint16_t a, std::uint16_t b, extreme_mode mode) { return extreme_half(format, a, b, mode, true); }

double approx_f64(approximation f, double x) {
  // Seen on an H200: only the upper word counts, and the result is rounded to its upper word.
  const std::uint64_t upper = std::bit_cast<std::uint64_t>(x) & 0xFFFFFFFF00000000U;
  x = std::bit_cast<double>(upper);
  if (std::isnan(x)) return std::bit_cast<double>(std::uint64_t{0x7FFFFFFF00000000U});
  if (std::fpclassify(x) == FP_SUBNORMAL) x = std::copysign(0.0, x);
  double r = f == approximation::rcp ? 1.0 / x : f == approximation::rsqrt ? (x == 0 ? std::copysign(HUGE_VAL, x) : 1.0 / std::sqrt(x)) : std::nan("");
  if (std::isnan(r)) return std::bit_cast<double>(std::uint64_t{0x7FFFFFFF00000000U});
  if (std::fpclassify(r) == FP_SUBNORMAL) return std::copysign(0.0, r);
  return std::isinf(r) ? r : std::bit_cast<double>((std::bit_cast<std::uint64_t>(r) + 0x80000000U) & 0xFFFFFFFF00000000U);
}

float approx_f32(approximation f, float x, bool ftz) {
  if (ftz) x = flush_f32(x);
  const double v = static_cast<double>(x);
  double r = 0;
  switch (f) {
    case approximation::ex2: r = std::exp2(v); break;
    case approximation::lg2: r = v == 0 ? -HUGE_VAL : std::log2(v); break;
    case approximation::rcp: r = 1.0 / v; break;
    case approximation::rsqrt: r = v == 0 ? std::copysign(HUGE_VAL, v) : 1.0 / std::sqrt(v); break;
    case approximation::sqrt: r = std::sqrt(v); break;
    case approximation::sin: r = std::sin(v); break;
    case approximation::cos: r = std::cos(v); break;
    case approximation::tanh: r = std::tanh(v); break;
  }
  const float y = narrow_to_f32(r, rounding::rn);
  return ftz ? flush_f32(y) : y;
}

std::uint16_t approx_half(approximation f, number format, std::uint16_t x, bool ftz) {
  const float wide = approx_f32(f, half_in(format, x, ftz), false);
  return half_out(format, static_cast<double>(wide), {.ftz = ftz});
}

float approx_div_f32(float a, float b, bool ftz) {
  const float size = std::fabs(b);
  if (size > 0x1p126F && std::isfinite(b) && !std::isnan(a)) b = std::copysign(HUGE_VALF, b);  // PTX ISA: a divisor beyond 2^126 gives 0, or NaN for infinity
  return div_f32(a, b, {.ftz = ftz});
}

}  // namespace tlx::sim
