// Number formats of PTX: exact decoding, encoding with every rounding, and arithmetic that is rounded exactly once.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace tlx::sim {

enum class number : std::uint8_t { f16, bf16, tf32, f32, f64, e4m3, e5m2, e3m2, e2m3, e2m1, ue8m0, ue4m3, s8, u8, s4, u4, s32, u32, b1 };
const char* to_string(number n);
int bits_of(number n);  // width in storage: tf32 32, e2m3 6, e2m1 4, ...
constexpr bool is_integer(number n) { return n >= number::s8; }

/// rn ties to even, rna ties away from zero, rs adds random bits to what is cut off and lets the carry decide.
enum class rounding : std::uint8_t { rn, rz, rm, rp, rna, rs };

struct narrowing {
  rounding how = rounding::rn;
  bool satfinite = false;        // beyond the range, infinity included: the largest finite value with the sign
  bool relu = false;             // negative becomes +0, NaN the canonical NaN
  bool ftz = false;              // f32 source: subnormal inputs become zero with their sign
  std::uint32_t random_bits = 0; // rs: already aligned low, as many bits as `random_width`
  int random_width = 0;          // rs: how many discarded bits the random number covers (f16 13, bf16 16, fp8/6/4 from x4 forms 16 or 8)
};

/// Exact. tf32 takes a 32-bit pattern whose low 13 bits are ignored. Integers are converted to their value.
float widen(number from, std::uint32_t bits);

/// One rounding from a float or double. Formats that have no infinity (e4m3, e3m2, e2m3, e2m1, ue8m0) saturate always; NaN goes to the canonical NaN,
/// or to +max where the format has none. ue8m0 uses the magnitude; zero gives 0 (2^-127).
std::uint32_t narrow(number to, double value, const narrowing& how = {});
inline std::uint32_t narrow(number to, float value, const narrowing& how = {}) {
  if (how.ftz && std::fpclassify(value) == FP_SUBNORMAL) value = std::copysign(0.0F, value);
  return narrow(to, static_cast<double>(value), how);
}

/// widen(n, 0..255) for the formats of at most 8 bits (codes beyond the width repeat with the high bits ignored).
const float* widen_table(number n);

// ---- fast paths
inline float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
inline std::uint16_t f32_to_bf16_rn(float value) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t rounded = static_cast<std::uint16_t>((x + 0x7FFFU + ((x >> 16) & 1U)) >> 16);
  return (x & 0x7FFFFFFFU) > 0x7F800000U ? std::uint16_t{0x7FFF} : rounded;
}
inline float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7FFFU) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  // Scaling by 2^112 moves the exponent bias and makes subnormals normal; infinities and NaN need their exponent completed.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x0F800000U ? magnitude | 0x7F800000U : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(special | sign);
}
std::uint16_t f32_to_f16_rn(float value);

// ---- integers. `width` is 8, 16, 32 or 64.
/// cvt float -> integer: always clamped; NaN gives 0, or 1 << (width-1) when the source is f64 or the destination has 64 bits.
std::uint64_t to_integer(double value, int width, bool is_signed, rounding how, bool source_is_f64);
/// cvt integer -> float, rounded once. `to` is f16, bf16, f32 or f64; the result is the bit pattern.
std::uint64_t from_integer(std::uint64_t value, bool is_signed, number to, rounding how);
/// cvt.rni/rzi/rmi/rpi float -> the same float.
double round_to_integral(double value, rounding how);
float narrow_to_f32(double value, rounding how);  // cvt.rX.f32.f64; NaN gives 0x7fffffff

// ---- f32 arithmetic, one rounding. NaN results are 0x7fffffff.
struct f32_mode {
  rounding how = rounding::rn;
  bool ftz = false;  // inputs and result
  bool sat = false;  // clamp to [0, 1], NaN to +0
};
float add_f32(float a, float b, f32_mode mode = {});
float mul_f32(float a, float b, f32_mode mode = {});
float fma_f32(float a, float b, float c, f32_mode mode = {});
float div_f32(float a, float b, f32_mode mode = {});
float sqrt_f32(float a, f32_mode mode = {});
inline float rcp_f32(float a, f32_mode mode = {}) { return div_f32(1.0F, a, mode); }

double add_f64(double a, double b, rounding how = rounding::rn);
double mul_f64(double a, double b, rounding how = rounding::rn);
double fma_f64(double a, double b, double c, rounding how = rounding::rn);
double div_f64(double a, double b, rounding how = rounding::rn);
double sqrt_f64(double a, rounding how = rounding::rn);

// ---- f16 and bf16 arithmetic on bit patterns, one rounding to nearest even. `format` is f16 or bf16.
struct half_mode { bool ftz = false, sat = false, relu = false; };
std::uint16_t add_half(number format, std::uint16_t a, std::uint16_t b, half_mode mode = {});
std::uint16_t sub_half(number format, std::uint16_t a, std::uint16_t b, half_mode mode = {});
std::uint16_t mul_half(number format, std::uint16_t a, std::uint16_t b, half_mode mode = {});
std::uint16_t fma_half(number format, std::uint16_t a, std::uint16_t b, std::uint16_t c, half_mode mode = {});

// ---- min and max. Without `nan` one NaN yields the other operand; -0 < +0.
struct extreme_mode { bool nan = false, ftz = false, xorsign_abs = false; };
float min_f32(float a, float b, extreme_mode mode = {});
float max_f32(float a, float b, extreme_mode mode = {});
double min_f64(double a, double b);
double max_f64(double a, double b);
std::uint16_t min_half(number format, std::uint16_t a, std::uint16_t b, extreme_mode mode = {});
std::uint16_t max_half(number format, std::uint16_t a, std::uint16_t b, extreme_mode mode = {});

// ---- approximate functions: computed in double and rounded once, so well inside the documented error of each.
enum class approximation : std::uint8_t { ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh };
float approx_f32(approximation f, float x, bool ftz);
double approx_f64(approximation f, double x);  // rcp and rsqrt .ftz.f64
std::uint16_t approx_half(approximation f, number format, std::uint16_t x, bool ftz = false);
/// div.approx and div.full
float approx_div_f32(float a, float b, bool ftz);

inline float flush_f32(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0x7F800000U) == 0 ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x80000000U) : x;
}

}  // namespace tlx::sim
