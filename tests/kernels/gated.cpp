// host::gated_gemm and host::gated_mlp against float64 on every machine of the run.
#include <doctest/doctest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/ran.hpp"
#include "tests/support/skip.hpp"
#include "tlx/host/gated.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using host::activation;
using problems::decode;

namespace {

struct gated_case {
  std::int64_t m, n, k;
  activation activate = activation::silu;
  tile::element type = tile::element::bf16;
  bool bias = false;
  std::int64_t pad = 0;   // extra elements in each stored row
  std::int64_t down = 0;  // columns of the second product, 0: none
};

using values = std::vector<std::uint16_t>;

// A dense rows x cols matrix of standard deviation 1/8 .. 1 inside NaN.
struct input {
  values dense;
  problems::guarded on;
  input(device::machine& m, std::int64_t rows, std::int64_t cols, std::int64_t pad, tile::element type, std::uint64_t seed, float sigma)
      : dense(problems::random_values(static_cast<std::size_t>(rows * cols), type, seed, sigma)), on(m, rows, cols, cols + pad) { on.put(dense); }
};

std::vector<float> bias_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(static_cast<std::size_t>(count));
  for (float& x : v) x = normal(bits);
  return v;
}

void expect(test::machine_under_test& m, const gated_case& c) {
  CAPTURE(cat(c.m, "x", c.n, "x", c.k, " activation ", static_cast<int>(c.activate), " bias ", c.bias, " pad ", c.pad, " down ", c.down));
  const float small = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(c.k, 1)));
  input a(*m.on, c.m, c.k, c.pad, c.type, 1, 1), g(*m.on, c.n, c.k, c.pad, c.type, 2, small), u(*m.on, c.n, c.k, c.pad, c.type, 3, small);
  input down(*m.on, std::max<std::int64_t>(c.down, 1), c.n, c.pad, c.type, 4, 1);
  const std::int64_t cols = c.down ? c.down : c.n;
  problems::guarded out(*m.on, c.m, cols, cols + c.pad);
  out.upload();
  const std::vector<float> bias_g = bias_values(c.n, 5), bias_u = bias_values(c.n, 6);
  device::buffer on_g(*m.on, bias_g.size() * 4 + 4), on_u(*m.on, bias_u.size() * 4 + 4);
  on_g.write(bias_g.data(), bias_g.size() * 4);
  on_u.write(bias_u.data(), bias_u.size() * 4);

  host::gated_options how;
  how.type = c.type;
  how.activate = c.activate;
  if (c.bias) how.bias_g = on_g.where(), how.bias_u = on_u.where();
  const auto weights = [](const input& w) { return host::matrix{w.on.data(), w.on.cols, w.on.rows, w.on.stride, true}; };
  const host::matrix left{a.on.data(), c.m, c.k, a.on.stride}, result{out.data(), c.m, cols, out.stride};
  if (!test::ran(*m.on, [&] {
        if (c.down) host::gated_mlp(*m.with, left, weights(g), weights(u), weights(down), result, how);
        else host::gated_gemm(*m.with, left, weights(g), weights(u), result, how);
      }))
    return;
  problems::verdict v;
  const values got = out.fetch(v);
  REQUIRE_MESSAGE(v.ok, v.why);
  const auto at = [&](const values& x, std::int64_t i) { return decode(x[static_cast<std::size_t>(i)], c.type); };
  const double unit = problems::roundoff(c.type);
  for (std::int64_t i = 0; i < c.m; ++i) {
    std::vector<double> hidden(static_cast<std::size_t>(c.n)), doubt(hidden.size());
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum_g = 0, sum_u = 0, weight_g = 0, weight_u = 0;
      for (std::int64_t k = 0; k < c.k; ++k) {
        const double x = at(a.dense, i * c.k + k), pg = x * at(g.dense, j * c.k + k), pu = x * at(u.dense, j * c.k + k);
        sum_g += pg, sum_u += pu, weight_g += std::abs(pg), weight_u += std::abs(pu);
      }
      if (c.bias) sum_g += static_cast<double>(bias_g[static_cast<std::size_t>(j)]), sum_u += static_cast<double>(bias_u[static_cast<std::size_t>(j)]);
      const double gate = problems::activate(sum_g, c.activate), steps = static_cast<double>(c.k) / 16 + 2;
      // truncating sums as in gemm_problem; tanh.approx 2^-11, the other activations a few 2^-22
      const double approximate = (c.activate == activation::gelu_tanh ? 0x1p-11 : 0x1p-20) * std::abs(sum_g);
      const double error_g = 1.13 * steps * 0x1p-22 * weight_g + approximate, error_u = steps * 0x1p-22 * (weight_u + 1);
      const auto place = static_cast<std::size_t>(j);
      hidden[place] = gate * sum_u;
      doubt[place] = error_g * std::abs(sum_u) + error_u * (std::abs(gate) + error_g) + 1.01 * unit * std::abs(hidden[place]) + 0x1p-25;
    }
    for (std::int64_t j = 0; j < cols; ++j) {
      double expected = c.down ? 0 : hidden[static_cast<std::size_t>(j)], allowed = c.down ? 0 : doubt[static_cast<std::size_t>(j)], weight = 0;
      for (std::int64_t k = 0; c.down && k < c.n; ++k) {
        const double w = at(down.dense, j * c.n + k);
        expected += hidden[static_cast<std::size_t>(k)] * w;
        allowed += doubt[static_cast<std::size_t>(k)] * std::abs(w);
        weight += std::abs(hidden[static_cast<std::size_t>(k)] * w);
      }
      if (c.down) allowed += (static_cast<double>(c.n) / 16 + 2) * 0x1p-22 * weight + 1.01 * unit * std::abs(expected) + 0x1p-25;
      const double value = decode(got[static_cast<std::size_t>(i * cols + j)], c.type);
      const bool right = std::abs(value - expected) <= allowed;
      CHECK_MESSAGE(right, cat("row ", i, " column ", j, ": ", value, ", expected ", expected, " within ", allowed));
      if (!right) return;
    }
  }
}

}  // namespace

