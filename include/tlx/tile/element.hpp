// The element types of tiles: sizes, names, classes, and host storage types whose conversions round exactly once.
#pragma once
#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tlx::tile {

enum class element : std::uint8_t {
  f64, f32, tf32, f16, bf16, e4m3, e5m2, e3m2, e2m3, e2m1, ue8m0,
  s8, s16, s32, s64, u8, u16, u32, u64, boolean, e2m1x2, ue4m3
};

inline constexpr int element_count = 22;

namespace detail {
enum class element_class : std::uint8_t { floating, signed_integer, unsigned_integer, truth };
struct element_row {
  std::string_view name;
  std::int8_t bits;
  element_class kind;
};
// In the order of the enumeration.
inline constexpr element_row element_rows[element_count] = {
    {"f64", 64, element_class::floating},         {"f32", 32, element_class::floating},        {"tf32", 32, element_class::floating},
    {"f16", 16, element_class::floating},         {"bf16", 16, element_class::floating},       {"e4m3", 8, element_class::floating},
    {"e5m2", 8, element_class::floating},         {"e3m2", 6, element_class::floating},        {"e2m3", 6, element_class::floating},
    {"e2m1", 4, element_class::floating},         {"ue8m0", 8, element_class::floating},       {"s8", 8, element_class::signed_integer},
    {"s16", 16, element_class::signed_integer},   {"s32", 32, element_class::signed_integer},  {"s64", 64, element_class::signed_integer},
    {"u8", 8, element_class::unsigned_integer},   {"u16", 16, element_class::unsigned_integer}, {"u32", 32, element_class::unsigned_integer},
    {"u64", 64, element_class::unsigned_integer}, {"bool", 8, element_class::truth},           {"e2m1x2", 8, element_class::floating},
    {"ue4m3", 8, element_class::floating},
};
constexpr const element_row& row_of(element e) { return element_rows[static_cast<int>(e)]; }
}  // namespace detail

/// Bits of one element as it lies in memory. A bool is stored as a byte; e3m2, e2m3 (6) and e2m1 (4) are packed. e2m1x2 is a byte of two e2m1, the
/// first in the low bits: what tensors of 4-bit floats are made of, since a view counts whole bytes.
constexpr int bits(element e) { return detail::row_of(e).bits; }

/// The name used in IR text and messages: "bf16", "s32", "bool".
constexpr std::string_view name(element e) { return detail::row_of(e).name; }

constexpr std::optional<element> parse_element(std::string_view text) {
  for (int i = 0; i < element_count; ++i)
    if (detail::element_rows[i].name == text) return static_cast<element>(i);
  return std::nullopt;
}

constexpr bool is_float(element e) { return detail::row_of(e).kind == detail::element_class::floating; }
constexpr bool is_integer(element e) {
  return detail::row_of(e).kind == detail::element_class::signed_integer || detail::row_of(e).kind == detail::element_class::unsigned_integer;
}
/// The types of block scales, which have no sign bit: ue8m0 and ue4m3.
constexpr bool is_scale(element e) { return e == element::ue8m0 || e == element::ue4m3; }
/// Signed integers and every float but the types of block scales.
constexpr bool is_signed(element e) {
  return detail::row_of(e).kind == detail::element_class::signed_integer || (is_float(e) && !is_scale(e));
}
/// Numbers that one element stands for: 2 of e2m1x2.
constexpr int numbers_in(element e) { return e == element::e2m1x2 ? 2 : 1; }

