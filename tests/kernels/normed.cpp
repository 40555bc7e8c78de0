// host::normed_gemm and host::gemm_normed against float64 on every machine of the run.
#include <doctest/doctest.h>


#include "tests/support/error_of.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/ran.hpp"
#include "tests/support/skip.hpp"
#include "tlx/host/normed.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using host::activation;
using problems::decode;

namespace {

struct normed_case {
  std::int64_t m, n, k;
  bool rows_of_c = false;
  activation activate = activation::none;
  tile::element type = tile::element::bf16;
  bool bias = false, residual = false, gain = false, before = false;
  std::int64_t pad = 0;  // extra elements in each stored row
  float epsilon = 1e-3f;
};

using values = std::vector<std::uint16_t>;

struct input {
  values dense;
  problems::guarded on;
  input(device::machine& m, std::int64_t rows, std::int64_t cols, std::int64_t pad, tile::element type, std::uint64_t seed, float sigma)
      : dense(problems::random_values(static_cast<std::size_t>(rows * cols), type, seed, sigma)), on(m, rows, cols, cols + pad) {}
  void put() { on.put(dense); }
};

struct floats {
  std::vector<float> all;
  device::buffer on;
  floats(device::machine& m, std::int64_t count, std::uint64_t seed) : all(static_cast<std::size_t>(count)), on(m, std::max<std::size_t>(static_cast<std::size_t>(count) * 4, 4)) {
    std::mt19937_64 bits(seed);
    std::normal_distribution<float> normal;
    for (float& x : all) x = normal(bits);
    on.write(all.data(), all.size() * 4);
  }
  double at(std::int64_t i) const { return static_cast<double>(all[static_cast<std::size_t>(i)]); }
};

void expect(test::machine_under_test& m, const normed_case& c) {
  CAPTURE(cat(c.rows_of_c ? "rows of c " : "rows of a ", c.m, "x", c.n, "x", c.k, " activation ", static_cast<int>(c.activate), " bias ", c.bias, " residual ", c.residual, " gain ", c.gain, " pad ", c.pad));
  const float small = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(c.k, 1)));
  input a(*m.on, c.m, c.k, c.pad, c.type, 1, 1), b(*m.on, c.n, c.k, c.pad, c.type, 2, small), r(*m.on, c.m, c.n, c.pad, c.type, 3, 1);
  // Rows of very different size, one of them zero: a factor of another row would show.
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t k = 0; k < c.k; ++k) {
      std::uint16_t& x = a.dense[static_cast<std::size_t>(i * c.k + k)];
      if (i % 7 == 3) x = 0;
      else if (i % 5 == 2 && (x & 0x7fff)) x = static_cast<std::uint16_t>(x + (3 << (c.type == tile::element::bf16 ? 7 : 10)));  // times 8: three more in the exponent
    }
  for (input* each : {&a, &b, &r}) each->put();
  const floats bias(*m.on, c.n, 5), gain(*m.on, c.n, 6);
  problems::guarded out(*m.on, c.m, c.n, c.n + c.pad), entering(*m.on, c.m, c.n, c.n + c.pad);
  out.upload();
  entering.upload();

  host::normed_options how;
  how.type = c.type;
  how.activate = c.activate;
  how.epsilon = c.epsilon;
  if (c.bias) how.bias = bias.on.where();
  if (c.gain) how.gain = gain.on.where();
  if (c.residual) how.residual = {r.on.data(), c.m, c.n, r.on.stride};
  if (c.before) how.before = {entering.data(), c.m, c.n, entering.stride};
  const host::matrix left{a.on.data(), c.m, c.k, a.on.stride}, weights{b.on.data(), c.k, c.n, b.on.stride, true}, result{out.data(), c.m, c.n, out.stride};
  if (!test::ran(*m.on, [&] {
        if (c.rows_of_c) host::gemm_normed(*m.with, left, weights, result, how);
        else host::normed_gemm(*m.with, left, weights, result, how);
      }))
    return;
  problems::verdict v;
  const values got = out.fetch(v), got_before = entering.fetch(v);
  REQUIRE_MESSAGE(v.ok, v.why);
  const auto at = [&](const values& x, std::int64_t i) { return decode(x[static_cast<std::size_t>(i)], c.type); };
  const auto compare = [&](const values& x, std::int64_t i, std::int64_t j, double expected, double doubt, const char* what) {
    const double value = at(x, i * c.n + j), allowed = doubt + 1.01 * problems::roundoff(c.type) * std::abs(expected) + (c.type == tile::element::f16 ? 0x1p-25 : 1e-30);
    const bool right = std::abs(value - expected) <= allowed;
    CHECK_MESSAGE(right, cat(what, " row ", i, " column ", j, ": ", value, ", expected ", expected, " within ", allowed));
    return right;
  };
  const double epsilon = static_cast<double>(c.epsilon), steps = static_cast<double>(c.k) / 16 + 2;
  for (std::int64_t i = 0; i < c.m; ++i) {
    double factor = 1;
    if (!c.rows_of_c) {
      double squares = 0;
      for (std::int64_t k = 0; k < c.k; ++k) squares += at(a.dense, i * c.k + k) * at(a.dense, i * c.k + k);
      factor = 1 / std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(c.k, 1)) + epsilon);
    }
    // f32 sums of squares: (K + 2) 2^-24 at most, of which a square root halves; rsqrt.approx and rcp.approx some 2^-22
    const double off = static_cast<double>(c.rows_of_c ? c.n : c.k) * 0x1p-25 + 0x1p-20;
    std::vector<double> x(static_cast<std::size_t>(c.n)), doubt(x.size());
    double squares = 0, doubt_of_squares = 0;
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = 0, weight = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        const double p = at(a.dense, i * c.k + k) * at(b.dense, j * c.k + k);
        sum += p, weight += std::abs(p);
      }
      const double before = sum * factor + (c.bias ? bias.at(j) : 0), error = factor * (steps * 0x1p-22 * weight + (c.rows_of_c ? 0 : off * std::abs(sum))) + 0x1p-22 * std::abs(before);
      // activations are Lipschitz with constant below 1.13; tanh.approx has relative error 2^-11, the others a few 2^-22
      const double approximate = c.activate == activation::none ? 0 : (c.activate == activation::gelu_tanh ? 0x1p-11 : 0x1p-20) * std::abs(before);
      const auto place = static_cast<std::size_t>(j);
      x[place] = problems::activate(before, c.activate) + (c.residual ? at(r.dense, i * c.n + j) : 0);
      doubt[place] = 1.13 * error + approximate + 0x1p-22 * std::abs(x[place]);
      squares += x[place] * x[place];
      doubt_of_squares += 2 * std::abs(x[place]) * doubt[place] + doubt[place] * doubt[place];
    }
    const double mean = squares / static_cast<double>(std::max<std::int64_t>(c.n, 1)) + epsilon;
    for (std::int64_t j = 0; j < c.n; ++j) {
      const auto place = static_cast<std::size_t>(j);
      if (c.before && !compare(got_before, i, j, x[place], doubt[place], "before")) return;
      double expected = x[place], allowed = doubt[place];
      if (c.rows_of_c) {
        const double by = (c.gain ? gain.at(j) : 1) / std::sqrt(mean);
        expected *= by;
        allowed = allowed * std::abs(by) + std::abs(expected) * (off + doubt_of_squares / static_cast<double>(c.n) / mean);
      }
      if (!compare(got, i, j, expected, allowed, "result")) return;
    }
  }
}

}  // namespace

