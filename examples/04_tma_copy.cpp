// Step 4: shared memory. load() is one bulk tensor copy (TMA) into a slot of a ring; drain() waits for its bytes; read() brings the tile to registers.
#include "common.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

// [kernel]
struct scale_arguments {
  TLX_ARGUMENTS(scale_arguments, (view<bf16, 2>, x), (view<bf16, 2>, y), (scalar<float>, alpha));
};

void scale(block& cta, const scale_arguments& in) {
  cta.warps(4_warps);
  auto tile = cta.ring<1>("tile", shared<bf16, 64, 128>);  // one slot, used once: no barrier for its return
  cta.tile(grid_of<64, 128>(in.x), [&](const grid_box& t) {
    load(tile.fill(), in.x[t]);  // elements outside of x arrive as zeros
    store(in.y[t], cast<bf16>(cast<float>(read(tile.drain())) * in.alpha));
  });
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr int rows = 100, cols = 200;  // a row is 400 bytes: bulk copies want multiples of 16
    examples::array<bf16> x(m, examples::random_values<bf16>(rows * cols, 4)), y(m, rows * cols, bf16(0.0f));
    host::session session(m);
    host::launch<scale_arguments>(session, "scale", scale, {x.view({rows, cols}), y.view({rows, cols}), device::scalar_value(1.5f)});
    examples::describe(*session.find("scale"));
    std::printf("%d x %d bf16 by boxes of 64 x 128, each two swizzled chunks of 8192 bytes\n", rows, cols);

    std::vector<double> expected;
    for (bf16 v : x.host) expected.push_back(1.5 * static_cast<double>(static_cast<float>(v)));
    return examples::same(y.fetch(), expected, 0x1p-8);  // one rounding to bf16
  });
}
