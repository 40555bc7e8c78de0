// host::scaled_gemm (MXFP8, MXFP4, NVFP4) against float64, with scales and operands decoded here from their codes, on every machine of the run that has such products.
#include "tlx/host/scaled.hpp"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/error_of.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/ran.hpp"
#include "tests/support/skip.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using host::activation;
using tile::element;

namespace {

struct scaled_case {
  std::int64_t m, n, k;
  element type = element::e4m3, type_b = element::e4m3, scales = element::ue8m0, type_c = element::bf16;
  float alpha = 1;
  bool bias = false;
  activation activate = activation::none;
  std::int64_t pad_c = 0;
};

// By the definitions of the formats (OCP MX 1.0; NVFP4), not by the library's own tables.
double decoded(unsigned code, element e) {
  const auto small = [&](int exponent_bits, int mantissa_bits, int bias) {
    const int mantissa = static_cast<int>(code & ((1U << mantissa_bits) - 1)), exponent = static_cast<int>(code >> mantissa_bits & ((1U << exponent_bits) - 1));
    const double sign = code >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    return sign * (exponent ? std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits) : std::ldexp(mantissa, 1 - bias - mantissa_bits));
  };
  switch (e) {
    case element::e4m3: return small(4, 3, 7);
    case element::e5m2: return small(5, 2, 15);
    case element::e2m1: return small(2, 1, 1);
    case element::ue4m3: return small(4, 3, 7);
    default: return std::ldexp(1.0, static_cast<int>(code) - 127);  // ue8m0
  }
}
bool is_finite_code(unsigned code, element e) { return e == element::e4m3 ? (code & 0x7f) != 0x7f : e == element::e5m2 ? (code & 0x7c) != 0x7c : true; }
int block_of(element scales) { return scales == element::ue4m3 ? 16 : 32; }

// A matrix with its scales: rows of K numbers with K contiguous.
struct operand {
  std::int64_t rows, k, row_bytes;
  element type, scale_type;
  std::vector<std::uint8_t> data, scales;
  device::buffer on_data, on_scales;

  operand(device::machine& m, std::int64_t r, std::int64_t numbers, element t, element s, std::uint64_t seed)
      : rows(r), k(numbers), row_bytes((numbers * (t == element::e2m1 ? 4 : 8) / 8 + 15) / 16 * 16), type(t), scale_type(s), data(static_cast<std::size_t>(std::max<std::int64_t>(r * row_bytes, 16)), 0xff),
        scales(static_cast<std::size_t>(std::max<std::int64_t>(host::scale_bytes(r, numbers, s), 512))), on_data(m, data.size()), on_scales(m, scales.size()) {
    std::mt19937_64 bits(seed);
    const auto scale = [&] { return static_cast<std::uint8_t>(s == element::ue4m3 ? 0x28 + bits() % 32 : 119 + bits() % 16); };
    // Behind the last block anything but NaN; rows that are not there: NaN.
    for (std::uint8_t& x : scales) x = s == element::ue4m3 ? 0x7f : 0xff;
    const std::int64_t blocks = k / block_of(s), filled = (blocks + 3) / 4 * 4;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < filled; ++j) scales[static_cast<std::size_t>(place(i, j))] = scale();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < k; ++j) {
        unsigned code = 0;
        do code = static_cast<unsigned>(bits() & (t == element::e2m1 ? 0xf : 0xff));
        while (!is_finite_code(code, t));
        std::uint8_t& at = data[static_cast<std::size_t>(i * row_bytes + (t == element::e2m1 ? j / 2 : j))];
        at = static_cast<std::uint8_t>(t != element::e2m1 ? code : j % 2 == 0 ? code : at | code << 4);
      }
    on_data.write(data.data(), data.size());
    on_scales.write(scales.data(), scales.size());
  }
  // cuBLAS's layout, written out again.
  std::int64_t place(std::int64_t row, std::int64_t block) const {
    const std::int64_t units_of_k = (k / block_of(scale_type) + 3) / 4, unit = row / 128 * units_of_k + block / 4, inside = row % 128;
    return unit * 512 + (inside % 32) * 16 + (inside / 32) * 4 + block % 4;
  }
  double at(std::int64_t row, std::int64_t j) const {
    const std::uint8_t byte = data[static_cast<std::size_t>(row * row_bytes + (type == element::e2m1 ? j / 2 : j))];
    const unsigned code = type != element::e2m1 ? byte : j % 2 == 0 ? byte & 0xfU : byte >> 4;
    return decoded(code, type) * decoded(scales[static_cast<std::size_t>(place(row, j / block_of(scale_type)))], scale_type);
  }
  std::int64_t stride() const { return type == element::e2m1 ? row_bytes * 2 : row_bytes; }
};

