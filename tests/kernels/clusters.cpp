// Kernels of clusters: what CTAs load for each other, in both directions, with tiles left over, on every machine of the run.
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
  TLX_ARGUMENTS(product, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, c));
};
struct products {
  TLX_ARGUMENTS(products, (view<bf16, 3>, a), (view<bf16, 3>, b), (view<bf16, 3>, c));
};

// Clusters of `Ctas` tiles of 64 x 64 against plain sums; everything around the result stays NaN.
template <int Ctas, neighbour Lie, int Rank, int Rows = 64>
void check(test::machine_under_test& m, std::int64_t rows, std::int64_t cols, std::int64_t k, std::int64_t batch = 1) {
  using namespace kernels;
  CAPTURE(cat(batch, " x ", rows, "x", cols, "x", k, ", clusters of ", Ctas, Lie == neighbour::below ? " below" : " beside"));
  const auto count = [&](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(batch * a * b); };
  const std::vector<std::uint16_t> a = problems::random_values(count(rows, k), type, 1), b = problems::random_values(count(cols, k), type, 2);
  problems::guarded in_a(*m.on, batch * rows, k, k), in_b(*m.on, batch * cols, k, k), out(*m.on, batch * rows, cols, cols);
  in_a.put(a);
  in_b.put(b);
  out.upload();
  const auto view = [&](const problems::guarded& g, std::int64_t r, std::int64_t c) {
    return Rank == 2 ? device::view_value(g.data(), {r, c}) : device::view_value(g.data(), {batch, r, c});
  };
  using plan = clustered<gemm_plan<Rows, 64, 64, 3>, Ctas, Lie>;
  using arguments = std::conditional_t<Rank == 2, product, products>;
  const auto body = [](block& cta, const arguments& in) { gemm<bf16, plan>(cta, in, plain_epilogue{}); };
  if (!test::ran(*m.on, [&] { host::launch<arguments>(*m.with, cat("clusters_", Ctas, Lie == neighbour::below ? "_below_" : "_beside_", Rank, "_", Rows), body, {view(in_a, rows, k), view(in_b, cols, k), view(out, rows, cols)}); })) return;
  problems::verdict v;
  const std::vector<std::uint16_t> got = out.fetch(v);
  CHECK_MESSAGE(v.ok, v.why);
  int wrong = 0;
  const auto at = [](const std::vector<std::uint16_t>& x, std::int64_t i) { return problems::decode(x[static_cast<std::size_t>(i)], type); };
  for (std::int64_t i = 0; i < batch * rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t x = 0; x < k; ++x) {
        const double p = at(a, i * k + x) * at(b, (i / rows * cols + j) * k + x);
        sum += p;
        size += std::abs(p);
      }
      wrong += !(std::abs(at(got, i * cols + j) - sum) <= size * 0x1p-18 + std::abs(sum) * 0x1.02p-8);
    }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("CTAs of a cluster bring each other the operand that their tiles share, also where the last of them have no tile") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const std::int64_t k : {64, 136, 520}) {
      check<2, neighbour::below, 2>(m, 256, 128, k);
      check<2, neighbour::below, 2>(m, 330, 200, k);
      check<2, neighbour::beside, 2>(m, 130, 328, k);
    }
    check<4, neighbour::below, 2>(m, 64, 72, 200);
    check<4, neighbour::beside, 2>(m, 40, 648, 200);
    check<4, neighbour::beside, 2, 128>(m, 140, 648, 72);
    check<2, neighbour::below, 3>(m, 136, 72, 200, 3);
    check<2, neighbour::beside, 3>(m, 72, 136, 72, 3);
    check<2, neighbour::beside, 2>(m, 64, 64, 0);
    check<1, neighbour::beside, 2>(m, 100, 72, 72);
  });
}
