// Grouped GEMM: rows of a are divided into groups, each is multiplied by a matrix of its own. Sizes are on the device; one launch for all groups.
#pragma once
#include "tlx/kernels/gemm.hpp"

namespace tlx::kernels {

/// a: rows x K, b: (group, N, K), c: rows x N, bias: (group, N) or empty; offsets: groups + 1 ascending row numbers. Rows before the first and behind the last belong
/// to no group and are left alone.
template <class T>
struct grouped_arguments {
  BOOST_HANA_DEFINE_STRUCT(grouped_arguments, (view<T, 2>, a), (view<T, 3>, b), (view<T, 2>, c), (view<std::int32_t, 1>, offsets), (view<float, 2>, bias));
};

/// c[rows of g] = epilogue(a[rows of g] * b[g]). A tile reads rows of the next group too, where its own end before it does: their sums are not stored.
template <class T, class Plan, class Epilogue, class Arguments>
void grouped_gemm(block& cta, const Arguments& in, Epilogue epilogue) {
  using namespace literals;
  static_assert(!Plan::ta && Plan::tb && !Plan::tc, "tlx: grouped_gemm reads a and b with K contiguous");
  constexpr int m = Plan::m, n = Plan::n, k = Plan::k;
  if (Plan::by_threads) cta.move_by_threads();
  auto tiles = cta.persistent(grouped<m, n>(in.offsets, in.c));
  auto ab = cta.ring<Plan::stages>("ab", shared<T, m, k>, shared<T, n, k>);
  // A tile that is not there has one step: every role takes it, so that rings and accumulators need no exception.
  const auto k_tiles = [&](const group_box& t) { return max(where(t.rows > 0, ceil_div(in.a.extent(1), k), constant(cta.home(), 0)), 1); };
  const auto multiply = [&](const auto& acc, const group_box& t) {
    for_each(k_tiles(t), [&](index i) {
      auto slot = ab.drain();
      mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
    });
  };
  const auto finish = [&](const auto& sums, const group_box& t) { store(in.c[t], cast<T>(epilogue(sums, in, t))); };

  auto loading = role("load", Plan::by_threads ? 4_warps : 1_warp, [&](const group_box& t) {
    for_each(k_tiles(t), [&](index i) {
      auto slot = ab.fill();
      load(get<0>(slot), in.a.at(t.row, i * k));
      load(get<1>(slot), in.b.at(t.group, t.col, i * k));
    });
  });
  if (!cta.has_tensor_memory()) {  // one role: it looks for its group once
    cta.roles(tiles, loading, role("mma", warp_count{m / 16}, [&](const group_box& t) {
      auto acc = cta.make(accumulator<float, m, n>);
      multiply(acc, t);
      finish(read(acc), t);
    }));
    return;
  }
  auto d = cta.ring<2>("d", accumulator<float, m, n>);
  cta.roles(tiles, loading, role("mma", 1_warp, [&](const group_box& t) { multiply(d.fill().template part<0>(), t); }),
            role("epilogue", 4_warps, [&](const group_box& t) { finish(read(d.drain()), t); }));
}

}  // namespace tlx::kernels