bool has_scaled_products(const test::machine_under_test& m) { return m.on->about().target != "sm_90a"; }

void expect(test::machine_under_test& m, const scaled_case& c, std::uint64_t seed = 1) {
  if (!has_scaled_products(m)) return;
  CAPTURE(cat(tile::name(c.type), " ", tile::name(c.type_b), " ", tile::name(c.scales), " ", c.m, "x", c.n, "x", c.k, " into ", tile::name(c.type_c), ", bias ", c.bias, ", seed ", seed));
  operand a(*m.on, c.m, c.k, c.type, c.scales, seed), b(*m.on, c.n, c.k, c.type_b, c.scales, seed + 100);
  // c with a border of NaN, in bytes of 0xff of whatever type.
  const std::int64_t size = tile::bits(c.type_c) / 8, stride = c.n + c.pad_c, before = 64;
  std::vector<std::uint8_t> result(static_cast<std::size_t>((before * 2 + c.m * stride) * size), 0xff);
  device::buffer on_c(*m.on, result.size());
  on_c.write(result.data(), result.size());
  std::vector<float> bias(static_cast<std::size_t>(c.n));
  std::mt19937_64 bits(seed + 7);
  std::normal_distribution<float> normal;
  for (float& x : bias) x = normal(bits);
  device::buffer on_bias(*m.on, std::max<std::size_t>(bias.size() * 4, 4));
  on_bias.write(bias.data(), bias.size() * 4);

  host::scaled_options how{.type = c.type, .type_b = c.type_b, .scales = c.scales, .type_c = c.type_c, .alpha = c.alpha, .activate = c.activate};
  if (c.bias) how.bias = on_bias.where();
  const host::matrix on_a{a.on_data.where(), c.m, c.k, a.stride()}, on_b{b.on_data.where(), c.k, c.n, b.stride(), true}, out{on_c.where() + static_cast<std::uint64_t>(before * size), c.m, c.n, stride};
  if (!test::ran(*m.on, [&] { host::scaled_gemm(*m.with, on_a, a.on_scales.where(), on_b, b.on_scales.where(), out, how); })) return;
  on_c.read(result.data(), result.size());
  const auto stored = [&](std::int64_t i) {
    std::uint32_t word = 0;
    std::memcpy(&word, result.data() + i * size, static_cast<std::size_t>(size));
    float f;
    std::memcpy(&f, &word, 4);
    return c.type_c == element::f32 ? static_cast<double>(f) : problems::decode(static_cast<std::uint16_t>(word), c.type_c);
  };
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(result.size()) / size; ++i) {
    const std::int64_t at = i - before;
    if (at >= 0 && at < c.m * stride && at % stride < c.n) continue;
    bool untouched = true;
    for (std::int64_t byte = 0; byte < size; ++byte) untouched = untouched && result[static_cast<std::size_t>(i * size + byte)] == 0xff;
    REQUIRE_MESSAGE(untouched, cat("wrote outside the result, at element ", at));
  }
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = 0, weight = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        const double p = a.at(i, k) * b.at(j, k);
        sum += p, weight += std::abs(p);
      }
      sum *= static_cast<double>(c.alpha), weight *= std::abs(static_cast<double>(c.alpha));
      const double entering = sum + (c.bias ? static_cast<double>(bias[static_cast<std::size_t>(j)]) : 0), expected = problems::activate(entering, c.activate);
      // Operands, scales and products are exact; sums of an instruction's 32 products and the accumulator lose 2^-22 of their magnitude (docs/numerics.md); alpha and bias round once each.
      const double rounding = c.type_c == element::f32 ? 0x1p-24 : problems::roundoff(c.type_c);
      const double allowed = 1.13 * (static_cast<double>(c.k) / 16 + 2) * 0x1p-22 * weight + 0x1p-20 * std::abs(entering) + 1.01 * rounding * std::abs(expected) + 0x1p-25;
      const double value = stored(before + i * stride + j);
      const bool right = std::abs(value - expected) <= allowed;
      CHECK_MESSAGE(right, cat("row ", i, " column ", j, ": ", value, ", expected ", expected, " within ", allowed));
      if (!right) return;
    }
}

