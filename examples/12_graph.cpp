// Step 12: a CUDA graph of tlx kernels. Twenty launches are captured once and replayed by one call; GPU only, since a simulator has no streams.
#include <chrono>

#include "common.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

struct step_arguments {
  TLX_ARGUMENTS(step_arguments, (view<float, 1>, x));
};

void step(block& cta, const step_arguments& in) {
  cta.warps(4_warps);
  cta.tile(lines_of<512>(in.x), [&](const line_box& t) { store(in.x[t], fetch<1, 512>(in.x[t]) * 0.5f + 1.0f); });
}

double microseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

int main(int argc, char** argv) {
  if (runtime::gpu_count() == 0) return std::puts("needs a GPU"), 77;
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr std::int64_t n = 3000;
    constexpr int steps = 20, replays = 50;
    examples::array<float> x(m, examples::random_values<float>(n, 5));
    host::session session(m);
    runtime::stream stream(m);
    const auto launch_all = [&] {
      for (int i = 0; i < steps; ++i) host::launch<step_arguments>(session, "step", step, {x.view({n})}, stream.handle());
    };
    launch_all();  // compiled and loaded here: nothing may be loaded while a stream is captured
    stream.wait();
    // [capture]
    stream.begin_capture();
    launch_all();
    runtime::graph graph = stream.end_capture();
    // [/capture]
    graph.launch(stream.handle());
    stream.wait();
    const double by_launches = microseconds([&] {
      for (int i = 0; i < replays; ++i) launch_all();
      stream.wait();
    });
    const double by_graph = microseconds([&] {
      for (int i = 0; i < replays; ++i) graph.launch(stream.handle());
      stream.wait();
    });
    std::printf("%d kernels: %.1f us by launches, %.1f us by a graph: %.2f times less\n", steps, by_launches / replays, by_graph / replays, by_launches / by_graph);

    std::vector<double> expected;
    for (const float v : x.host) {
      float y = v;
      for (int i = 0; i < steps * (2 + 2 * replays); ++i) y = y * 0.5f + 1.0f;
      expected.push_back(static_cast<double>(y));
    }
    return examples::same(x.fetch(), expected, 0x1p-22);  // the product by 0.5 is exact: one rounding a step, towards the fixed point 2
  });
}
