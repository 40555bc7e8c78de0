// host::gemm against float64 on every machine of the run: sizes around the edges of tiles and rings, layouts, epilogues, strides.
#include <doctest/doctest.h>

#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/skip.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using problems::gemm_case;
using host::activation;
constexpr auto half = tile::element::f16;

namespace {

std::string text(const gemm_case& c) {
  return cat(tile::name(c.type), " ", c.m, "x", c.n, "x", c.k, " ", c.a_column_major ? "T" : "N", c.b_column_major ? "T" : "N", " pads ", c.pad_a, " ", c.pad_b, " ", c.pad_c, " shift ",
             c.shift, " bias ", c.bias, " residual ", c.residual, " activation ", static_cast<int>(c.activate), " alpha ", c.alpha);
}

void expect(test::machine_under_test& m, const gemm_case& c, std::uint64_t seed = 1) {
  CAPTURE(text(c));
  try {
    problems::gemm_problem p(*m.on, c, seed);
    p.run(*m.with);
    const problems::verdict v = p.check();
    CHECK_MESSAGE(v.ok, v.why);
    if (c.m && c.n) CHECK(v.checked > 0);
  } catch (const error& e) {
    FAIL_CHECK(std::string(e.what()));
  }
}

// The stages of the plan that gemm() chooses: 128 columns are five stages, wider results four.
constexpr int k_tile = 64;

}  // namespace

TEST_CASE("results of every extent around a tile are right and nothing outside of them is touched") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const auto& [rows, cols] : {std::pair{1, 8}, {127, 120}, {128, 128}, {129, 136}, {1, 256}, {128, 248}, {130, 264}, {257, 520}})
      expect(m, {.m = rows, .n = cols, .k = 72});
  });
}

TEST_CASE("an empty result is no launch, and K = 0 gives the epilogue of zero") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.m = 0, .n = 64, .k = 64});
    expect(m, {.m = 64, .n = 0, .k = 64});
    expect(m, {.m = 0, .n = 0, .k = 0});
    expect(m, {.m = 65, .n = 72, .k = 0});
    expect(m, {.m = 129, .n = 264, .k = 0});
    expect(m, {.m = 130, .n = 264, .k = 0, .bias = true});
    expect(m, {.m = 65, .n = 264, .k = 0, .bias = true, .residual = true, .activate = activation::silu});
    expect(m, {.m = 5, .n = 7, .k = 0, .bias = true});
    expect(m, {.m = 300, .n = 264, .k = 0, .type = half, .residual = true});
  });
}

TEST_CASE("every number of K tiles around the stages of the ring is right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int tiles : {1, 2, 3, 4, 5, 6, 9, 11}) {
      expect(m, {.m = 130, .n = 120, .k = tiles * k_tile});                             // five stages, two tiles of rows: rings wrap between tiles
      expect(m, {.m = 200, .n = 264, .k = tiles * k_tile, .bias = true}, 7);            // four stages
    }
  });
}

TEST_CASE("a K that ends inside a tile counts whole and no further") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int rest : {0, 1, 8, 32, 63})
      for (const int rounds : {1, 2}) {
        const int k = k_tile * 4 * rounds + rest;
        expect(m, {.m = 64, .n = 136, .k = k, .pad_a = (8 - k % 8) % 8, .pad_b = (8 - k % 8) % 8});  // padded rows: bulk copies with a ragged extent
      }
    for (const int k : {1, 8, 63, 64, 65}) expect(m, {.m = 70, .n = 96, .k = k, .pad_a = (8 - k % 8) % 8, .pad_b = (8 - k % 8) % 8});
  });
}

TEST_CASE("each of the four layouts is right in both types, on whole tiles and on tails") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const tile::element type : {tile::element::bf16, half})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
          expect(m, {.m = 128, .n = 256, .k = 128, .type = type, .a_column_major = ta, .b_column_major = tb});
          expect(m, {.m = 136, .n = 72, .k = 200, .type = type, .a_column_major = ta, .b_column_major = tb}, 3);
        }
  });
}

TEST_CASE("bias, activations, residual and alpha are those of float64 within the roundings") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const activation a : {activation::none, activation::relu, activation::gelu, activation::gelu_tanh, activation::silu})
      expect(m, {.m = 70, .n = 264, .k = 64, .bias = true, .activate = a});
    for (const float alpha : {0.0f, -1.0f, 0.125f, 3.0f}) expect(m, {.m = 64, .n = 264, .k = 64, .bias = true, .alpha = alpha});
    expect(m, {.m = 129, .n = 136, .k = 64, .type = half, .residual = true});
    expect(m, {.m = 129, .n = 264, .k = 64, .bias = true, .residual = true, .activate = activation::gelu, .alpha = 0.5f});
    expect(m, {.m = 9, .n = 11, .k = 13, .bias = true, .residual = true, .activate = activation::relu});
  });
}

