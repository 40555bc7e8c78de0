// Step 5: roles and rings. One warp fills a ring by TMA, four warps drain it and fill a second ring themselves, four more drain that one. Who signals
// what, how many arrivals a barrier counts and which phase somebody waits for follows from these uses; nothing of it is written down.
#include "common.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

// [kernel]
struct stages_arguments {
  TLX_ARGUMENTS(stages_arguments, (view<bf16, 2>, x), (view<bf16, 2>, y), (scalar<float>, bound));
};

void stages(block& cta, const stages_arguments& in) {
  auto tiles = cta.persistent(grid_of<64, 64>(in.x));  // as many CTAs as fit stay, and every role walks this list
  auto loaded = cta.ring<3>("loaded", shared<bf16, 64, 64>);
  auto clipped = cta.ring<2>("clipped", shared<bf16, 64, 64>);
  cta.roles(tiles,
    role("load", 1_warp, [&](const grid_box& t) { load(loaded.fill(), in.x[t]); }),
    role("clip", 4_warps, [&](const grid_box&) {
      auto x = cast<float>(read(loaded.drain()));
      write(clipped.fill(), cast<bf16>(where(abs(x) < in.bound, x, 0.0f)));
    }),
    role("store", 4_warps, [&](const grid_box& t) { store(in.y[t], read(clipped.drain())); }));
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr int rows = 320, cols = 200;
    examples::array<bf16> x(m, examples::random_values<bf16>(rows * cols, 5)), y(m, rows * cols, bf16(9.0f));
    host::session session(m);
    host::launch<stages_arguments>(session, "stages", stages, {x.view({rows, cols}), y.view({rows, cols}), device::scalar_value(1.0f)});
    examples::describe(*session.find("stages"));
    std::printf("%d tiles for rings of 3 and 2 slots: every slot is used again and again\n", (rows + 63) / 64 * ((cols + 63) / 64));

    std::vector<double> expected;
    for (bf16 v : x.host) expected.push_back(std::abs(static_cast<float>(v)) < 1 ? static_cast<double>(static_cast<float>(v)) : 0);
    return examples::same(y.fetch(), expected, 0);
  });
}
