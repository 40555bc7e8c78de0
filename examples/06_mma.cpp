// Step 6: a matrix product. mma() multiplies shared tiles into an accumulator: wgmma and registers on Hopper, tcgen05 and tensor memory on Blackwell.
#include "common.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

// [kernel]
struct product_arguments {
  TLX_ARGUMENTS(product_arguments, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, c));
};

/// c = a * b^T for K up to 128; a is M x K, b is N x K. Four warps and one tile a CTA, no roles.
void product(block& cta, const product_arguments& in) {
  cta.warps(4_warps);
  auto a = cta.ring<1>("a", shared<bf16, 64, 128>);
  auto b = cta.ring<1>("b", shared<bf16, 96, 128>);
  cta.tile(grid_of<64, 96>(in.c), [&](const grid_box& t) {
    load(a.fill(), in.a.at(t.row, 0));
    load(b.fill(), in.b.at(t.col, 0));
    auto acc = mma(a.drain(), transpose(b.drain()));  // (64 x 128) * (128 x 96): transpose is a view, nothing moves
    store(in.c[t], cast<bf16>(read(acc)));
  });
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr std::size_t rows = 100, cols = 200, depth = 72;
    examples::array<bf16> a(m, examples::random_values<bf16>(rows * depth, 6)), b(m, examples::random_values<bf16>(cols * depth, 7)), c(m, rows * cols, bf16(0.0f));
    host::session session(m);
    host::launch<product_arguments>(session, "product", product, {a.view({rows, depth}), b.view({cols, depth}), c.view({rows, cols})});
    examples::describe(*session.find("product"));
    std::printf("c = a * b^T, %zu x %zu x %zu in tiles of 64 x 96 x 128\n", rows, cols, depth);

    std::vector<double> expected(rows * cols);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j)
        for (std::size_t k = 0; k < depth; ++k) expected[i * cols + j] += static_cast<double>(static_cast<float>(a.host[i * depth + k]) * static_cast<float>(b.host[j * depth + k]));
    return examples::same(c.fetch(), expected, 0x1p-8, 1e-4);  // one rounding to bf16; f32 sums of 72 products
  });
}
