// A library kernel on a machine: random inputs, a float64 reference, the result, its cost.
#include <charconv>
#include <cstdio>

#include "source.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/problems.hpp"
#include "tlx/host/library.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/jit/machines.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/tile/limits.hpp"
#include "verbs.hpp"

namespace tlxc {

using namespace tlx;

namespace {

std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> all;
  for (const std::string& word : split(text, ',')) {
    std::int64_t n = 0;
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (fault != std::errc{} || end != word.data() + word.size() || n < 0 || n > 1 << 24) throw usage_error(cat("--shape \"", text, "\" is no list of numbers"));
    all.push_back(n);
  }
  return all;
}

struct work {
  std::string shape;
  double amount = 0;  // floating-point operations or bytes
  const char* unit = "";
  std::function<void()> launch;
  std::function<problems::verdict()> check;
};

device::value view_of(const host::matrix& m) {
  const std::int64_t slow = m.column_major ? m.cols : m.rows, fast = m.column_major ? m.rows : m.cols;
  return device::view_value(m.data, {slow, fast}, {m.stride, 1});
}

work gemm(const host::library_kernel& k, const host::gemm_inputs& of, host::session& with, const arguments& given, bool gpu, std::uint64_t seed) {
  const std::vector<std::int64_t> shape = numbers_of(given.text("--shape", gpu ? "4096,4096,4096" : "384,512,576"));
  if (shape.size() != 3) throw usage_error("--shape of a GEMM is M,N,K");
  problems::gemm_case c{.m = shape[0], .n = shape[1], .k = shape[2], .type = of.type, .a_column_major = of.a_transposed, .b_column_major = of.b_transposed, .bias = of.bias, .residual = of.residual,
                        .activate = of.activate, .alpha = of.alpha ? 0.75f : 1.0f, .sample_rows = gpu ? 32 : 0};
  auto p = std::make_shared<problems::gemm_problem>(with.on(), c, seed);
  const host::gemm_options o = p->options();
  // As host::gemm orders them; what the epilogue does not read is empty.
  const device::value no_vector = device::view_value(0, {0}), no_matrix = device::view_value(0, {0, 0}), zero = device::scalar_value(0.0f);
  const std::vector<device::value> values{view_of(p->a()), view_of(p->b()), view_of(p->out()), device::view_value(o.bias, {o.bias ? c.n : 0}), view_of(o.residual), device::scalar_value(o.alpha),
                                          no_vector, no_vector, no_matrix, zero, zero};
  return {cat(c.m, " x ", c.n, " x ", c.k), 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k), "TFLOP/s",
          [=, &with] { with.run(k.name, k.trace, values); }, [p] { return p->check(); }};
}

// The problem launches block attention by tlx/host/attention.hpp, which traces the same body under the same name.
work attention(const host::attention_inputs& of, host::session& with, const arguments& given, bool gpu, std::uint64_t seed) {
  const std::int64_t heads = given.number("--heads", gpu ? 4 : 2, 1);
  problems::attention_case c{.lengths = {}, .heads = of.grouped ? 2 * heads : heads, .key_heads = of.grouped ? heads : 0, .dimension = of.dimension, .block = of.block, .causal = of.causal, .type = of.type,
                             .sample_tiles = gpu ? 400 : 0, .backward = of.backward, .rotary = of.rotary};
  if (gpu && !given.has("--shape"))
    for (int i = 0; i < 1152; ++i) c.lengths.push_back(1 + (i * 389) % 1024);
  else
    for (std::int64_t n : numbers_of(given.text("--shape", "0,1,63,64,65,200"))) c.lengths.push_back(static_cast<int>(n));
  auto p = std::make_shared<problems::attention_problem>(with.on(), c, seed);
  return {cat(c.lengths.size(), " sequences, ", p->tokens(), " tokens, ", c.heads, " heads"), p->bytes(), "GB/s", [=, &with] { p->run(with); },
          [p] { return p->check(); }};
}

double best_ms(device::machine& m, const std::function<void()>& launch) {
  runtime::event start(m), stop(m);
  double best = 0;
  for (int i = 0; i < 15; ++i) {
    start.record();
    launch();
    stop.record();
    stop.wait();
    const double ms = static_cast<double>(stop.ms_since(start));
    best = i == 0 ? ms : std::min(best, ms);
  }
  return best;
}

// Of the code that ran, or, on the simulator, which runs PTX, of what the assembler makes of it where there is one.
device::resources resources_of(const host::session& with, const host::library_kernel& kernel, bool gpu) {
  if (gpu) return with.find(kernel.name) ? with.find(kernel.name)->used : device::resources{};
  try {
    jit::assembler_path();
  } catch (const device_error&) {
    return {};
  }
  return jit::compile(*kernel.trace(with.on().about().target), {.use_cache = false}).used;
}

void print_resources(const device::resources& used) {
  if (used.registers < 0) {
    std::printf("resources  unknown: no assembler was found\n");
    return;
  }
  std::printf("resources  %d registers, %d bytes spilled, %d bytes of stack (%s)\n", used.registers, used.spill_bytes, used.stack_bytes, used.assembler.c_str());
  for (const std::string& a : used.advisories) std::printf("           %s\n", a.c_str());
}