TEST_CASE("a gated pair is activation(a g) times (a u), for every activation, tail and alignment") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const activation a : {activation::none, activation::relu, activation::gelu, activation::gelu_tanh, activation::silu}) expect(m, {.m = 130, .n = 136, .k = 72, .activate = a});
    expect(m, {.m = 300, .n = 264, .k = 328, .bias = true, .pad = 8});
    expect(m, {.m = 64, .n = 40, .k = 64, .type = tile::element::f16, .bias = true});
    expect(m, {.m = 33, .n = 7, .k = 65, .bias = true, .pad = 1});
    expect(m, {.m = 5, .n = 8, .k = 0, .bias = true});
    expect(m, {.m = 0, .n = 8, .k = 64});
  });
}

TEST_CASE("a gated MLP is its gated pair times the third matrix") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.m = 130, .n = 136, .k = 72, .down = 72});
    expect(m, {.m = 16, .n = 512, .k = 64, .activate = activation::gelu, .bias = true, .down = 40});  // few rows, K in parts: two workspaces
    expect(m, {.m = 20, .n = 13, .k = 24, .bias = true, .down = 24});                               // a width that is no multiple of 8
  });
}

TEST_CASE("matrices that do not fit a gated pair are refused") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const auto id_of = [&](const host::matrix& a, const host::matrix& g, const host::matrix& c) {
      return test::error_of([&] { host::gated_gemm(*m.with, a, g, g, c); });
    };
    const host::matrix a{4096, 64, 32}, g{4096, 32, 16, 0, true}, c{4096, 64, 16};
    CHECK(id_of(a, {4096, 32, 17, 0, true}, c) == "gemm-shape");
    CHECK(id_of(a, {4096, 32, 16}, c) == "gemm-layout");
    CHECK(id_of({4096, 64, 32, 0, true}, g, c) == "gemm-layout");
  });
}
