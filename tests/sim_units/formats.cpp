// Every format against a table built from its definition, and every rounding against a search in that table.
#include "sim/units/formats.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace tlx::sim;

namespace {

struct definition {
  number format;
  int exponent, mantissa, bias;
  enum class specials { ieee, only_nan, none } special;
};
const definition definitions[] = {
    {number::f16, 5, 10, 15, definition::specials::ieee},   {number::bf16, 8, 7, 127, definition::specials::ieee},
    {number::e5m2, 5, 2, 15, definition::specials::ieee},   {number::e4m3, 4, 3, 7, definition::specials::only_nan},
    {number::e3m2, 3, 2, 3, definition::specials::none},    {number::e2m3, 2, 3, 1, definition::specials::none},
    {number::e2m1, 2, 1, 1, definition::specials::none},
};

/// The value of a code from the definition (-1)^s 2^(e - bias) (1 + m / 2^M); NaN and infinity by the format's rule.
double by_definition(const definition& d, std::uint32_t code) {
  const std::uint32_t m = code & ((1U << d.mantissa) - 1U), e = (code >> d.mantissa) & ((1U << d.exponent) - 1U), s = (code >> (d.mantissa + d.exponent)) & 1U;
  const std::uint32_t all_e = (1U << d.exponent) - 1U, all_m = (1U << d.mantissa) - 1U;
  const double sign = s != 0 ? -1.0 : 1.0;
  if (d.special == definition::specials::ieee && e == all_e) return m == 0 ? sign * HUGE_VAL : std::nan("");
  if (d.special == definition::specials::only_nan && e == all_e && m == all_m) return std::nan("");
  const double fraction = static_cast<double>(m) / static_cast<double>(1U << d.mantissa);
  return sign * (e == 0 ? std::pow(2.0, 1 - d.bias) * fraction : std::pow(2.0, static_cast<int>(e) - d.bias) * (1 + fraction));
}

struct entry { double value; std::uint32_t code; };
std::vector<entry> positive_values(const definition& d) {
  std::vector<entry> all;
  for (std::uint32_t c = 0; c < 1U << (d.exponent + d.mantissa); ++c)
    if (std::isfinite(by_definition(d, c))) all.push_back({by_definition(d, c), c});
  std::sort(all.begin(), all.end(), [](const entry& x, const entry& y) { return x.value < y.value; });
  return all;
}

/// Rounds by looking for the neighbours. Beyond the last value, the next one would be at the same step.
std::uint32_t by_search(const definition& d, const std::vector<entry>& table, double value, rounding how, bool satfinite) {
  const bool negative = std::signbit(value);
  const std::uint32_t sign = negative ? 1U << (d.exponent + d.mantissa) : 0U;
  const double x = std::fabs(value);
  const bool has_infinity = d.special == definition::specials::ieee && !satfinite;
  const std::uint32_t infinity = ((1U << d.exponent) - 1U) << d.mantissa;
  const entry last = table.back();
  if (std::isinf(x)) return sign | (has_infinity ? infinity : last.code);
  entry low = last, high{last.value + (last.value - table[table.size() - 2].value), has_infinity ? infinity : last.code};
  if (x >= high.value) {
    const bool stays = how == rounding::rz || (how == rounding::rm && !negative) || (how == rounding::rp && negative);
    return sign | (stays ? last.code : high.code);
  }
  if (x < last.value) {
    const auto above = std::upper_bound(table.begin(), table.end(), x, [](double v, const entry& e) { return v < e.value; });
    high = *above;
    low = *(above - 1);
  }
  if (x == low.value) return sign | low.code;
  const double down = x - low.value, up = high.value - x;
  bool go_up = false;
  switch (how) {
    case rounding::rn: go_up = up < down || (up == down && (low.code & 1U) != 0); break;
    case rounding::rna: go_up = up <= down; break;
    case rounding::rm: go_up = negative; break;
    case rounding::rp: go_up = !negative; break;
    default: break;
  }
  return sign | (go_up ? high.code : low.code);
}

}  // namespace

TEST_CASE("every code of every format has the value of its definition") {
  for (const definition& d : definitions) {
    for (std::uint32_t c = 0; c < 1U << (1 + d.exponent + d.mantissa); ++c) {
      const double want = by_definition(d, c);
      const double got = static_cast<double>(widen(d.format, c));
      INFO(to_string(d.format), " code ", c);
      if (std::isnan(want)) {
        REQUIRE(std::isnan(got));
      } else {
        REQUIRE(got == want);
        REQUIRE(std::signbit(got) == std::signbit(want));
      }
    }
  }
  for (std::uint32_t c = 0; c < 255; ++c) CHECK(static_cast<double>(widen(number::ue8m0, c)) == std::pow(2.0, static_cast<int>(c) - 127));
  CHECK(std::isnan(widen(number::ue8m0, 255)));
  for (std::uint32_t c = 0; c < 127; ++c) CHECK(widen(number::ue4m3, c) == widen(number::e4m3, c));
  CHECK(std::isnan(widen(number::ue4m3, 127)));
}

