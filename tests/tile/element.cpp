#include "tlx/tile/element.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

using namespace tlx;
using tile::element;

namespace {

// The nearest value of a format by search over all its codes: shares nothing with encode().
template <class T>
double nearest(double x, unsigned codes, double largest) {
  if (std::fabs(x) > largest) x = std::copysign(largest, x);
  double best = NAN;
  unsigned best_code = 0;
  for (unsigned c = 0; c < codes; ++c) {
    const double v = static_cast<float>(T::from_code(static_cast<decltype(T().code)>(c)));
    if (!std::isfinite(v)) continue;
    const double d = std::fabs(v - x), b = std::fabs(best - x);
    if (std::isnan(best) || d < b || (d == b && (c & 1U) == 0 && (best_code & 1U) != 0)) best = v, best_code = c;
  }
  return best;
}

template <class T>
void check_small(unsigned codes, double largest) {
  for (unsigned c = 0; c < codes; ++c) {
    const T t = T::from_code(static_cast<decltype(T().code)>(c));
    const float v = t;
    if (std::isnan(v)) CHECK(std::isnan(static_cast<float>(T(v))));
    else if (std::isfinite(v)) CHECK(T(v).code == t.code);
  }
  unsigned state = 12345;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525U + 1013904223U;
    const double x = std::ldexp(static_cast<double>(static_cast<int>(state >> 9)) / 4194304.0 - 1.0, static_cast<int>(state % 40U) - 24);
    CHECK(static_cast<double>(static_cast<float>(T(x))) == nearest<T>(x, codes, largest));
  }
}

}  // namespace

TEST_CASE("every element has a name that parses back, and unknown names do not parse") {
  for (int i = 0; i < tile::element_count; ++i) {
    const auto e = static_cast<element>(i);
    CHECK(tile::parse_element(tile::name(e)) == e);
  }
  CHECK(tile::name(element::boolean) == "bool");
  CHECK(tile::name(element::ue8m0) == "ue8m0");
  CHECK_FALSE(tile::parse_element("float").has_value());
  CHECK_FALSE(tile::parse_element("").has_value());
}

TEST_CASE("classes of elements follow their names") {
  for (int i = 0; i < tile::element_count; ++i) {
    const auto e = static_cast<element>(i);
    const char first = tile::name(e).front();
    CHECK(tile::is_integer(e) == (first == 's' || (first == 'u' && !tile::is_scale(e))));
    CHECK(tile::is_float(e) == !(tile::is_integer(e) || e == element::boolean));
  }
  CHECK(tile::is_signed(element::e2m1));
  CHECK_FALSE(tile::is_signed(element::ue8m0));
  CHECK_FALSE(tile::is_signed(element::u32));
}

TEST_CASE("C++ types map to their elements and to storage of the right size") {
  CHECK(tile::element_of<float> == element::f32);
  CHECK(tile::element_of<std::int64_t> == element::s64);
  CHECK(tile::element_of<std::uint8_t> == element::u8);
  CHECK(tile::element_of<bf16> == element::bf16);
  CHECK(sizeof(bf16) == 2);
  CHECK(sizeof(e2m1) == 1);
  CHECK(sizeof(tf32) == 4);
  static_assert(tile::element_type<bf16> && !tile::element_type<char*>);
}

TEST_CASE("8-bit and smaller floats round to the nearest value, ties to even, and saturate") {
  check_small<e4m3>(256, 448);
  check_small<e5m2>(256, 57344);
  check_small<e3m2>(64, 28);
  check_small<e2m3>(64, 7.5);
  check_small<e2m1>(16, 6);
  CHECK(e4m3(1e9F).code == 0x7e);
  CHECK(e4m3(-1e9F).code == 0xfe);
  CHECK(std::isnan(static_cast<float>(e4m3::from_code(0x7f))));
}

TEST_CASE("bf16 and f16 round trip every code") {
  for (unsigned c = 0; c < 65536; ++c) {
    const auto b = bf16::from_code(static_cast<std::uint16_t>(c));
    const auto h = f16::from_code(static_cast<std::uint16_t>(c));
    const float fb = b, fh = h;
    if (std::isnan(fb) ? !std::isnan(static_cast<float>(bf16(fb))) : bf16(fb).code != c) FAIL_CHECK("bf16 code " << c);
    if (std::isnan(fh) ? !std::isnan(static_cast<float>(f16(fh))) : f16(fh).code != c) FAIL_CHECK("f16 code " << c);
  }
}

TEST_CASE("bf16 rounding equals the integer rule on float bits") {
  unsigned state = 99;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525U + 1013904223U;
    float f = 0;
    std::memcpy(&f, &state, 4);
    if (std::isnan(f)) continue;
    const unsigned expect = (state + 0x7fffU + ((state >> 16) & 1U)) >> 16;
    if (bf16(f).code != expect) FAIL_CHECK("float bits " << state);
  }
}

TEST_CASE("f16 agrees with the compiler's half conversions at the edges") {
  CHECK(f16(65504.0F).code == 0x7bff);
  CHECK(f16(65519.0F).code == 0x7bff);
  CHECK(f16(65520.0F).code == 0x7c00);
  CHECK(f16(std::ldexp(1.0F, -24)).code == 1);
  CHECK(f16(std::ldexp(1.0F, -25)).code == 0);
  CHECK(f16(std::ldexp(1.5F, -25)).code == 1);
  CHECK(f16(1.0F).code == 0x3c00);
  CHECK(f16(-0.0F).code == 0x8000);
  CHECK(f16(1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)).code == 0x3c01);  // one rounding from double, not two
}

TEST_CASE("tf32 keeps ten mantissa bits and ue8m0 rounds up to a power of two") {
  CHECK(static_cast<float>(tf32(1.0F + std::ldexp(1.0F, -11))) == 1.0F);
  CHECK(static_cast<float>(tf32(1.0F + 3 * std::ldexp(1.0F, -11))) == 1.0F + std::ldexp(1.0F, -9));
  CHECK(static_cast<float>(ue8m0(1.0F)) == 1.0F);
  CHECK(static_cast<float>(ue8m0(1.0001F)) == 2.0F);
  CHECK(ue8m0(0.0F).code == 0);
  CHECK(ue8m0(NAN).code == 0xff);
  CHECK(ue8m0(3e38F).code == 254);
  CHECK(std::isnan(static_cast<float>(ue8m0::from_code(0xff))));
}