TEST_CASE("padded rows are read and written inside their matrices only") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.m = 130, .n = 136, .k = 72, .pad_a = 8, .pad_b = 24, .pad_c = 16});
    expect(m, {.m = 72, .n = 264, .k = 136, .a_column_major = true, .b_column_major = false, .pad_a = 56, .pad_b = 8, .pad_c = 8, .shift = 8});
    // Rows of c that end inside 16 bytes although they are aligned: a bulk store would write over what stands behind them.
    for (const int n : {133, 255, 261}) expect(m, {.m = 130, .n = n, .k = 72, .pad_c = (8 - n % 8) % 8});
  });
}

TEST_CASE("odd strides and unaligned bases take ordinary loads and are right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int n : {1, 3, 7, 9, 129}) expect(m, {.m = 33, .n = n, .k = 65});
    for (const int shift : {1, 2, 4}) expect(m, {.m = 64, .n = 64, .k = 64, .shift = shift});
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) expect(m, {.m = 131, .n = 67, .k = 197, .type = half, .a_column_major = ta, .b_column_major = tb, .pad_a = 1, .pad_b = 3, .pad_c = 5});
    expect(m, {.m = 40, .n = 56, .k = 511, .bias = true, .residual = true});
  });
}

// C12: A holds the row number in every column and B is the identity, so a swapped block of rows or columns shows itself.
TEST_CASE("row r of A times the identity is row r, and column j times the identity is column j") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    constexpr int rows = 256, k = 256;
    for (const bool by_row : {true, false}) {
      std::vector<std::uint16_t> a(rows * k), b(k * k, 0), c(rows * k, problems::nan_bits());
      auto bits_of = [](int v) {
        const bf16 x(static_cast<float>(v));
        std::uint16_t bits;
        std::memcpy(&bits, &x, 2);
        return bits;
      };
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < k; ++j) a[static_cast<size_t>(i * k + j)] = bits_of(by_row ? i : j);
      for (int i = 0; i < k; ++i) b[static_cast<size_t>(i * k + i)] = bits_of(1);
      device::buffer on_a(*m.on, a.size() * 2), on_b(*m.on, b.size() * 2), on_c(*m.on, c.size() * 2);
      on_a.write(a.data(), a.size() * 2);
      on_b.write(b.data(), b.size() * 2);
      on_c.write(c.data(), c.size() * 2);
      host::gemm(*m.with, {on_a.where(), rows, k}, {on_b.where(), k, k, 0, true}, {on_c.where(), rows, k});
      m.on->wait();
      on_c.read(c.data(), c.size() * 2);
      int wrong = 0;
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < k; ++j) wrong += c[static_cast<size_t>(i * k + j)] != bits_of(by_row ? i : j);
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("the order in which the simulator runs warps does not change a result") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    if (!m.simulator()) return;
    for (const std::uint64_t seed : {2, 3, 4, 5}) {
      m.simulator()->set_seed(seed);
      CAPTURE(seed);
      expect(m, {.m = 260, .n = 264, .k = 328, .bias = true});
      expect(m, {.m = 131, .n = 67, .k = 197});
    }
    m.simulator()->set_seed(1);
  });
}

TEST_CASE("a repeated launch gives the same bits") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const int times = m.is_gpu() ? 200 : 2;
    const gemm_case c = m.is_gpu() ? gemm_case{.m = 1000, .n = 1112, .k = 520, .bias = true} : gemm_case{.m = 200, .n = 264, .k = 200, .bias = true};
    problems::gemm_problem p(*m.on, c);
    const size_t bytes = static_cast<size_t>(c.m * c.n) * 2;
    std::vector<char> first(bytes), now(bytes);
    for (int i = 0; i < times; ++i) {
      p.run(*m.with);
      m.on->wait();
      m.on->read((i ? now : first).data(), p.out().data, bytes);
      if (i) REQUIRE(first == now);
    }
  });
}

TEST_CASE("large products are right where they are sampled") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    if (!m.is_gpu()) return expect(m, {.m = 384, .n = 512, .k = 576, .bias = true, .activate = activation::gelu_tanh});
    expect(m, {.m = 4096, .n = 4096, .k = 4096, .bias = true, .activate = activation::gelu_tanh, .sample_rows = 16});
    expect(m, {.m = 1000, .n = 1112, .k = 520, .bias = true, .activate = activation::silu, .sample_rows = 50});
    expect(m, {.m = 3000, .n = 8200, .k = 1032, .residual = true, .sample_rows = 20});
    expect(m, {.m = 8192, .n = 24, .k = 8192, .sample_rows = 50});
    expect(m, {.m = 8, .n = 8192, .k = 4096, .sample_rows = 8});
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        expect(m, {.m = 1000, .n = 1112, .k = 520, .type = half, .a_column_major = ta, .b_column_major = tb, .sample_rows = 40});
        expect(m, {.m = 1001, .n = 1113, .k = 521, .a_column_major = ta, .b_column_major = tb, .sample_rows = 40});
      }
    for (int n = 128; n <= 4096; n += 384) expect(m, {.m = 768, .n = n, .k = 512, .sample_rows = 12});
    for (int tiles = 1; tiles <= 20; ++tiles) expect(m, {.m = 4 * 128, .n = tiles * 256, .k = 64, .sample_rows = 16});
  });
}
