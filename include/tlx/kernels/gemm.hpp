// Fused GEMM: c = epilogue(a * b), f32 accumulation. One text for Hopper (the mma and epilogue roles merge: the accumulator is registers) and Blackwell.
#pragma once
#include "tlx/dsl/kernel.hpp"

namespace tlx::kernels {

/// How one GEMM kernel is cut: an M x N tile of C per CTA, K elements of K per stage.
template <int M, int N, int K, int Stages, bool TransposedA = false, bool TransposedB = true, bool ByThreads = false>
struct gemm_plan {
  static constexpr int m = M, n = N, k = K, stages = Stages;
  static constexpr bool ta = TransposedA;  // a is stored K x M
  static constexpr bool tb = TransposedB;  // b is stored N x K
  static constexpr bool by_threads = ByThreads;  // rows that are not 16-byte aligned: ordinary loads and stores
};

template <class T>
struct gemm_arguments {
  BOOST_HANA_DEFINE_STRUCT(gemm_arguments, (view<T, 2>, a), (view<T, 2>, b), (view<T, 2>, c), (view<float, 1>, bias), (view<T, 2>, residual), (scalar<float>, alpha));
};

/// The epilogue: a function of the accumulator tile, the arguments and the tile's place that gives the f32 tile to store.
struct plain_epilogue {
  template <class Tile, class Arguments>
  auto operator()(const Tile& acc, const Arguments&, const grid_box&) const { return acc; }
};

template <class T, class Plan, class Epilogue>
void gemm(block& cta, const gemm_arguments<T>& in, Epilogue epilogue) {
  using namespace literals;
  constexpr int m = Plan::m, n = Plan::n, k = Plan::k;
  if (Plan::by_threads) cta.move_by_threads();
  auto tiles = cta.persistent(grid_of<m, n>(in.c));
  auto ab = cta.ring<Plan::stages>("ab", shared<T, Plan::ta ? k : m, Plan::ta ? m : k>, shared<T, Plan::tb ? n : k, Plan::tb ? k : n>);
  auto d = cta.ring<2>("d", accumulator<float, m, n>);
  const warp_count finishing = cta.has_tensor_memory() ? 4_warps : warp_count{m / 16};  // wgmma keeps 64 rows in each four warps
  auto k_tiles = [&] { return ceil_div(in.a.extent(Plan::ta ? 0 : 1), k); };

  cta.roles(tiles,
    role("load", Plan::by_threads ? 4_warps : 1_warp, [&](const grid_box& t) {
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.fill();
        if constexpr (Plan::ta) load(get<0>(slot), in.a.at(i * k, t.row));
        else load(get<0>(slot), in.a.at(t.row, i * k));
        if constexpr (Plan::tb) load(get<1>(slot), in.b.at(t.col, i * k));
        else load(get<1>(slot), in.b.at(i * k, t.col));
      });
    }),
    role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        auto a = get<0>(slot);
        auto b = get<1>(slot);
        if constexpr (Plan::ta && Plan::tb) mma(acc, transpose(a), transpose(b), accumulate(i > 0));
        else if constexpr (Plan::ta) mma(acc, transpose(a), b, accumulate(i > 0));
        else if constexpr (Plan::tb) mma(acc, a, transpose(b), accumulate(i > 0));
        else mma(acc, a, b, accumulate(i > 0));
      });
    }),
    role("epilogue", finishing, [&](const grid_box& t) {
      store(in.c[t], cast<T>(epilogue(read(d.drain()), in, t)));
    }));
}

}  // namespace tlx::kernels
