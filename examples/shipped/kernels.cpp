// The kernels, compiled when the program is built. This file needs the language; the program that launches them does not.
// [kernel]
#include "tlx/dsl/activation.hpp"  // gelu
#include "tlx/dsl/registry.hpp"

using namespace tlx;
using namespace tlx::literals;  // 4_warps

struct linear_arguments {
  TLX_ARGUMENTS(linear_arguments, (view<bf16, 2>, x), (view<bf16, 2>, w), (view<float, 1>, bias), (view<bf16, 2>, y));
};

/// y = gelu(x w^T + bias): one tile of 128 x Plan::n a CTA, bf16 with f32 sums.
template <class Plan>
void linear(block& cta, const linear_arguments& in) {
  constexpr int m = 128, n = Plan::n, k = 64;
  auto tiles = cta.persistent(grid_of<m, n>(in.y));
  auto xw = cta.ring<Plan::stages>("xw", shared<bf16, m, k>, shared<bf16, n, k>);
  auto d = cta.ring<2>("d", accumulator<float, m, n>);
  auto k_tiles = [&] { return ceil_div(in.x.extent(1), k); };
  cta.roles(tiles,
    role("load", 1_warp, [&](const grid_box& t) {
      for_each(k_tiles(), [&](index i) {
        auto slot = xw.fill();
        load(get<0>(slot), in.x.at(t.row, i * k));
        load(get<1>(slot), in.w.at(t.col, i * k));
      });
    }),
    role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = xw.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
      });
    }),
    role("epilogue", cta.has_tensor_memory() ? 4_warps : 8_warps, [&](const grid_box& t) {
      store(in.y[t], cast<bf16>(gelu(read(d.drain()) + fetch<1, n>(in.bias.at(t.col)))));
    }));
}

struct wide { static constexpr const char* name = "128x256"; static constexpr int n = 256, stages = 4; };
struct narrow { static constexpr const char* name = "128x128"; static constexpr int n = 128, stages = 5; };
static const bool known = register_kernel<linear_arguments>("linear", configurations<wide, narrow>{},
                                                            [](block& cta, const linear_arguments& in, auto plan) { linear<decltype(plan)>(cta, in); });
// [/kernel]