constexpr scaled_case mxfp4{.m = 0, .n = 0, .k = 0, .type = element::e2m1, .type_b = element::e2m1}, nvfp4{.m = 0, .n = 0, .k = 0, .type = element::e2m1, .type_b = element::e2m1, .scales = element::ue4m3};

}  // namespace

TEST_CASE("MXFP8: e4m3 and e5m2 with a power of two for each 32 numbers of K") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.m = 128, .n = 128, .k = 128});
    expect(m, {.m = 130, .n = 136, .k = 352});
    expect(m, {.m = 260, .n = 392, .k = 128 * 7, .bias = true});
    expect(m, {.m = 40, .n = 24, .k = 32, .type_b = element::e5m2, .type_c = element::f32});
    expect(m, {.m = 140, .n = 24, .k = 160, .type = element::e5m2, .type_c = element::f16, .alpha = 0x1p-36f});
    expect(m, {.m = 40, .n = 24, .k = 64, .type = element::e5m2, .type_b = element::e5m2, .type_c = element::f32});
  });
}

TEST_CASE("MXFP4 and NVFP4: two e2m1 in a byte, scales for each 32 or 16 numbers of K") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (scaled_case c : {mxfp4, nvfp4}) {
      c.m = 128, c.n = 128, c.k = 256;
      expect(m, c);
      c.m = 150, c.n = 264, c.k = 1056, c.bias = true, c.alpha = 0.375f;
      expect(m, c);
      c.m = 33, c.n = 16, c.k = 32, c.type_c = element::f32, c.activate = activation::silu;
      expect(m, c);
    }
    scaled_case odd = nvfp4;  // a block of 16 beyond the last whole 16 bytes of a row
    odd.m = 20, odd.n = 40, odd.k = 304;
    expect(m, odd);
  });
}

TEST_CASE("results of any width, in rows of any alignment") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.m = 131, .n = 7, .k = 96, .bias = true, .pad_c = 1});
    expect(m, {.m = 20, .n = 133, .k = 160, .type_c = element::f32, .activate = activation::gelu});
    expect(m, {.m = 0, .n = 16, .k = 32});
    expect(m, {.m = 16, .n = 0, .k = 32});
    expect(m, {.m = 16, .n = 16, .k = 0, .bias = true});
  });
}

TEST_CASE("block-scaled products under many schedules of the simulator") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    sim::machine* s = m.simulator();
    if (!s || !has_scaled_products(m)) return;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      s->set_seed(seed);
      scaled_case c = seed % 3 == 0 ? scaled_case{.m = 0, .n = 0, .k = 0} : seed % 3 == 1 ? mxfp4 : nvfp4;
      c.m = 129, c.n = 256, c.k = c.type == element::e2m1 ? 1792 : 896, c.bias = seed % 2 == 0;
      expect(m, c, seed);
    }
    s->set_seed(1);
  });
}

TEST_CASE("tiles of 256 columns, for long products of many tiles") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    if (m.is_gpu()) return;  // of two processors: three tiles are many
    expect(m, {.m = 129, .n = 264, .k = 4096, .bias = true});
    scaled_case c = nvfp4;
    c.m = 129, c.n = 264, c.k = 4096 + 64;
    expect(m, c);
  });
}

TEST_CASE("what does not fit a block-scaled product is refused by name") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const host::matrix a{4096, 64, 128}, b{4096, 128, 16, 0, true}, c{4096, 64, 16};
    const auto id = [&](const host::matrix& left, const host::matrix& right, const host::scaled_options& how = {}) {
      return test::error_of([&] { host::scaled_gemm(*m.with, left, 4096, right, 4096, c, how); });
    };
    CHECK(id({4096, 64, 96}, b) == "gemm-shape");
    CHECK(id({4096, 64, 136}, {4096, 136, 16, 0, true}) == "gemm-scales");
    CHECK(id(a, {4096, 128, 16}) == "gemm-layout");
    CHECK(id({4104, 64, 128}, b) == "gemm-layout");
    CHECK(id(a, b, {.type = element::bf16}) == "gemm-type");
    CHECK(id(a, b, {.scales = element::ue4m3}) == "gemm-type");
    CHECK(id(a, b, {.type = element::e2m1, .type_b = element::e4m3}) == "gemm-type");
    if (!has_scaled_products(m)) CHECK(id(a, b) == "scaled-product-missing");
  });
}
