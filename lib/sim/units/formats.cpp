// Encoding and decoding: one integer routine rounds a value m * 2^e to any binary format.
#include "sim/units/formats.hpp"

#include <array>
#include <limits>

namespace tlx::sim {

const char* to_string(number n) {
  switch (n) {
    case number::f16: return "f16";
    case number::bf16: return "bf16";
    case number::tf32: return "tf32";
    case number::f32: return "f32";
    case number::f64: return "f64";
    case number::e4m3: return "e4m3";
    case number::e5m2: return "e5m2";
    case number::e3m2: return "e3m2";
    case number::e2m3: return "e2m3";
    case number::e2m1: return "e2m1";
    case number::ue8m0: return "ue8m0";
    case number::ue4m3: return "ue4m3";
    case number::s8: return "s8";
    case number::u8: return "u8";
    case number::s4: return "s4";
    case number::u4: return "u4";
    case number::s32: return "s32";
    case number::u32: return "u32";
    case number::b1: return "b1";
  }
  return "unknown";
}

int bits_of(number n) {
  switch (n) {
    case number::f16: case number::bf16: return 16;
    case number::tf32: case number::f32: case number::s32: case number::u32: return 32;
    case number::f64: return 64;
    case number::e3m2: case number::e2m3: return 6;
    case number::e2m1: case number::s4: case number::u4: return 4;
    case number::b1: return 1;
    default: return 8;
  }
}

namespace {

/// Magnitude layout: `mantissa` fraction bits, smallest normal exponent `low`, and the codes (without sign) of the largest finite value, infinity and NaN.
struct layout {
  int mantissa = 0;
  int low = 0;
  int sign_bit = 0;
  std::uint64_t largest = 0;
  std::uint64_t infinity = 0;  // 0: none
  std::uint64_t nan = 0;       // canonical; for formats without NaN the largest value
};

layout layout_of(number n) {
  switch (n) {
    case number::f16: return {10, -14, 15, 0x7BFF, 0x7C00, 0x7FFF};
    case number::bf16: return {7, -126, 15, 0x7F7F, 0x7F80, 0x7FFF};
    case number::tf32: return {10, -126, 18, 0x3FBFF, 0x3FC00, 0x3FFFF};
    case number::f64: return {52, -1022, 63, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF};
    case number::e4m3: case number::ue4m3: return {3, -6, 7, 0x7E, 0, 0x7F};
    case number::e5m2: return {2, -14, 7, 0x7B, 0x7C, 0x7F};
    case number::e3m2: return {2, -2, 5, 0x1F, 0, 0x1F};
    case number::e2m3: return {3, 0, 5, 0x1F, 0, 0x1F};
    case number::e2m1: return {1, 0, 3, 0x7, 0, 0x7};
    default: return {23, -126, 31, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF};
  }
}

/// The code of m * 2^e (m not 0) in `f`, not yet limited to its range: adding one to a code is the next value, carries included.
std::uint64_t round_magnitude(std::uint64_t m, int e, const layout& f, bool negative, const narrowing& how) {
  const int top = e + 63 - std::countl_zero(m);
  const int scale = top > f.low ? top : f.low;
  const int cut = scale - f.mantissa - e;  // bits of m below the last place
  std::uint64_t whole = 0, rest = 0;       // rest is left-aligned: fraction of one unit in the last place times 2^64
  bool sticky = false;
  if (cut <= 0) {
    whole = m << -cut;
  } else if (cut < 64) {
    whole = m >> cut;
    rest = m << (64 - cut);
  } else if (cut - 64 < 64) {
    rest = cut == 64 ? m : m >> (cut - 64);
    sticky = cut != 64 && (m << (128 - cut)) != 0;
  } else {
    sticky = true;
  }
  bool up = false;
  const bool inexact = rest != 0 || sticky;
  const std::uint64_t half = std::uint64_t{1} << 63;
  switch (how.how) {
    case rounding::rn: up = rest > half || (rest == half && (sticky || (whole & 1U) != 0)); break;
    case rounding::rna: up = rest >= half; break;
    case rounding::rz: break;
    case rounding::rm: up = inexact && negative; break;
    case rounding::rp: up = inexact && !negative; break;
    case rounding::rs: {
      const int width = how.random_width;
      const std::uint64_t cut_bits = width > 0 ? rest >> (64 - width) : 0;
      const std::uint64_t random = width > 0 ? how.random_bits & ((std::uint64_t{1} << width) - 1) : 0;
      up = width > 0 && ((cut_bits + random) >> width) != 0;
      break;
    }
  }
  return (static_cast<std::uint64_t>(scale - f.low) << f.mantissa) + whole + (up ? 1U : 0U);
}

std::uint64_t limit(std::uint64_t code, const layout& f, bool negative, const narrowing& how) {
  if (code <= f.largest) return code;
  const bool toward_zero = how.how == rounding::rz || (how.how == rounding::rm && !negative) || (how.how == rounding::rp && negative);
  return f.infinity == 0 || how.satfinite || toward_zero ? f.largest : f.infinity;
}

std::uint64_t encode_magnitude(const layout& f, double magnitude, bool negative, const narrowing& how) {
  const std::uint64_t x = std::bit_cast<std::uint64_t>(magnitude);
  const int field = static_cast<int>(x >> 52);
  if (field == 0x7FF) return f.infinity == 0 || how.satfinite ? f.largest : f.infinity;
  if (x == 0) return 0;
  const std::uint64_t fraction = x & 0xFFFFFFFFFFFFFU;
  const std::uint64_t m = field == 0 ? fraction : fraction | std::uint64_t{1} << 52;
  return limit(round_magnitude(m, (field == 0 ? 1 : field) - 1075, f, negative, how), f, negative, how);
}

std::uint32_t narrow_ue8m0(double value, const narrowing& how) {
  if (std::isnan(value)) return 0xFF;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return 0xFE;
  if (magnitude == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // [0.5, 1)
  int code = exponent - 1 + 127;
  const bool up = how.how == rounding::rp ? fraction > 0.5 : (how.how == rounding::rn || how.how == rounding::rna) && fraction >= 0.75;
  if (up) ++code;
  return static_cast<std::uint32_t>(code < 0 ? 0 : code > 0xFE ? 0xFE : code);
}

float decode_small(number n, std::uint32_t bits) {
  if (n == number::s8) return static_cast<float>(static_cast<std::int8_t>(bits));
  if (n == number::u8) return static_cast<float>(bits & 0xFFU);
  if (n == number::u4) return static_cast<float>(bits & 0xFU);
  if (n == number::s4) return static_cast<float>(static_cast<std::int8_t>((bits & 0xFU) << 4) >> 4);
  if (n == number::ue8m0) return (bits & 0xFFU) == 0xFF ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, static_cast<int>(bits & 0xFFU) - 127);
  const layout f = layout_of(n);
  const std::uint32_t magnitude = bits & ((1U << f.sign_bit) - 1U);
  const bool negative = n != number::ue4m3 && ((bits >> f.sign_bit) & 1U) != 0;
  float value = 0;
  if (magnitude > f.largest) {
    value = f.infinity != 0 && magnitude == f.infinity ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else {
    const int field = static_cast<int>(magnitude >> f.mantissa);
    const int fraction = static_cast<int>(magnitude & ((1U << f.mantissa) - 1U));
    value = field == 0 ? std::ldexp(static_cast<float>(fraction), f.low - f.mantissa)
                       : std::ldexp(static_cast<float>(fraction + (1 << f.mantissa)), f.low + field - 1 - f.mantissa);
  }
  return negative ? -value : value;
}

using table = std::array<float, 256>;
table make_table(number n) {
  table t{};
  for (std::uint32_t i = 0; i < 256; ++i) t[i] = decode_small(n, i);
  return t;
}

}  // namespace

const float* widen_table(number n) {
  static const std::array<table, 18> tables = [] {
    std::array<table, 18> all{};
    for (const number each : {number::e4m3, number::e5m2, number::e3m2, number::e2m3, number::e2m1, number::ue8m0, number::ue4m3, number::s8, number::u8,
                              number::s4, number::u4})
      all[static_cast<std::size_t>(each)] = make_table(each);
    return all;
  }();
  return tables[static_cast<std::size_t>(n)].data();
}

float widen(number from, std::uint32_t bits) {
  switch (from) {
    case number::f16: return f16_to_f32(static_cast<std::uint16_t>(bits));
    case number::bf16: return bf16_to_f32(static_cast<std::uint16_t>(bits));
    case number::tf32: return std::bit_cast<float>(bits & 0xFFFFE000U);
    case number::f32: return std::bit_cast<float>(bits);
    case number::s32: return static_cast<float>(static_cast<std::int32_t>(bits));
    case number::b1: return static_cast<float>(bits & 1U);
    case number::u32: return static_cast<float>(bits);
    default: return widen_table(from)[bits & 0xFFU];
  }
}

std::uint32_t narrow(number to, double value, const narrowing& how) {
  if (to == number::ue8m0) return narrow_ue8m0(value, how);
  const layout f = layout_of(to);
  std::uint64_t code = 0;
  if (std::isnan(value)) {
    code = f.nan;
  } else {
    bool negative = std::signbit(value);
    if (negative && (how.relu || to == number::ue4m3)) value = 0, negative = false;
    code = encode_magnitude(f, std::fabs(value), negative, how) | static_cast<std::uint64_t>(negative) << f.sign_bit;
  }
  return static_cast<std::uint32_t>(to == number::tf32 ? (std::isnan(value) ? 0x7FFFE000U : code << 13) : code);
}

std::uint16_t f32_to_f16_rn(float value) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (x >> 16) & 0x8000U;
  const std::uint32_t magnitude = x & 0x7FFFFFFFU;
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(magnitude > 0x7F800000U ? 0x7FFFU : sign | 0x7C00U);
  std::uint32_t code = 0;
  if (magnitude < 0x38800000U) {
    // Adding 0.5 puts the last place of f16 subnormals at the last place of f32, so the addition rounds.
    code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  } else {
    code = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | code);
}

float narrow_to_f32(double value, rounding how) {
  if (std::isnan(value)) return std::bit_cast<float>(0x7FFFFFFFU);
  if (how == rounding::rn) return static_cast<float>(value);
  return std::bit_cast<float>(narrow(number::f32, value, {.how = how}));
}

double round_to_integral(double value, rounding how) {
  if (!std::isfinite(value)) return value;
  switch (how) {
    case rounding::rz: return std::trunc(value);
    case rounding::rm: return std::floor(value);
    case rounding::rp: return std::ceil(value);
    case rounding::rna: return std::round(value);
    default: break;
  }
  const double below = std::floor(value);
  const double rest = value - below;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0);
  return std::copysign(up ? below + 1 : below, value);
}

std::uint64_t to_integer(double value, int width, bool is_signed, rounding how, bool source_is_f64) {
  const std::uint64_t top = std::uint64_t{1} << (width - 1);
  if (std::isnan(value)) return source_is_f64 || width == 64 ? top : 0;
  const double whole = round_to_integral(value, how);
  if (!is_signed) {
    if (whole <= 0) return 0;
    if (whole >= std::ldexp(1.0, width)) return top | (top - 1);
    return static_cast<std::uint64_t>(whole);
  }
  if (whole >= std::ldexp(1.0, width - 1)) return top - 1;
  if (whole <= -std::ldexp(1.0, width - 1)) return ~(top - 1);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(whole));
}

std::uint64_t from_integer(std::uint64_t value, bool is_signed, number to, rounding how) {
  if (value == 0) return 0;
  const bool negative = is_signed && static_cast<std::int64_t>(value) < 0;
  const std::uint64_t magnitude = negative ? ~value + 1 : value;
  const layout f = layout_of(to);
  const narrowing n{.how = how};
  return limit(round_magnitude(magnitude, 0, f, negative, n), f, negative, n) | static_cast<std::uint64_t>(negative) << f.sign_bit;
}

}  // namespace tlx::sim
