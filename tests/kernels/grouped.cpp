// host::grouped_gemm against float64 on every machine of the run.
#include <doctest/doctest.h>

#include <numeric>

#include "tests/support/error_of.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/ran.hpp"
#include "tests/support/skip.hpp"
#include "tlx/host/grouped.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using host::activation;
using problems::decode;

namespace {

struct grouped_case {
  std::vector<std::int32_t> sizes;
  std::int64_t n, k;
  activation activate = activation::none;
  tile::element type = tile::element::bf16;
  bool bias = false;
  std::int64_t pad = 0;                  // extra elements in each stored row
  std::int32_t before = 0, behind = 0;   // rows that belong to no group: NaN in a, and to stay NaN in c
};

using values = std::vector<std::uint16_t>;

void expect(test::machine_under_test& m, const grouped_case& c) {
  CAPTURE(cat(c.sizes.size(), " groups, N ", c.n, ", K ", c.k, ", activation ", static_cast<int>(c.activate), ", bias ", c.bias, ", pad ", c.pad));
  const auto groups = static_cast<std::int64_t>(c.sizes.size());
  std::vector<std::int32_t> offsets{c.before};
  for (const std::int32_t s : c.sizes) offsets.push_back(offsets.back() + s);
  const std::int64_t rows = offsets.back() + c.behind;
  values a = problems::random_values(static_cast<std::size_t>(rows * c.k), c.type, 1);
  for (std::int64_t i = 0; i < rows; ++i)
    if (i < c.before || i >= offsets.back()) std::fill_n(a.begin() + i * c.k, c.k, problems::nan_bits());
  const values b = problems::random_values(static_cast<std::size_t>(groups * c.n * c.k), c.type, 2, 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(c.k, 1))));
  problems::guarded on_a(*m.on, rows, c.k, c.k + c.pad), on_b(*m.on, groups * c.n, c.k, c.k + c.pad), out(*m.on, rows, c.n, c.n + c.pad);
  on_a.put(a);
  on_b.put(b);
  out.upload();
  device::buffer on_offsets(*m.on, offsets.size() * 4);
  on_offsets.write(offsets.data(), offsets.size() * 4);
  std::vector<float> bias(static_cast<std::size_t>(groups * c.n));
  std::mt19937_64 bits(3);
  std::normal_distribution<float> normal;
  for (float& x : bias) x = normal(bits);
  device::buffer on_bias(*m.on, std::max<std::size_t>(bias.size() * 4, 4));
  on_bias.write(bias.data(), bias.size() * 4);

  host::grouped_options how{.type = c.type, .activate = c.activate};
  if (c.bias) how.bias = on_bias.where();
  if (!test::ran(*m.on, [&] { host::grouped_gemm(*m.with, {on_a.data(), rows, c.k, on_a.stride}, {on_b.data(), c.k, c.n, on_b.stride, true}, {out.data(), rows, c.n, out.stride}, on_offsets.where(), groups, how); })) return;
  problems::verdict v;
  const values got = out.fetch(v);
  REQUIRE_MESSAGE(v.ok, v.why);
  const auto at = [&](const values& x, std::int64_t i) { return decode(x[static_cast<std::size_t>(i)], c.type); };
  std::int64_t group = -1;
  for (std::int64_t i = 0; i < rows; ++i) {
    while (group + 1 < groups && i >= offsets[static_cast<std::size_t>(group + 1)]) ++group;
    const bool owned = group >= 0 && i < offsets.back();
    for (std::int64_t j = 0; j < c.n; ++j) {
      const std::uint16_t stored = got[static_cast<std::size_t>(i * c.n + j)];
      if (!owned) {
        CHECK_MESSAGE(stored == problems::nan_bits(), cat("row ", i, " column ", j, " belongs to no group and was written"));
        if (stored != problems::nan_bits()) return;
        continue;
      }
      double sum = 0, weight = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        const double p = at(a, i * c.k + k) * at(b, (group * c.n + j) * c.k + k);
        sum += p, weight += std::abs(p);
      }
      const double entering = sum + (c.bias ? static_cast<double>(bias[static_cast<std::size_t>(group * c.n + j)]) : 0), expected = problems::activate(entering, c.activate);
      // truncating sums as in gemm_problem; activations are Lipschitz with constant below 1.13, tanh.approx has relative error 2^-11, the others a few 2^-22
      const double approximate = (c.activate == activation::gelu_tanh ? 0x1p-11 : 0x1p-20) * std::abs(entering);
      const double allowed = 1.13 * (static_cast<double>(c.k) / 16 + 2) * 0x1p-22 * weight + approximate + 1.01 * problems::roundoff(c.type) * std::abs(expected) + 0x1p-25;
      const double value = decode(stored, c.type);
      const bool right = std::abs(value - expected) <= allowed;
      CHECK_MESSAGE(right, cat("group ", group, " row ", i, " column ", j, ": ", value, ", expected ", expected, " within ", allowed));
      if (!right) return;
    }
  }
}

}  // namespace

TEST_CASE("each group of rows is multiplied by its own matrix: empty groups, groups around a tile, many groups") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.sizes = {5}, .n = 40, .k = 64});
    expect(m, {.sizes = {0, 127, 0, 128, 129, 0, 1, 260, 0}, .n = 264, .k = 136, .before = 3, .behind = 7});
    expect(m, {.sizes = {0, 0, 0}, .n = 40, .k = 64, .behind = 9});
    std::vector<std::int32_t> many(70);
    std::iota(many.begin(), many.end(), 0);
    for (std::int32_t& s : many) s = s % 5 * (s % 3);
    expect(m, {.sizes = many, .n = 24, .k = 40, .behind = 2});
  });
}

TEST_CASE("groups have biases of their own, any activation, any alignment") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const activation a : {activation::relu, activation::gelu, activation::gelu_tanh, activation::silu}) expect(m, {.sizes = {3, 0, 70}, .n = 72, .k = 72, .activate = a, .bias = true});
    expect(m, {.sizes = {20, 1, 0, 131}, .n = 264, .k = 72, .activate = activation::gelu, .type = tile::element::f16, .bias = true, .pad = 8, .before = 1});
    expect(m, {.sizes = {20, 1, 0, 131}, .n = 7, .k = 33, .bias = true, .pad = 1, .before = 2, .behind = 3});
    expect(m, {.sizes = {2, 0, 3}, .n = 8, .k = 0, .bias = true});
    expect(m, {.sizes = {}, .n = 8, .k = 8, .behind = 3});
  });
}

TEST_CASE("what does not fit a grouped product is refused by name") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const host::matrix a{4096, 64, 32}, b{4096, 32, 16, 0, true}, c{4096, 64, 16};
    const auto id = [&](const host::matrix& weights, std::int64_t groups, const host::grouped_options& how = {}) {
      return test::error_of([&] { host::grouped_gemm(*m.with, a, weights, c, 4096, groups, how); });
    };
    CHECK(id({4096, 32, 17, 0, true}, 2) == "gemm-shape");
    CHECK(id(b, -1) == "gemm-shape");
    CHECK(id({4096, 32, 16}, 2) == "gemm-layout");
    CHECK(id(b, 2, {.type = tile::element::e4m3}) == "gemm-type");
  });
}