TEST_CASE("every value goes back to its own code") {
  for (const definition& d : definitions)
    for (std::uint32_t c = 0; c < 1U << (1 + d.exponent + d.mantissa); ++c) {
      const double value = by_definition(d, c);
      if (std::isnan(value)) continue;
      INFO(to_string(d.format), " code ", c);
      for (const rounding how : {rounding::rn, rounding::rz, rounding::rm, rounding::rp, rounding::rna}) REQUIRE(narrow(d.format, value, {.how = how}) == c);
    }
}

TEST_CASE("every rounding agrees with a search for the neighbours") {
  std::mt19937_64 random(1);
  for (const definition& d : definitions) {
    const std::vector<entry> table = positive_values(d);
    std::vector<double> samples = {0.0, -0.0, HUGE_VAL, -HUGE_VAL, 1e300, -1e300, 5e-324, table.back().value * 1.01};
    for (int i = 0; i < 6000; ++i) {
      const std::size_t at = random() % (table.size() - 1);
      const double low = table[at].value, high = table[at + 1].value;
      const double mid = low + (high - low) / 2;
      for (const double v : {mid, std::nextafter(mid, 0.0), std::nextafter(mid, HUGE_VAL), low + (high - low) * std::ldexp(static_cast<double>(random() >> 11), -53)})
        samples.push_back((random() & 1U) != 0 ? -v : v);
      samples.push_back(std::ldexp(1.0 + std::ldexp(static_cast<double>(random() >> 12), -52), static_cast<int>(random() % 320) - 160));
    }
    const double step = table.back().value - table[table.size() - 2].value;
    for (const double f : {0.25, 0.5, 0.75, 1.0, 1.5}) samples.push_back(table.back().value + f * step), samples.push_back(-(table.back().value + f * step));
    for (const double v : samples)
      for (const rounding how : {rounding::rn, rounding::rz, rounding::rm, rounding::rp, rounding::rna})
        for (const bool satfinite : {false, true}) {
          INFO(to_string(d.format), " value ", v, " rounding ", static_cast<int>(how));
          REQUIRE(narrow(d.format, v, {.how = how, .satfinite = satfinite}) == by_search(d, table, v, how, satfinite));
        }
  }
}

TEST_CASE("the fast paths equal the general ones") {
  std::mt19937 random(2);
  for (std::uint32_t c = 0; c < 65536; ++c) {
    const float v = f16_to_f32(static_cast<std::uint16_t>(c));
    if (!std::isnan(v)) REQUIRE(f32_to_f16_rn(v) == c);
  }
  for (int i = 0; i < 2000000; ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(random());
    if (i % 3 == 0) x = (x & 0x807FFFFFU) | ((96U + x % 60U) << 23);
    if (i % 7 == 0) x &= 0xFFFFF000U;
    const float v = std::bit_cast<float>(x);
    REQUIRE(f32_to_f16_rn(v) == narrow(number::f16, static_cast<double>(v)));
    REQUIRE(f32_to_bf16_rn(v) == narrow(number::bf16, static_cast<double>(v)));
  }
}

TEST_CASE("tf32 keeps ten fraction bits in the place of an f32") {
  CHECK(narrow(number::tf32, 1.0 + 0x1p-11, {.how = rounding::rna}) == std::bit_cast<std::uint32_t>(1.0F + 0x1p-10F));
  CHECK(narrow(number::tf32, 1.0 + 0x1p-11, {.how = rounding::rn}) == std::bit_cast<std::uint32_t>(1.0F));
  CHECK(narrow(number::tf32, 1.0 + 0x1.8p-10, {.how = rounding::rn}) == std::bit_cast<std::uint32_t>(1.0F + 0x1p-9F));
  CHECK(narrow(number::tf32, -1.0 - 0x1p-11, {.how = rounding::rz}) == std::bit_cast<std::uint32_t>(-1.0F));
  CHECK(narrow(number::tf32, 3.4e38 * 1.5, {.satfinite = true}) == 0x7F7FE000U);
  CHECK(narrow(number::tf32, 3.4e38 * 1.5) == 0x7F800000U);
  CHECK(widen(number::tf32, 0x3F801FFFU) == 1.0F);
}

