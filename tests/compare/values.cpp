// Encodings are those of tlx/tile/element.hpp; integers are two's complement.
#include "tests/compare/values.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tlx::compare {

int width(element e) { return e == element::boolean ? 1 : tile::bits(e) / 8; }

std::uint64_t encode(element e, double v) {
  switch (e) {
    case element::f64: return std::bit_cast<std::uint64_t>(v);
    case element::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(v));
    case element::tf32: return std::bit_cast<std::uint32_t>(static_cast<float>(tf32(static_cast<float>(v))));
    case element::f16: return f16(static_cast<float>(v)).code;
    case element::bf16: return bf16(static_cast<float>(v)).code;
    case element::e4m3: return e4m3(static_cast<float>(v)).code;
    case element::e5m2: return e5m2(static_cast<float>(v)).code;
    case element::boolean: return v != 0 ? 1 : 0;
    default: break;
  }
  const auto whole = static_cast<std::int64_t>(v);
  return static_cast<std::uint64_t>(whole) & (width(e) == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * width(e))) - 1);
}

namespace {
template <class T>
double value_of_code(std::uint64_t bits) {
  T x;
  x.code = static_cast<decltype(x.code)>(bits);
  return static_cast<double>(static_cast<float>(x));
}
}  // namespace

double decode(element e, std::uint64_t bits) {
  switch (e) {
    case element::f64: return std::bit_cast<double>(bits);
    case element::f32:
    case element::tf32: return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case element::f16: return value_of_code<f16>(bits);
    case element::bf16: return value_of_code<bf16>(bits);
    case element::e4m3: return value_of_code<e4m3>(bits);
    case element::e5m2: return value_of_code<e5m2>(bits);
    case element::s8: return static_cast<std::int8_t>(bits);
    case element::s16: return static_cast<std::int16_t>(bits);
    case element::s32: return static_cast<std::int32_t>(bits);
    case element::s64: return static_cast<double>(static_cast<std::int64_t>(bits));
    default: return static_cast<double>(bits);
  }
}

namespace {

struct float_shape { int exponent_bits, fraction_bits; bool infinities; };
float_shape shape_of(element e) {
  switch (e) {
    case element::f64: return {11, 52, true};
    case element::f32:
    case element::tf32: return {8, 23, true};
    case element::f16: return {5, 10, true};
    case element::bf16: return {8, 7, true};
    case element::e4m3: return {4, 3, false};
    default: return {5, 2, true};
  }
}

std::vector<std::uint64_t> special_floats(element e) {
  const float_shape f = shape_of(e);
  const std::uint64_t one_ulp = 1, hidden = std::uint64_t{1} << f.fraction_bits, top = ((std::uint64_t{1} << f.exponent_bits) - 1) << f.fraction_bits;
  std::vector<std::uint64_t> positive = {0, one_ulp, 2, 3, hidden - 1, hidden / 2, hidden, hidden + 1, hidden * 2 - 1, top - 1, top - 2, top - hidden, top, top + 1, top + hidden - 1, top + hidden / 2, top + hidden / 2 + 1};
  for (const double v : {0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 5.5, 10.0, 100.5, 127.5, 128.0, 255.5, 256.0, 448.0, 464.0, 465.0, 480.0, 32767.5, 32768.0, 57344.0, 61440.0, 65504.0, 65519.0, 65520.0, 65536.0, 131072.0,
                         2147483520.0, 2147483648.0, 4294967040.0, 4294967296.0, 9223371487098961920.0, 9223372036854775808.0, 18446744073709551616.0, 3.0e38, 0x1p-6, 0x1p-7, 0x1p-9, 0x1p-10, 0x1p-14, 0x1p-15, 0x1p-16, 0x1p-17, 0x1.8p-17, 0x1p-24,
                         0x1p-25, 0x1.8p-25, 0x1p-126, 0x1p-127, 0x1p-133, 0x1p-134, 0x1.8p-134, 0x1p-149, 0x1p-150, 3.14159274, 1.57079637, 0.69314718, 88.0, 126.0, 127.99, 149.0, 150.0}) {
    const std::uint64_t code = encode(e, v);
    positive.push_back(code);
    if (code + 1 < top) positive.push_back(code + 1);
    if (code > 1 && code < top) positive.push_back(code - 1);
  }
  // Ties and their neighbours on the way to narrower types: one and a half ulp of f16, bf16, tf32, e4m3, e5m2 above one.
  if (f.fraction_bits > 7)
    for (const int narrow : {10, 7, 3, 2})
      if (narrow < f.fraction_bits)
        for (const std::uint64_t half : {1, 3}) {
          const std::uint64_t code = encode(e, 1.0) + half * (std::uint64_t{1} << (f.fraction_bits - narrow - 1));
          for (const std::uint64_t c : {code - 1, code, code + 1}) positive.push_back(c);
        }
  const std::uint64_t limit = f.infinities ? top + hidden : (std::uint64_t{1} << (f.exponent_bits + f.fraction_bits));
  std::vector<std::uint64_t> all;
  for (const std::uint64_t sign : {std::uint64_t{0}, std::uint64_t{1} << (f.exponent_bits + f.fraction_bits)})
    for (const std::uint64_t c : positive)
      if (c < limit) all.push_back(c | sign);
  return all;
}

std::vector<std::uint64_t> special_integers(element e) {
  const int n = 8 * width(e);
  const std::uint64_t mask = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
  std::vector<std::uint64_t> all;
  for (const int shift : {0, 1, 2, 3, 4, 5, 7, 8, 11, 15, 16, 23, 24, 25, 31, 32, 33, 52, 53, 62, 63})
    if (shift < n)
      for (const std::uint64_t base : {std::uint64_t{1} << shift, ~std::uint64_t{0} << shift})
        for (const std::uint64_t step : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1}}) all.push_back((base + step) & mask);
  all.push_back(mask >> 1);
  all.push_back(0x5555555555555555ULL & mask);
  return all;
}

}  // namespace

