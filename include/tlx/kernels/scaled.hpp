// Block-scaled GEMM (MXFP8, MXFP4, NVFP4), on chips with tcgen05: c = epilogue(a * b), where each 32 or 16 numbers of K of a row of a and of a column of b have a
// scale of their own. Sums in f32.
#pragma once
#include "tlx/dsl/scaled.hpp"
#include "tlx/kernels/gemm.hpp"

namespace tlx::kernels {

/// How a block-scaled kernel is cut: 128 x N of C per CTA, 128 bytes of K per stage. Two accumulators of 256 columns would leave no columns for scales.
template <int N, int Stages, bool StoresByThreads = false>
struct scaled_plan {
  static constexpr int m = 128, n = N, stages = Stages, accumulators = N > 128 ? 1 : 2;
  static constexpr bool stores_by_threads = StoresByThreads;  // rows of c that no bulk store can address
};

/// a: M x K and b: N x K, both with K contiguous; e2m1x2: K / 2 columns. Scales as load_scales() says: (ceil(rows / 128), ceil(K / block / 4) * 32, 16). K is a
/// multiple of the block; scales behind its end, up to a multiple of four, must not be NaN. bias may be empty.
template <class A, class B, class S, class C>
struct scaled_arguments {
  BOOST_HANA_DEFINE_STRUCT(scaled_arguments, (view<A, 2>, a), (view<S, 3>, scales_a), (view<B, 2>, b), (view<S, 3>, scales_b), (view<C, 2>, c), (view<float, 1>, bias), (scalar<float>, alpha));
};

template <class Plan, class A, class B, class S, class C, class Epilogue>
void scaled_gemm(block& cta, const scaled_arguments<A, B, S, C>& in, Epilogue epilogue) {
  using namespace literals;
  constexpr int m = Plan::m, n = Plan::n, k = 128;  // k: columns of a stage
  constexpr auto kind = tile::scaled_kind_of(tile::element_of<A>, tile::element_of<B>, tile::element_of<S>);
  static_assert(kind.has_value(), "tlx: scaled_gemm: a and b are e4m3 or e5m2 with ue8m0 scales, or e2m1x2 with ue8m0 or ue4m3 scales");
  constexpr int count = k * tile::numbers_in(tile::element_of<A>) / tile::scale_block(*kind);
  auto tiles = cta.persistent(grid_of<m, n>(in.c));
  auto ab = cta.ring<Plan::stages>("ab", shared<A, m, k>, shared<B, n, k>, scales<S, m, count>, scales<S, n, count>);
  auto d = cta.ring<Plan::accumulators>("d", accumulator<float, m, n>);
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(1), k), 1); };  // of an empty K: one tile of zeros
  cta.roles(tiles,
    role("load", 1_warp, [&](const grid_box& t) {
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.fill();
        load(get<0>(slot), in.a.at(t.row, i * k));
        load(get<1>(slot), in.b.at(t.col, i * k));
        load_scales(get<2>(slot), in.scales_a, t.row, i * count);
        load_scales(get<3>(slot), in.scales_b, t.col, i * count);
      });
    }),
    role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        mma_scaled(acc, get<0>(slot), get<2>(slot), transpose(get<1>(slot)), get<3>(slot), accumulate(i > 0));
      });
    }),
    role("epilogue", 4_warps, [&](const grid_box& t) {
      auto full = d.drain();
      const auto result = detail::as_stored<C>(epilogue(read(full), in, t));
      if (Plan::stores_by_threads) cta.move_by_threads();  // of what is recorded from here on: this store alone
      store(in.c[t], result);
    }));
}

}  // namespace tlx::kernels
