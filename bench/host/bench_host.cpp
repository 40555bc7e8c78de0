// What the host pays to make the bf16 GEMM kernel of 128 x 256 x 64: tracing, each pass, PTX, assembly, a hit in the disk cache; and what
// opening a bundle costs.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/host/bundle_cases.hpp"
#include "bench/support/traced.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/ir/kernel.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/pass/pipeline.hpp"

namespace {

using namespace tlx;

// The kernel after the first `passes` passes.
std::unique_ptr<ir::kernel> lowered(const std::string& target, std::size_t passes) {
  std::unique_ptr<ir::kernel> k = bench::traced_gemm(target);
  for (std::size_t i = 0; i < passes; ++i) pass::pipeline_for(target)[i].run(*k);
  return k;
}

void trace(benchmark::State& state, const std::string& target) {
  for (auto _ : state) benchmark::DoNotOptimize(bench::traced_gemm(target));
}

void one_pass(benchmark::State& state, const std::string& target, std::size_t index) {
  const std::unique_ptr<ir::kernel> before = lowered(target, index);
  for (auto _ : state) {
    state.PauseTiming();
    std::unique_ptr<ir::kernel> k = ir::clone(*before);
    state.ResumeTiming();
    pass::pipeline_for(target)[index].run(*k);
    state.PauseTiming();
    k.reset();
    state.ResumeTiming();
  }
}

void verify(benchmark::State& state, const std::string& target) {
  const std::unique_ptr<ir::kernel> k = lowered(target, pass::pipeline_for(target).size());
  for (auto _ : state) ir::verify_or_raise(*k, "simplify");
}

void print(benchmark::State& state, const std::string& target) {
  const std::unique_ptr<ir::kernel> k = bench::traced_gemm(target);
  for (auto _ : state) benchmark::DoNotOptimize(ir::print(*k, {.locations = true}));
}

void ptx(benchmark::State& state, const std::string& target) {
  const std::unique_ptr<ir::kernel> k = lowered(target, pass::pipeline_for(target).size());
  for (auto _ : state) benchmark::DoNotOptimize(codegen::to_ptx(*k));
}

void assemble(benchmark::State& state, const std::string& target) {
  const std::string text = codegen::to_ptx(*lowered(target, pass::pipeline_for(target).size()));
  for (auto _ : state) benchmark::DoNotOptimize(jit::assemble(text, target));
}

// Stages as jit::compile itself reports them, as counters in milliseconds.
void compile(benchmark::State& state, const std::string& target, bool cached) {
  const std::unique_ptr<ir::kernel> traced = bench::traced_gemm(target);
  const jit::compile_options how{.assemble = true, .line_info = true, .use_cache = cached};
  if (cached) (void)jit::compile(*traced, how);
  std::vector<jit::stage_time> times;
  for (auto _ : state) benchmark::DoNotOptimize(jit::compile(*traced, how, {.after = {}, .llvm = {}, .ptx = {}, .times = &times}));
  for (const jit::stage_time& t : times) state.counters[t.stage] += t.ms / static_cast<double>(state.iterations());
  if (cached && state.counters.count("cache") == 0) state.SkipWithError("the cache did not answer");
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::string folder = (std::filesystem::temp_directory_path() / "tlx-bench-host-XXXXXX").string();
  std::vector<char> name(folder.begin(), folder.end());
  name.push_back(0);
  if (!mkdtemp(name.data())) return std::perror("mkdtemp"), 1;
  setenv("TLX_CACHE", name.data(), 1);  // before the first use: the cache of this process alone

  for (const std::string target : {"sm_90a", "sm_100a"}) {
    const auto add = [&](const std::string& what, auto body) { return benchmark::RegisterBenchmark((what + "/" + target).c_str(), body)->Unit(benchmark::kMillisecond); };
    add("trace", [=](benchmark::State& s) { trace(s, target); });
    for (std::size_t i = 0; i < pass::pipeline_for(target).size(); ++i) add(std::string("pass/") + pass::pipeline_for(target)[i].name, [=](benchmark::State& s) { one_pass(s, target, i); })->Iterations(50);
    add("verify", [=](benchmark::State& s) { verify(s, target); });
    add("print", [=](benchmark::State& s) { print(s, target); });
    add("ptx", [=](benchmark::State& s) { ptx(s, target); });
    add("assemble", [=](benchmark::State& s) { assemble(s, target); })->UseRealTime()->Iterations(2);
    add("compile/cold", [=](benchmark::State& s) { compile(s, target, false); })->UseRealTime()->Iterations(2);
    add("compile/cache-hit", [=](benchmark::State& s) { compile(s, target, true); })->UseRealTime();
  }
  bench::add_bundle_cases();
  benchmark::RunSpecifiedBenchmarks();
  std::error_code none;
  std::filesystem::remove_all(name.data(), none);
  return 0;
}