TEST_CASE("NaN, relu and ftz follow cvt") {
  const double nan = std::nan("");
  CHECK(narrow(number::f16, nan) == 0x7FFF);
  CHECK(narrow(number::bf16, nan, {.satfinite = true}) == 0x7FFF);
  CHECK(narrow(number::e4m3, -nan) == 0x7F);
  CHECK(narrow(number::e5m2, nan) == 0x7F);
  CHECK(narrow(number::e2m1, -nan) == 0x7);
  CHECK(narrow(number::e2m3, nan) == 0x1F);
  CHECK(narrow(number::e3m2, nan) == 0x1F);
  CHECK(narrow(number::ue8m0, nan) == 0xFF);
  CHECK(narrow(number::f16, -3.0, {.relu = true}) == 0);
  CHECK(narrow(number::f16, nan, {.relu = true}) == 0x7FFF);
  CHECK(narrow(number::bf16, -1e-40F, {.ftz = true}) == 0x8000);
  CHECK(narrow(number::bf16, -1e-40F) != 0x8000);
  CHECK(narrow(number::e4m3, 449.0) == 0x7E);
  CHECK(narrow(number::e4m3, -HUGE_VAL) == 0xFE);
}

TEST_CASE("ue8m0 is the exponent, down with rz and up with rp") {
  for (int e = -127; e <= 127; ++e) {
    const double v = std::ldexp(1.0, e);
    CHECK(narrow(number::ue8m0, v, {.how = rounding::rz}) == static_cast<std::uint32_t>(e + 127));
    CHECK(narrow(number::ue8m0, v, {.how = rounding::rp}) == static_cast<std::uint32_t>(e + 127));
    CHECK(narrow(number::ue8m0, v * 1.001, {.how = rounding::rz}) == static_cast<std::uint32_t>(e + 127));
    CHECK(narrow(number::ue8m0, v * 1.001, {.how = rounding::rp}) == static_cast<std::uint32_t>(std::min(e + 128, 254)));
  }
  CHECK(narrow(number::ue8m0, HUGE_VAL, {.how = rounding::rp, .satfinite = true}) == 254);
}

TEST_CASE("random rounding goes up exactly for the carries") {
  // 1 + 3/8 of a bf16 step: 16 discarded bits of an f32, 0x6000 of 0x10000.
  const float v = 1.0F + 0x1p-7F * 0.375F;
  int ups = 0;
  for (std::uint32_t r = 0; r < 65536; ++r)
    ups += narrow(number::bf16, v, {.how = rounding::rs, .random_bits = r, .random_width = 16}) == 0x3F81 ? 1 : 0;
  CHECK(ups == 0x6000);
}

TEST_CASE("float to integer clamps and treats NaN as PTX says") {
  CHECK(to_integer(2.5, 32, true, rounding::rn, false) == 2);
  CHECK(to_integer(3.5, 32, true, rounding::rn, false) == 4);
  CHECK(static_cast<std::int64_t>(to_integer(-2.5, 32, true, rounding::rm, false)) == -3);
  CHECK(static_cast<std::int32_t>(to_integer(-1e20, 32, true, rounding::rz, false)) == std::numeric_limits<std::int32_t>::min());
  CHECK(to_integer(1e20, 32, true, rounding::rz, false) == 0x7FFFFFFF);
  CHECK(to_integer(1e20, 32, false, rounding::rz, false) == 0xFFFFFFFF);
  CHECK(to_integer(-1.0, 32, false, rounding::rz, false) == 0);
  CHECK(to_integer(1e30, 64, true, rounding::rz, false) == 0x7FFFFFFFFFFFFFFF);
  CHECK(to_integer(1e30, 64, false, rounding::rz, false) == ~std::uint64_t{0});
  CHECK(to_integer(std::nan(""), 32, true, rounding::rz, false) == 0);
  CHECK(to_integer(std::nan(""), 32, true, rounding::rz, true) == 0x80000000);
  CHECK(to_integer(std::nan(""), 64, false, rounding::rz, false) == 0x8000000000000000);
  CHECK(to_integer(300.0, 8, false, rounding::rz, false) == 255);
}

TEST_CASE("integer to float rounds once") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t x = random() >> (random() % 64);
    REQUIRE(from_integer(x, false, number::f32, rounding::rn) == std::bit_cast<std::uint32_t>(static_cast<float>(x)));
    REQUIRE(from_integer(x, true, number::f64, rounding::rn) == std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(x))));
    const long double exact = static_cast<long double>(static_cast<std::int64_t>(x));
    const long double down = static_cast<long double>(std::bit_cast<float>(static_cast<std::uint32_t>(from_integer(x, true, number::f32, rounding::rm))));
    const long double up = static_cast<long double>(std::bit_cast<float>(static_cast<std::uint32_t>(from_integer(x, true, number::f32, rounding::rp))));
    REQUIRE(down <= exact);
    REQUIRE(up >= exact);
    REQUIRE((down == up) == (down == exact));
  }
  CHECK(from_integer(65520, false, number::f16, rounding::rn) == 0x7C00);
  CHECK(from_integer(65520, false, number::f16, rounding::rz) == 0x7BFF);
}
