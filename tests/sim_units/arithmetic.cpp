// Rounded arithmetic against long double (exact for these sizes) and the hardware's rounding modes.
#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <random>

#include "sim/units/formats.hpp"

using namespace tlx::sim;

namespace {

int hardware_mode(rounding how) {
  return how == rounding::rz ? FE_TOWARDZERO : how == rounding::rm ? FE_DOWNWARD : how == rounding::rp ? FE_UPWARD : FE_TONEAREST;
}
template <class F>
float under(rounding how, F f) {
  std::fesetround(hardware_mode(how));
  const volatile float r = f();
  std::fesetround(FE_TONEAREST);
  return r;
}
bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b)); }

float sample(std::mt19937& random, int i) {
  std::uint32_t x = static_cast<std::uint32_t>(random());
  if (i % 2 == 0) x = (x & 0x807FFFFFU) | ((117U + x % 20U) << 23);
  if (i % 11 == 0) x &= 0x807FFFFFU;  // subnormal
  if (i % 13 == 0) x &= 0xFFFF0000U;
  if (i % 101 == 0) x = (x & 0x80000000U) | 0x7F800000U;
  if (i % 103 == 0) x &= 0x80000000U;
  return std::bit_cast<float>(x);
}

}  // namespace

TEST_CASE("f32 arithmetic agrees with the processor in all four roundings") {
  std::mt19937 random(4);
  for (int i = 0; i < 300000; ++i) {
    const volatile float a = sample(random, i), b = sample(random, i / 3), c = i % 5 == 0 ? -a : sample(random, i / 7);
    for (const rounding how : {rounding::rn, rounding::rz, rounding::rm, rounding::rp}) {
      INFO(a, " ", b, " ", c, " rounding ", static_cast<int>(how));
      REQUIRE(same(add_f32(a, b, {.how = how}), under(how, [&] { return a + b; })));
      REQUIRE(same(add_f32(a, c, {.how = how}), under(how, [&] { return a + c; })));
      REQUIRE(same(mul_f32(a, b, {.how = how}), under(how, [&] { return a * b; })));
      REQUIRE(same(div_f32(a, b, {.how = how}), under(how, [&] { return a / b; })));
      REQUIRE(same(sqrt_f32(a, {.how = how}), under(how, [&] { const float x = a; return std::sqrt(x); })));
      REQUIRE(same(fma_f32(a, b, c, {.how = how}), under(how, [&] { return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)); })));
    }
  }
}

TEST_CASE("ftz and sat act as PTX says") {
  CHECK(std::bit_cast<std::uint32_t>(add_f32(-1e-40F, 0.0F, {.ftz = true})) == 0);
  CHECK(std::bit_cast<std::uint32_t>(mul_f32(-1e-30F, 1e-10F, {.ftz = true})) == 0x80000000U);
  CHECK(mul_f32(-1e-30F, 1e-10F) != 0);
  CHECK(add_f32(3.0F, 1.0F, {.sat = true}) == 1.0F);
  CHECK(std::bit_cast<std::uint32_t>(add_f32(-3.0F, 1.0F, {.sat = true})) == 0);
  CHECK(std::bit_cast<std::uint32_t>(add_f32(HUGE_VALF, -HUGE_VALF, {.sat = true})) == 0);
  CHECK(std::bit_cast<std::uint32_t>(add_f32(HUGE_VALF, -HUGE_VALF)) == 0x7FFFFFFFU);
}