const std::vector<std::uint64_t>& special(element e) {
  static const auto all = [] {
    std::array<std::vector<std::uint64_t>, tile::element_count> made;
    for (int i = 0; i < tile::element_count; ++i) {
      const auto of = static_cast<element>(i);
      if (tile::bits(of) < 8 || tile::is_scale(of) || of == element::e2m1x2) continue;
      made[static_cast<std::size_t>(i)] = of == element::boolean ? std::vector<std::uint64_t>{0, 1} : tile::is_float(of) ? special_floats(of) : special_integers(of);
    }
    return made;
  }();
  return all[static_cast<std::size_t>(e)];
}

std::uint64_t draw_one(generator& g, element e, draw how) {
  const std::uint64_t mask = width(e) == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * width(e))) - 1;
  if (e == element::boolean) return g.word() & 1;
  if (how == draw::mixed) {
    const int which = g.between(0, 5);
    how = which < 2 ? draw::moderate : which == 2 ? draw::spread : draw::bits;
    if (which > 3) return g.of(special(e));
  }
  if (!tile::is_float(e)) {
    if (how == draw::bits || how == draw::spread) return (g.word() >> g.between(0, 8 * width(e) - 1)) & mask;
    return encode(e, tile::is_signed(e) ? g.between(-50, 50) : g.between(0, 100));
  }
  if (how == draw::bits) return g.word() & mask;
  if (how == draw::moderate) return encode(e, (g.unit() * 2 - 1) * 4);
  const float_shape f = shape_of(e);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const int reach = how == draw::tame ? bias / 3 : bias - 1;
  const double v = std::ldexp(1 + g.unit(), g.between(-std::min(reach, 60), std::min(reach, 60)));
  return encode(e, (g.word() & 1) ? -v : v);
}

bytes draw_many(generator& g, element e, std::size_t count, draw how) {
  bytes all(count * static_cast<std::size_t>(width(e)));
  for (std::size_t i = 0; i < count; ++i) put(all, e, i, draw_one(g, e, how));
  return all;
}

std::uint64_t get(const bytes& from, element e, std::size_t index) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from.data() + index * static_cast<std::size_t>(width(e)), static_cast<std::size_t>(width(e)));
  return bits;
}
void put(bytes& to, element e, std::size_t index, std::uint64_t bits) { std::memcpy(to.data() + index * static_cast<std::size_t>(width(e)), &bits, static_cast<std::size_t>(width(e))); }

}  // namespace tlx::compare
