// Step 7: a GEMM with roles. A load role runs ahead through a ring of operand tiles, an mma role accumulates over K, an epilogue role stores; CTAs are
// persistent, so the next tile's loads and products overlap this tile's epilogue. On Hopper the mma and epilogue roles become one: see docs.
#include "common.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

// [kernel]
struct gemm_arguments {
  TLX_ARGUMENTS(gemm_arguments, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, c));
};

void gemm(block& cta, const gemm_arguments& in) {
  constexpr int m = 64, n = 128, k = 64;
  auto tiles = cta.persistent(grid_of<m, n>(in.c));
  auto ab = cta.ring<4>("ab", shared<bf16, m, k>, shared<bf16, n, k>);  // a slot has two parts
  auto d = cta.ring<2>("d", accumulator<float, m, n>);
  auto k_tiles = [&] { return ceil_div(in.a.extent(1), k); };
  cta.roles(tiles,
    role("load", 1_warp, [&](const grid_box& t) {
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.fill();
        load(get<0>(slot), in.a.at(t.row, i * k));
        load(get<1>(slot), in.b.at(t.col, i * k));
      });  // the slot closes here, and the ring moves on
    }),
    role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
      });
    }),
    role("epilogue", 4_warps, [&](const grid_box& t) { store(in.c[t], cast<bf16>(read(d.drain()))); }));
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr std::size_t rows = 200, cols = 264, depth = 600;  // ten k tiles for four stages, twelve tiles for two CTAs, tails on every side
    examples::array<bf16> a(m, examples::random_values<bf16>(rows * depth, 8)), b(m, examples::random_values<bf16>(cols * depth, 9)), c(m, rows * cols, bf16(0.0f));
    host::session session(m);
    host::launch<gemm_arguments>(session, "gemm", gemm, {a.view({rows, depth}), b.view({cols, depth}), c.view({rows, cols})});
    examples::describe(*session.find("gemm"));
    std::printf("c = a * b^T, %zu x %zu x %zu, compiled in %.0f ms\n", rows, cols, depth, session.last_compile_ms());

    std::vector<double> expected(rows * cols);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j)
        for (std::size_t k = 0; k < depth; ++k) expected[i * cols + j] += static_cast<double>(static_cast<float>(a.host[i * depth + k]) * static_cast<float>(b.host[j * depth + k]));
    return examples::same(c.fetch(), expected, 0x1p-8, 1e-3);  // one rounding to bf16; f32 sums of 600 products of normal values
  });
}
