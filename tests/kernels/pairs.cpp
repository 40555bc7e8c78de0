// Pairs of CTAs that multiply together on Blackwell, and as a cluster of two elsewhere: every layout of the operands, tiles left over, many schedules, on every machine of the run.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/ran.hpp"
#include "tests/support/skip.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/kernels/gemm.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

constexpr auto type = tile::element::bf16;

struct product {
  TLX_ARGUMENTS(product, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, c), (view<float, 1>, bias));
};
struct products {
  TLX_ARGUMENTS(products, (view<bf16, 3>, a), (view<bf16, 3>, b), (view<bf16, 3>, c), (view<float, 1>, bias));
};

struct sizes {
  std::int64_t rows, cols, k, batch = 1;
};

// A pair's tile is 256 x N; everything around the result stays NaN.
template <int N, bool TA, bool TB, int Rank = 2, bool Bias = false>
void check(test::machine_under_test& m, const sizes& z) {
  using namespace kernels;
  CAPTURE(cat(z.batch, " x ", z.rows, "x", z.cols, "x", z.k, TA ? ", T" : ", N", TB ? "T, 256x" : "N, 256x", N));
  const auto values = [&](std::int64_t count, std::uint64_t seed) { return problems::random_values(static_cast<std::size_t>(z.batch * count), type, seed); };
  const std::vector<std::uint16_t> a = values(z.rows * z.k, 1), b = values(z.cols * z.k, 2);
  const std::int64_t a_rows = TA ? z.k : z.rows, a_cols = TA ? z.rows : z.k, b_rows = TB ? z.cols : z.k, b_cols = TB ? z.k : z.cols;
  problems::guarded in_a(*m.on, z.batch * a_rows, a_cols, a_cols), in_b(*m.on, z.batch * b_rows, b_cols, b_cols), out(*m.on, z.batch * z.rows, z.cols, z.cols);
  in_a.put(a);
  in_b.put(b);
  out.upload();
  std::vector<float> bias;
  for (std::int64_t j = 0; j < z.cols; ++j) bias.push_back(static_cast<float>(j % 17) - 8);
  device::buffer biases(*m.on, bias.size() * 4);
  biases.write(bias.data(), bias.size() * 4);
  const auto view = [&](const problems::guarded& g, std::int64_t r, std::int64_t c) {
    return Rank == 2 ? device::view_value(g.data(), {r, c}) : device::view_value(g.data(), {z.batch, r, c});
  };
  using arguments = std::conditional_t<Rank == 2, product, products>;
  const auto body = [](block& cta, const arguments& in) {
    gemm<bf16, paired<gemm_plan<128, N, 64, 3, TA, TB>>>(cta, in, [](const auto& sums, const arguments& of, const auto& t) {
      if constexpr (Bias) return sums + fetch<1, N>(of.bias.at(t.col));
      else return sums;
    });
  };
  const std::string name = cat("pairs_", N, TA ? "_t" : "_n", TB ? "t_" : "n_", Rank, Bias ? "_bias" : "");
  if (!test::ran(*m.on, [&] {
        host::launch<arguments>(*m.with, name, body, {view(in_a, a_rows, a_cols), view(in_b, b_rows, b_cols), view(out, z.rows, z.cols), device::view_value(biases.where(), {z.cols})});
      }))
    return;
  problems::verdict v;
  const std::vector<std::uint16_t> got = out.fetch(v);
  CHECK_MESSAGE(v.ok, v.why);
  int wrong = 0;
  const auto at = [](const std::vector<std::uint16_t>& x, std::int64_t i) { return problems::decode(x[static_cast<std::size_t>(i)], type); };
  for (std::int64_t i = 0; i < z.batch * z.rows; ++i)
    for (std::int64_t j = 0; j < z.cols; ++j) {
      const std::int64_t of_batch = i / z.rows, row = i % z.rows;
      double sum = Bias ? bias[static_cast<std::size_t>(j)] : 0, size = std::abs(sum);
      for (std::int64_t x = 0; x < z.k; ++x) {
        const double p = at(a, of_batch * z.rows * z.k + (TA ? x * z.rows + row : row * z.k + x)) * at(b, of_batch * z.cols * z.k + (TB ? j * z.k + x : x * z.cols + j));
        sum += p;
        size += std::abs(p);
      }
      wrong += !(std::abs(at(got, i * z.cols + j) - sum) <= size * 0x1p-18 + std::abs(sum) * 0x1.02p-8);
    }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a pair of CTAs multiplies rows of both with columns that each has half of, also where one of them or the last step of K has none") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    check<64, false, true>(m, {256, 64, 64});
    for (const std::int64_t k : {8, 136, 520}) check<64, false, true>(m, {330, 200, k});
    check<64, false, true>(m, {100, 72, 72});   // the second CTA has no rows
    check<64, false, true>(m, {300, 24, 200});  // nor the second half of b columns
    check<64, false, true>(m, {130, 64, 0});
    check<64, false, true, 2, true>(m, {330, 136, 72});
    check<64, false, true, 3>(m, {136, 72, 200, 3});
  });
}

TEST_CASE("the halves of the second operand are rows or columns as it is stored") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    check<128, false, false>(m, {264, 200, 136});
    check<64, true, false>(m, {264, 72, 136});
    check<128, true, true>(m, {136, 136, 72});
    check<256, false, true>(m, {264, 520, 72});
  });
}

TEST_CASE("a pair's results are right in every order in which the threads of both CTAs run") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    sim::machine* simulator = m.simulator();
    if (!simulator) return;
    for (std::uint64_t seed = 1; seed <= 32; ++seed) {
      CAPTURE(seed);
      simulator->set_seed(seed);
      check<64, false, true>(m, {520, 72, 264});
      CHECK(simulator->last_run().lints.empty());
    }
    simulator->set_seed(1);
  });
}