TEST_CASE("f16 and bf16 fma round once") {
  std::mt19937 random(5);
  for (const number format : {number::f16, number::bf16})
    for (int i = 0; i < 300000; ++i) {
      std::uint16_t x[3];
      for (std::uint16_t& v : x) v = static_cast<std::uint16_t>(random());
      if (i % 2 == 0 && format == number::bf16)
        for (std::uint16_t& v : x) v = static_cast<std::uint16_t>((v & 0x807FU) | ((120U + v % 14U) << 7));
      const long double a = static_cast<long double>(widen(format, x[0])), b = static_cast<long double>(widen(format, x[1])),
                        c = static_cast<long double>(widen(format, x[2]));
      // f16: at most 22 + 80 bits apart, so 64 bits may not hold the sum: then only the sign of the rest matters, which rounding to odd keeps.
      int unused = 0;
      const long double p = a * b;
      long double s = p + c;
      if (std::isfinite(s) && s != 0) {
        const long double t = s - p, rest = (p - (s - t)) + (c - t);
        if (rest != 0 && std::fmod(std::ldexp(std::frexp(std::fabs(s), &unused), 64), 2.0L) == 0)
          s = std::nextafter(s, rest > 0 ? HUGE_VALL : -HUGE_VALL);
      }
      // 64 bits to odd, then to the format by halves: a correct single rounding.
      const std::uint16_t got = fma_half(format, x[0], x[1], x[2]);
      if (std::isnan(static_cast<double>(s))) { REQUIRE(got == 0x7FFF); continue; }
      const double d = static_cast<double>(widen(format, got));
      const std::uint16_t away = static_cast<std::uint16_t>(got + 1), toward = static_cast<std::uint16_t>(got - 1);
      if (std::isinf(d)) continue;
      const long double error = std::fabs(static_cast<long double>(d) - s);
      for (const std::uint16_t n : {away, toward}) {
        if ((n ^ got) & 0x8000U) continue;
        const long double other = static_cast<long double>(widen(format, n));
        if (!std::isfinite(other)) continue;
        INFO(to_string(format), " ", x[0], " ", x[1], " ", x[2]);
        REQUIRE((error < std::fabs(other - s) || (error == std::fabs(other - s) && (got & 1U) == 0)));
      }
    }
}

TEST_CASE("min and max handle NaN and signed zeros") {
  const float nan = std::nanf("");
  CHECK(min_f32(nan, 1.0F) == 1.0F);
  CHECK(std::bit_cast<std::uint32_t>(max_f32(1.0F, nan, {.nan = true})) == 0x7FFFFFFFU);
  CHECK(std::signbit(min_f32(0.0F, -0.0F)));
  CHECK(std::signbit(min_f32(-0.0F, 0.0F)));
  CHECK_FALSE(std::signbit(max_f32(-0.0F, 0.0F)));
  CHECK_FALSE(std::signbit(max_f32(0.0F, -0.0F)));
  CHECK(max_f32(-3.0F, 2.0F, {.xorsign_abs = true}) == -3.0F);
  CHECK(min_half(number::f16, 0x3C00, 0xC000) == 0xC000);
  CHECK(max_half(number::bf16, 0x7FFF, 0x3F80) == 0x3F80);
}

TEST_CASE("approximate functions hit their exact points and stay inside the documented error") {
  CHECK(approx_f32(approximation::ex2, 0.0F, false) == 1.0F);
  CHECK(approx_f32(approximation::ex2, -HUGE_VALF, false) == 0.0F);
  CHECK(std::isnan(approx_f32(approximation::lg2, -1.0F, false)));
  CHECK(approx_f32(approximation::lg2, 0.0F, false) == -HUGE_VALF);
  CHECK(approx_f32(approximation::rcp, -0.0F, false) == -HUGE_VALF);
  CHECK(approx_f32(approximation::rsqrt, -0.0F, false) == -HUGE_VALF);
  CHECK(approx_f32(approximation::ex2, -130.0F, true) == 0.0F);
  CHECK(approx_f32(approximation::ex2, -130.0F, false) > 0.0F);
  std::mt19937 random(6);
  for (int i = 0; i < 100000; ++i) {
    const float x = sample(random, 2 * i + 2);
    if (!std::isfinite(x)) continue;
    const long double e = exp2l(static_cast<long double>(x));
    if (e < 1e38L && e > 1e-37L) REQUIRE(std::fabs(static_cast<long double>(approx_f32(approximation::ex2, x, false)) - e) <= e * 0x1p-22L);
    if (x > 0) REQUIRE(std::fabs(static_cast<long double>(approx_f32(approximation::rsqrt, x, false)) * sqrtl(static_cast<long double>(x)) - 1) <= 0x1p-22L);
    REQUIRE(std::fabs(static_cast<long double>(approx_f32(approximation::tanh, x, false)) - tanhl(static_cast<long double>(x))) <= 0x1p-11L);
  }
}