namespace detail {

/// What a code of all exponent bits set means.
enum class top_codes : std::uint8_t { infinity_and_nan, last_is_nan, finite };

/// A binary float format of at most 16 bits with a sign bit. `saturates`: values beyond the range give the largest finite
/// value, as cvt.rn.satfinite does for the formats of 8 bits and below; otherwise they give infinity.
struct float_format {
  int exponent_bits, mantissa_bits;
  top_codes top;
  bool saturates;
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint32_t sign_bit() const { return 1U << (exponent_bits + mantissa_bits); }
  constexpr std::uint32_t infinity_code() const { return ((1U << exponent_bits) - 1U) << mantissa_bits; }
  constexpr std::uint32_t largest_code() const {
    return top == top_codes::infinity_and_nan ? infinity_code() - 1U : sign_bit() - (top == top_codes::last_is_nan ? 2U : 1U);
  }
};

inline constexpr float_format f16_format{5, 10, top_codes::infinity_and_nan, false};
inline constexpr float_format bf16_format{8, 7, top_codes::infinity_and_nan, false};
inline constexpr float_format e4m3_format{4, 3, top_codes::last_is_nan, true};
inline constexpr float_format e5m2_format{5, 2, top_codes::infinity_and_nan, true};
inline constexpr float_format e3m2_format{3, 2, top_codes::finite, true};
inline constexpr float_format e2m3_format{2, 3, top_codes::finite, true};
inline constexpr float_format e2m1_format{2, 1, top_codes::finite, true};
inline constexpr float_format tf32_format{8, 10, top_codes::infinity_and_nan, false};

/// Nearest code, ties to even; one rounding from the double.
constexpr std::uint32_t encode(const float_format& f, double value) {
  const auto raw = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = (raw >> 63) != 0 ? f.sign_bit() : 0U;
  const int exponent = static_cast<int>((raw >> 52) & 0x7ffU);
  const std::uint64_t fraction = raw & 0xfffffffffffffULL;
  if (exponent == 0x7ff) {
    if (fraction != 0) {  // NaN: without the sign; formats that have none give the largest value, as the hardware does
      if (f.top == top_codes::finite) return f.largest_code();
      // NaN of the hardware: every exponent and mantissa bit set.
      return f.top == top_codes::last_is_nan ? f.sign_bit() - 1U : f.infinity_code() | ((1U << f.mantissa_bits) - 1U);
    }
    return sign | (f.saturates ? f.largest_code() : f.infinity_code());
  }
  if (exponent == 0) return sign;  // zero, or a double subnormal, far below every format's smallest
  const std::uint64_t significand = fraction | (1ULL << 52);
  const int power = exponent - 1023;
  const int smallest = 1 - f.bias();
  const int base = power < smallest ? smallest : power;
  const int drop = 52 - f.mantissa_bits + (base - power);  // bits of the significand that do not fit
  std::uint64_t kept = 0;
  if (drop < 64) {
    kept = significand >> drop;
    const std::uint64_t rest = significand & ((1ULL << drop) - 1ULL), half = 1ULL << (drop - 1);
    if (rest > half || (rest == half && (kept & 1U) != 0)) ++kept;
  }
  // A carry out of the mantissa raises the exponent by itself; a subnormal that rounds up becomes the smallest normal.
  const std::int64_t code = (static_cast<std::int64_t>(base - smallest) << f.mantissa_bits) + static_cast<std::int64_t>(kept);
  if (code > static_cast<std::int64_t>(f.largest_code())) return sign | (f.saturates ? f.largest_code() : f.infinity_code());
  return sign | static_cast<std::uint32_t>(code);
}

constexpr double power_of_two(int exponent) {  // exponent in the normal range of double
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

constexpr double decode(const float_format& f, std::uint32_t code) {
  const std::uint32_t magnitude = code & (f.sign_bit() - 1U);
  const double sign = (code & f.sign_bit()) != 0 ? -1.0 : 1.0;
  if (f.top == top_codes::infinity_and_nan && magnitude >= f.infinity_code())
    return magnitude == f.infinity_code() ? sign * __builtin_inf() : __builtin_nan("");
  if (f.top == top_codes::last_is_nan && magnitude == f.sign_bit() - 1U) return __builtin_nan("");
  const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  const double fraction = static_cast<double>(magnitude & ((1U << f.mantissa_bits) - 1U));
  const double scale = power_of_two((exponent == 0 ? 1 : exponent) - f.bias() - f.mantissa_bits);
  const double hidden = exponent == 0 ? 0.0 : static_cast<double>(1U << f.mantissa_bits);
  return sign * (hidden + fraction) * scale;
}

}  // namespace detail
}  // namespace tlx::tile

