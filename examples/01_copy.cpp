// Step 1: a kernel is a function. It names its arguments, walks a list of tiles, fetches a tile into registers and stores it.
#include "common.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

// [kernel]
struct copy_arguments {
  TLX_ARGUMENTS(copy_arguments, (view<float, 1>, from), (view<float, 1>, to));
};

void copy(block& cta, const copy_arguments& in) {
  cta.warps(4_warps);
  cta.tile(lines_of<1024>(in.from), [&](const line_box& t) { store(in.to[t], fetch<1, 1024>(in.from[t])); });
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr int n = 10'000;
    examples::array<float> from(m, examples::random_values<float>(n, 1)), to(m, n, 0.0f);
    // [launch]
    host::session session(m);
    host::launch<copy_arguments>(session, "copy", copy, {from.view({n}), to.view({n})});
    // [/launch]
    examples::describe(*session.find("copy"));
    std::printf("%d floats in tiles of 1024: %d CTAs\n", n, (n + 1023) / 1024);
    return examples::same(to.fetch(), {from.host.begin(), from.host.end()}, 0);
  });
}
