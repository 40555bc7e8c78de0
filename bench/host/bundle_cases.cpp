#include "bench/host/bundle_cases.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

#include "bench/support/traced.hpp"
#include "tlx/bundle/bundle.hpp"
#include "tlx/bundle/write.hpp"
#include "tlx/ir/kernel.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bench {

namespace {


constexpr int kernel_count = 1000;

// A thousand kernels of the GEMM's size in a file; no two have the same code.
class thousand {
 public:
  thousand() : path_(cat(std::filesystem::temp_directory_path().string(), "/tlx-bench-", ::getpid(), ".tlxb")) {
    const device::kernel gemm = jit::compile(*traced_gemm("sm_90a"), {.assemble = jit::has_assembler()});
    std::vector<bundle::compiled> kernels;
    for (int i = 0; i < kernel_count; ++i) {
      device::kernel k = gemm;
      k.name = k.entry = cat("gemm_", i);
      std::string& code = k.code.cubin.empty() ? k.code.ptx : k.code.cubin;
      for (int byte = 0; byte < 4; ++byte) code[code.size() / 2 + static_cast<size_t>(byte)] = static_cast<char>(i >> (8 * byte) ^ 0x55);
      kernels.push_back({k.name, "", std::move(k)});
    }
    write_file(path_, bundle::pack({"bench", "1", "", "", ""}, std::move(kernels), {.ptx = gemm.code.cubin.empty()}));
  }
  ~thousand() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string& file() {
  static const thousand made;  // at the first use: it takes seconds
  return made.path();
}

void open(benchmark::State& state) {
  const std::string& path = file();
  for (auto _ : state) benchmark::DoNotOptimize(bundle::bundle::open(path).entries().size());
  state.counters["kernels"] = kernel_count;
  state.counters["file_bytes"] = static_cast<double>(std::filesystem::file_size(path));
}

void load_one(benchmark::State& state) {
  const bundle::bundle b = bundle::bundle::open(file());
  int i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(b.load(b.choose(cat("gemm_", i++ % kernel_count), "", "sm_90a")));
}

}  // namespace

void add_bundle_cases() {
  benchmark::RegisterBenchmark("bundle/open", open)->Unit(benchmark::kMillisecond)->UseRealTime();
  benchmark::RegisterBenchmark("bundle/load-one", load_one)->Unit(benchmark::kMillisecond)->UseRealTime();
}

}  // namespace tlx::bench