namespace tlx {

/// A small float as it lies in memory, one to an object (the 6- and 4-bit formats in the low bits of a byte).
/// From float and double: nearest, ties to even, one rounding. To float: exact.
#define TLX_SMALL_FLOAT(type, storage)                                                                                       \
  struct type {                                                                                                              \
    storage code = 0;                                                                                                        \
    constexpr type() = default;                                                                                              \
    constexpr explicit type(double value) : code(static_cast<storage>(tile::detail::encode(tile::detail::type##_format, value))) {} \
    constexpr explicit type(float value) : type(static_cast<double>(value)) {}                                               \
    constexpr explicit type(int value) : type(static_cast<double>(value)) {}                                                 \
    static constexpr type from_code(storage bits) {                                                                          \
      type result;                                                                                                           \
      result.code = bits;                                                                                                    \
      return result;                                                                                                         \
    }                                                                                                                        \
    constexpr operator float() const { return static_cast<float>(tile::detail::decode(tile::detail::type##_format, code)); } \
  };
TLX_SMALL_FLOAT(f16, std::uint16_t)
TLX_SMALL_FLOAT(bf16, std::uint16_t)
TLX_SMALL_FLOAT(e4m3, std::uint8_t)
TLX_SMALL_FLOAT(e5m2, std::uint8_t)
TLX_SMALL_FLOAT(e3m2, std::uint8_t)
TLX_SMALL_FLOAT(e2m3, std::uint8_t)
TLX_SMALL_FLOAT(e2m1, std::uint8_t)
#undef TLX_SMALL_FLOAT

/// Stored as a float whose low 13 bits are zero (the tensor core ignores them).
struct tf32 {
  float value = 0;
  constexpr tf32() = default;
  constexpr explicit tf32(double exact)
      : value(static_cast<float>(tile::detail::decode(tile::detail::tf32_format, tile::detail::encode(tile::detail::tf32_format, exact)))) {}
  constexpr explicit tf32(float exact) : tf32(static_cast<double>(exact)) {}
  constexpr operator float() const { return value; }
};

/// A power of two as a block scale: 2^(code - 127), 0xff is NaN. From float: the next power of two that is not below
/// (cvt.rp.satfinite), so that a value divided by its scale cannot overflow; zero and negative values give 2^-127.
struct ue8m0 {
  std::uint8_t code = 0;
  constexpr ue8m0() = default;
  constexpr explicit ue8m0(float value) : code(encode(value)) {}
  static constexpr ue8m0 from_code(std::uint8_t bits) {
    ue8m0 result;
    result.code = bits;
    return result;
  }
  constexpr operator float() const {
    return code == 0xff ? __builtin_nanf("") : static_cast<float>(tile::detail::power_of_two(static_cast<int>(code) - 127));
  }

 private:
  static constexpr std::uint8_t encode(float value) {
    if (value != value) return 0xff;
    if (!(value > 0.0F)) return 0;
    const auto raw = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    const int power = static_cast<int>(raw >> 52) - 1023 + ((raw & 0xfffffffffffffULL) != 0 ? 1 : 0);
    return static_cast<std::uint8_t>(power < -127 ? 0 : power > 127 ? 254 : power + 127);
  }
};

/// A block scale of NVFP4: e4m3 without a sign, 0 to 448; 0x7f is NaN, the top bit is 0. From float: nearest, ties to even; negative values give 0.
struct ue4m3 {
  std::uint8_t code = 0;
  constexpr ue4m3() = default;
  constexpr explicit ue4m3(float value) : code(value < 0.0F ? std::uint8_t{0} : static_cast<std::uint8_t>(tile::detail::encode(tile::detail::e4m3_format, static_cast<double>(value)) & 0x7fU)) {}
  static constexpr ue4m3 from_code(std::uint8_t bits) {
    ue4m3 result;
    result.code = bits;
    return result;
  }
  constexpr operator float() const { return static_cast<float>(tile::detail::decode(tile::detail::e4m3_format, code & 0x7fU)); }
};

/// Two e2m1 in a byte, the first in the low four bits: what a tensor of 4-bit floats is made of.
struct e2m1x2 {
  std::uint8_t code = 0;
  constexpr e2m1x2() = default;
  constexpr e2m1x2(e2m1 first, e2m1 second) : code(static_cast<std::uint8_t>(first.code | second.code << 4)) {}
  static constexpr e2m1x2 from_code(std::uint8_t bits) {
    e2m1x2 result;
    result.code = bits;
    return result;
  }
  constexpr e2m1 first() const { return e2m1::from_code(code & 0xfU); }
  constexpr e2m1 second() const { return e2m1::from_code(static_cast<std::uint8_t>(code >> 4)); }
};

namespace tile {

/// element_of<float> == element::f32. A type that is no element has no element_of.
template <class T>
struct element_of_type;
#define TLX_ELEMENT(type, value)                            \
  template <>                                               \
  struct element_of_type<type> {                            \
    static constexpr element result = element::value;       \
  };
TLX_ELEMENT(double, f64)
TLX_ELEMENT(float, f32)
TLX_ELEMENT(tlx::tf32, tf32)
TLX_ELEMENT(tlx::f16, f16)
TLX_ELEMENT(tlx::bf16, bf16)
TLX_ELEMENT(tlx::e4m3, e4m3)
TLX_ELEMENT(tlx::e5m2, e5m2)
TLX_ELEMENT(tlx::e3m2, e3m2)
TLX_ELEMENT(tlx::e2m3, e2m3)
TLX_ELEMENT(tlx::e2m1, e2m1)
TLX_ELEMENT(tlx::ue8m0, ue8m0)
TLX_ELEMENT(tlx::e2m1x2, e2m1x2)
TLX_ELEMENT(tlx::ue4m3, ue4m3)
TLX_ELEMENT(signed char, s8)
TLX_ELEMENT(short, s16)
TLX_ELEMENT(int, s32)
TLX_ELEMENT(long, s64)
TLX_ELEMENT(long long, s64)
TLX_ELEMENT(unsigned char, u8)
TLX_ELEMENT(unsigned short, u16)
TLX_ELEMENT(unsigned, u32)
TLX_ELEMENT(unsigned long, u64)
TLX_ELEMENT(unsigned long long, u64)
TLX_ELEMENT(bool, boolean)
#undef TLX_ELEMENT

template <class T>
inline constexpr element element_of = element_of_type<T>::result;

/// True for types usable as the element of a tile in user code.
template <class T>
concept element_type = requires { element_of_type<T>::result; };

}  // namespace tile
}  // namespace tlx