TEST_CASE("rows of a are normed on their way into a product, for every activation, tail and alignment") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const activation a : {activation::none, activation::relu, activation::gelu, activation::gelu_tanh, activation::silu}) expect(m, {.m = 130, .n = 136, .k = 72, .activate = a});
    expect(m, {.m = 300, .n = 520, .k = 328, .activate = activation::gelu, .bias = true, .pad = 8});
    expect(m, {.m = 300, .n = 264, .k = 200, .activate = activation::gelu_tanh, .type = tile::element::f16, .bias = true, .residual = true});
    expect(m, {.m = 257, .n = 400, .k = 264, .activate = activation::silu, .type = tile::element::f16});
    expect(m, {.m = 129, .n = 1032, .k = 72, .activate = activation::gelu});
    expect(m, {.m = 300, .n = 264, .k = 0, .bias = true});
    expect(m, {.m = 130, .n = 136, .k = 2056});
    expect(m, {.m = 64, .n = 40, .k = 64, .type = tile::element::f16, .bias = true, .residual = true});
    expect(m, {.m = 33, .n = 7, .k = 65, .bias = true, .residual = true, .pad = 1});
    expect(m, {.m = 5, .n = 8, .k = 0, .bias = true});
    expect(m, {.m = 5, .n = 8, .k = 1, .epsilon = 1e-6f});
    expect(m, {.m = 0, .n = 8, .k = 64});
  });
}

TEST_CASE("rows of c are normed on their way out, whole rows of up to 512 columns") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const std::int64_t n : {8, 128, 136, 256, 264, 512}) expect(m, {.m = 70, .n = n, .k = 72, .rows_of_c = true, .gain = true});
    for (const activation a : {activation::relu, activation::gelu, activation::gelu_tanh, activation::silu}) expect(m, {.m = 65, .n = 200, .k = 64, .rows_of_c = true, .activate = a, .bias = true});
    expect(m, {.m = 300, .n = 512, .k = 328, .rows_of_c = true, .activate = activation::silu, .bias = true, .residual = true, .gain = true, .before = true, .pad = 8});
    expect(m, {.m = 130, .n = 40, .k = 64, .rows_of_c = true, .type = tile::element::f16, .bias = true, .residual = true});
    expect(m, {.m = 33, .n = 7, .k = 65, .rows_of_c = true, .bias = true, .residual = true, .gain = true, .before = true, .pad = 1});
    expect(m, {.m = 66, .n = 301, .k = 33, .rows_of_c = true, .bias = true, .gain = true});
    expect(m, {.m = 5, .n = 8, .k = 0, .rows_of_c = true, .bias = true});
    expect(m, {.m = 0, .n = 8, .k = 64, .rows_of_c = true});
  });
}

TEST_CASE("what does not fit a normed product is refused by name") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const host::matrix a{4096, 64, 32}, b{4096, 32, 16, 0, true}, c{4096, 64, 16};
    CHECK(test::error_of([&] { host::normed_gemm(*m.with, a, {4096, 32, 17, 0, true}, c); }) == "gemm-shape");
    CHECK(test::error_of([&] { host::normed_gemm(*m.with, a, {4096, 32, 16}, c); }) == "gemm-layout");
    CHECK(test::error_of([&] { host::normed_gemm(*m.with, a, b, c, {.type = tile::element::f32}); }) == "gemm-type");
    CHECK(test::error_of([&] { host::normed_gemm(*m.with, a, b, c, {.gain = 4096}); }) == "gemm-gain");
    CHECK(test::error_of([&] { host::gemm_normed(*m.with, a, b, c, {.residual = {4096, 64, 15}}); }) == "gemm-shape");
    CHECK(test::error_of([&] { host::gemm_normed(*m.with, a, {4096, 32, 520, 0, true}, {4096, 64, 520}); }) == "gemm-width");
  });
}
