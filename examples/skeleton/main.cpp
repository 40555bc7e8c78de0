// The smallest program that uses an installed tlx: a kernel, compiled and run when the program starts, on a simulated GPU (or on "gpu").
#include <cstdio>
#include <string>
#include <vector>

#include "tlx/host/launch.hpp"
#include "tlx/jit/machines.hpp"
#include "tlx/support/error.hpp"
#include "tlx/version.hpp"

using namespace tlx;
using namespace tlx::literals;

struct twice_arguments {
  TLX_ARGUMENTS(twice_arguments, (view<float, 1>, x), (view<float, 1>, y));
};

void twice(block& cta, const twice_arguments& in) {
  cta.warps(1_warp);
  cta.tile(lines_of<128>(in.x), [&](const line_box& t) {
    auto x = fetch<1, 128>(in.x[t]);
    store(in.y[t], x + x);
  });
}

int main(int argc, char** argv) {
  std::printf("tlx %s\n", version_string);
  try {
    const auto machine = jit::open_machine(argc > 1 ? argv[1] : "sim:sm_90a");
    const std::vector<float> x(300, 1.5f);
    std::vector<float> y(x.size());
    const std::size_t bytes = x.size() * sizeof(float);
    device::buffer on_x(*machine, bytes), on_y(*machine, bytes);
    on_x.write(x.data(), bytes);

    host::session session(*machine);
    host::launch<twice_arguments>(session, "twice", twice, {device::view_value(on_x.where(), {300}), device::view_value(on_y.where(), {300})});
    on_y.read(y.data(), bytes);

    const bool right = y == std::vector<float>(x.size(), 3.0f);
    std::printf("300 times 1.5 doubled on %s: %s\n", machine->about().name.c_str(), right ? "right" : "WRONG");
    return right ? 0 : 1;
  } catch (const error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
