#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "bench/device/cases.hpp"
#include "bench/device/streaming.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bench {

std::vector<row> measure_launch(const setting& on) {
  runtime::stream stream(on.gpu);
  const device::buffer a(on.gpu, 64 * 64 * 2), b(on.gpu, 64 * 64 * 2), c(on.gpu, 64 * 64 * 2), d(on.gpu, 64 * 64 * 2);
  for (const device::buffer* x : {&a, &b, &c}) on.values.fill(on.gpu, x->where(), 64 * 64, x->where());
  const streaming_shape shape{256, 1, false};
  const std::string ptx = streaming_ptx(shape);
  void* const function = on.of.load(ptx, "stream");
  const std::shared_ptr<device::module> code = on.gpu.load({.ptx = ptx, .cubin = {}});
  const device::launch how = streaming_launch(shape, {a.where(), b.where(), c.where(), d.where()}, 64 * 64 * 2, stream.handle());
  runtime::prepare(on.gpu, *code, "stream", 0);
  std::uint64_t pa = a.where(), pb = b.where(), pc = c.where(), pd = d.where();
  std::uint32_t vectors = 64 * 64 * 2 / 16;
  void* arguments[] = {&pa, &pb, &pc, &pd, &vectors};
  host::gemm_options options;
  options.stream = stream.handle();

  struct way {
    const char* name;
    const char* note;
    std::function<void()> go;
    std::vector<double> ms;
  };
  way ways[] = {
      {"driver", "cuLaunchKernel, five parameters", [&] { on.of.launch(function, how.grid.x, how.block.x, arguments, stream.handle()); }, {}},
      {"tlx_machine", "the same kernel by machine::run", [&] { on.gpu.run(*code, "stream", how); }, {}},
      {"tlx_gemm", "host::gemm: checks, binding, three tensor maps", [&] { host::gemm(on.session, {a.where(), 64, 64}, {b.where(), 64, 64, 0, true}, {c.where(), 64, 64}, options); }, {}},
  };
  constexpr int batch = 200;  // below the depth of the queue, so that the host never waits for the GPU
  for (int round = 0; round < on.rounds + 2; ++round)
    for (way& w : ways) {
      stream.wait();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < batch; ++i) w.go();
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / batch;
      if (round >= 2) w.ms.push_back(ms);
    }
  stream.wait();
  std::vector<row> rows;
  for (const way& w : ways) {
    row r{"launch_host", w.name, {{"batch", batch}}, quantile(w.ms, 0.5), quantile(w.ms, 0.99), 0, 0, true, w.note};
    print_row(r);
    rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace tlx::bench