// The same problem in another order of events: right, and equal to the last bit. A fault names its seed itself.
template <class WorkOn>
void try_schedule(std::unique_ptr<device::machine> m, const WorkOn& work_on, std::uint64_t seed, std::uint64_t expected) {
  host::session with(*m);
  const work w = work_on(with);
  w.launch();
  const problems::verdict v = w.check();
  if (!v.ok) raise(sim_error({.id = "schedule-differs", .what = v.why, .context = cat("seed ", seed)}));
  if (dynamic_cast<sim::machine&>(*m).digest() != expected)
    raise(sim_error({.id = "schedule-differs", .what = "the result is within its tolerance, but not equal to that of the first schedule", .because = "something depends on the order of events", .context = cat("seed ", seed)}));
}

int run(const arguments& given) {
  const std::string name = given.words()[0], machine = given.text("--device", jit::default_machine());
  host::library_kernel kernel;
  for (host::library_kernel& k : host::library_kernels())
    if (k.name == name) kernel = std::move(k);
  if (!kernel.trace) throw usage_error(cat("there is no library kernel \"", name, "\"; tlxc list shows them"));
  const auto* product = std::get_if<host::gemm_inputs>(&kernel.inputs);
  const auto* scores = std::get_if<host::attention_inputs>(&kernel.inputs);
  if (!product && !scores) throw usage_error(cat("tlxc run has no inputs for \"", name, "\": it feeds plain 16-bit GEMMs and block attention"));

  const bool gpu = machine.rfind("gpu", 0) == 0;
  const auto seed = static_cast<std::uint64_t>(given.number("--seed", 1));
  // Two processors, so that a persistent kernel has several tiles for each.
  const bool simulated = machine.rfind("sim:", 0) == 0 && tile::target_limits(machine.substr(4));
  const auto open_with = [&](std::uint64_t schedule) { return simulated ? std::unique_ptr<device::machine>(sim::open(machine.substr(4), {.seed = schedule, .processor_count = 2})) : jit::open_machine(machine); };
  const auto work_on = [&](host::session& s) { return product ? gemm(kernel, *product, s, given, gpu, seed) : attention(*scores, s, given, gpu, seed); };
  auto m = open_with(seed);
  host::session with(*m);
  const work w = work_on(with);
  w.launch();
  const problems::verdict v = w.check();
  const auto schedules = static_cast<std::uint64_t>(given.number("--schedules", 1, 1));
  if (schedules > 1 && !simulated) throw usage_error("--schedules goes with a simulated machine");
  for (std::uint64_t k = 1; k < schedules && v.ok; ++k) try_schedule(open_with(seed + k), work_on, seed + k, dynamic_cast<sim::machine&>(*m).digest());

  std::printf("kernel     %s on %s (%s)\nshape      %s\n", name.c_str(), m->about().name.c_str(), m->about().target.c_str(), w.shape.c_str());
  std::printf("result     %s, %ju values checked against float64, relative L2 error %.2e\n", v.ok ? "right" : "WRONG", static_cast<std::uintmax_t>(v.checked), v.rel_l2);
  if (!v.ok) std::printf("           %s\n", v.why.c_str());
  std::printf("compile    %.0f ms\n", with.last_compile_ms());
  if (gpu) {
    const double ms = best_ms(*m, w.launch);
    std::printf("time       %.4f ms, best of 15 (%.1f %s)\n", ms, w.amount / ms / (w.unit[0] == 'T' ? 1e9 : 1e6), w.unit);
  } else if (const auto* s = dynamic_cast<const sim::machine*>(m.get())) {
    if (schedules > 1) std::printf("schedules  %ju agree to the bit\n", static_cast<std::uintmax_t>(schedules));
    std::printf("simulated  %ju warp instructions in %.2f s\n", static_cast<std::uintmax_t>(s->last_run().warp_instructions), s->last_run().seconds);
    for (const std::string& l : s->last_run().lints) std::printf("lint       %s\n", l.c_str());
  }
  print_resources(resources_of(with, kernel, gpu));
  return v.ok ? 0 : 1;
}

}  // namespace

verb run_verb() {
  return {"run",
          "KERNEL",
          1,
          1,
          "runs a library kernel on random inputs and checks it against float64",
          "",
          {{"--device", "D", "gpu, gpu:N, sim:sm_90a, sim:sm_100a, sim:sm_103a (the GPU if there is one, else sim:sm_100a)"},
           {"--shape", "N,N,...", "a GEMM: M,N,K; block attention: the lengths of the sequences"},
           {"--heads", "N", "of block attention"},
           {"--seed", "N", "of the inputs and of the simulator's order of events (1)"},
           {"--schedules", "N", "on a simulator: how many orders of events to try, from that one up; stops at the first that faults or whose result differs (1)"}},
          run};
}

}  // namespace tlxc
