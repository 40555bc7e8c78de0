// The main job in one program: JIT a fused GEMM and block attention, run them on a GPU or on the simulator, check them against float64, print a table.
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/attention.hpp"
#include "tests/support/problems.hpp"
#include "tlx/jit/machines.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/version.hpp"

namespace {

using namespace tlx;

struct row {
  std::string kernel, shape, target, cost, share;
  double compile_ms = 0, error = 0;
  bool ok = false;
  std::string why;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Milliseconds of one run, by events; 0 on the simulator.
double measure_ms(device::machine& m, bool gpu, const std::function<void()>& run) {
  if (!gpu) return 0;
  runtime::event start(m), stop(m);
  std::vector<double> ms;
  for (int i = 0; i < 15; ++i) {
    start.record();
    run();
    stop.record();
    stop.wait();
    ms.push_back(static_cast<double>(stop.ms_since(start)));
  }
  return median(ms);
}

class demo {
 public:
  demo(device::machine& m, bool gpu) : machine_(m), gpu_(gpu), session_(m) {}

  void gemm(const problems::gemm_case& c, const char* name) {
    problems::gemm_problem p(machine_, c);
    const double flops = 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
    // roof: dense bf16 of an H200 by its data sheet, 989 TFLOP/s
    add(name, cat(c.m, " x ", c.n, " x ", c.k), [&] { p.run(session_); }, [&] { return p.check(); }, flops / 989e9, flops / 1e9, "TFLOP/s");
  }
  void attention(const problems::attention_case& c, const char* name) {
    problems::attention_problem p(machine_, c);
    const double bytes = 8.0 * static_cast<double>(p.tokens() * c.heads * c.dimension);
    // roof: 4.8 TB/s of an H200 by its data sheet
    add(name, cat("T=", p.tokens(), " H=", c.heads, " D=", c.dimension), [&] { p.run(session_); }, [&] { return p.check(); }, bytes / 4.8e9, bytes / 1e6, "GB/s");
  }

  int finish() const {
    std::printf("%-28s %-22s %-8s %10s  %-26s %-8s %9s  %s\n", "kernel", "shape", "target", "compile ms", gpu_ ? "time" : "simulated instructions", gpu_ ? "of roof" : "", "rel. L2", "check");
    bool all = true;
    for (const row& r : rows_) {
      std::printf("%-28s %-22s %-8s %10.1f  %-26s %-8s %9.2e  %s\n", r.kernel.c_str(), r.shape.c_str(), r.target.c_str(), r.compile_ms, r.cost.c_str(), r.share.c_str(), r.error,
                  r.ok ? "right" : r.why.c_str());
      all = all && r.ok;
    }
    std::printf("%s\n", all ? "all results agree with the float64 reference" : "WRONG RESULTS");
    return all ? 0 : 1;
  }

 private:
  void add(const char* name, const std::string& shape, const std::function<void()>& run, const std::function<problems::verdict()>& check, double roof_ms, double work, const char* unit) {
    row r{name, shape, machine_.about().target, "", "", 0, 0, false, ""};
    run();
    const problems::verdict v = check();
    r.compile_ms = session_.last_compile_ms();
    r.ok = v.ok;
    r.why = v.why;
    r.error = v.rel_l2;
    if (gpu_) {
      const double ms = measure_ms(machine_, gpu_, run);
      char text[80];
      std::snprintf(text, sizeof text, "%.4f ms (%.0f %s)", ms, work / ms, unit);
      r.cost = text;
      std::snprintf(text, sizeof text, "%.0f %%", 100 * roof_ms / ms);
      r.share = text;
    } else if (auto* s = dynamic_cast<sim::machine*>(&machine_)) {
      r.cost = cat(s->last_run().warp_instructions, " warp instr.");
    }
    rows_.push_back(r);
  }

  device::machine& machine_;
  bool gpu_;
  host::session session_;
  std::vector<row> rows_;
};

// Five times what L2 holds at least, and few enough that the host fills and checks them in seconds.
std::vector<int> production_lengths() {
  std::mt19937 bits(7);
  std::vector<int> lengths(288);
  for (int& l : lengths) l = 1 + static_cast<int>(bits() % 1024);
  return lengths;
}

int run(const std::string& name) {
  const bool gpu = name.rfind("gpu", 0) == 0;
  // Two processors, so that a persistent kernel has several tiles for each.
  std::unique_ptr<device::machine> m = gpu ? jit::open_machine(name) : sim::open(name.substr(4), {.processor_count = 2});
  std::printf("tlx %s on %s (%s)\n", version_string, m->about().name.c_str(), m->about().target.c_str());
  demo d(*m, gpu);
  using host::activation;
  if (gpu) {
    d.gemm({.m = 4096, .n = 4096, .k = 4096, .bias = true, .activate = activation::gelu_tanh, .sample_rows = 16}, "gemm + bias + gelu");
    d.gemm({.m = 8192, .n = 8192, .k = 8192, .sample_rows = 8}, "gemm");
    d.gemm({.m = 1000, .n = 1112, .k = 520, .bias = true, .activate = activation::silu, .sample_rows = 50}, "gemm + bias + silu, tails");
    d.attention({.lengths = production_lengths(), .heads = 4, .dimension = 64, .sample_tiles = 400}, "block attention");
    d.attention({.lengths = production_lengths(), .heads = 4, .dimension = 128, .sample_tiles = 400}, "block attention");
  } else {
    d.gemm({.m = 384, .n = 512, .k = 576, .bias = true, .activate = activation::gelu_tanh}, "gemm + bias + gelu");
    d.gemm({.m = 200, .n = 312, .k = 328, .bias = true, .activate = activation::silu}, "gemm + bias + silu, tails");
    d.attention({.lengths = {0, 1, 63, 64, 65, 200}, .heads = 2, .dimension = 64}, "block attention");
    d.attention({.lengths = {130, 0, 7, 64}, .heads = 2, .dimension = 128}, "block attention");
  }
  return d.finish();
}

}  // namespace

int main(int argc, char** argv) {
  std::string device;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--device" && i + 1 < argc) device = argv[++i];
    else if (word == "--help") return std::puts("usage: demo [--device gpu|gpu:N|sim:sm_90a|sim:sm_100a|sim:sm_103a]"), 0;
    else return std::fprintf(stderr, "demo: unknown argument %s (see --help)\n", word.c_str()), 2;
  }
  try {
    return run(device.empty() ? jit::default_machine() : device);
  } catch (const error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
