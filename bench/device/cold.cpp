#include "bench/device/cold.hpp"

#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/support/traced.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"

namespace tlx::bench {

void print_cold(device::machine& gpu, const std::string& kernel) {
  if (kernel != "gemm" && kernel != "attention")
    raise(user_error({.id = "bench-cold", .what = "no kernel \"" + kernel + "\"", .because = "cold compilation is timed for two kernels", .fix = {"--cold gemm", "--cold attention"}}));
  std::vector<jit::stage_time> times;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(); };
  const std::unique_ptr<ir::kernel> traced = kernel == "gemm" ? traced_gemm(gpu.about().target) : traced_attention(gpu.about().target);
  times.push_back({"trace", elapsed()});
  const device::kernel made = jit::compile(*traced, {}, {.after = {}, .llvm = {}, .ptx = {}, .times = &times});
  const double compiled = elapsed();
  const std::shared_ptr<device::module> module = gpu.load(made.code);
  runtime::prepare(gpu, *module, made.entry, made.dynamic_shared_bytes);
  times.push_back({"load", elapsed() - compiled});
  const double total = elapsed();
  std::printf("{\"kernel\": \"%s\", \"total_ms\": %.3f", kernel.c_str(), total);
  for (const jit::stage_time& t : times) std::printf(", \"%s\": %.3f", t.stage.c_str(), t.ms);
  std::printf(", \"registers\": %d, \"spill_bytes\": %d}\n", made.used.registers, made.used.spill_bytes);
}

}  // namespace tlx::bench
