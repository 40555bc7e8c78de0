// A launch on several threads. Each thread has an engine and takes the next cluster when its own has ended. Clusters of most kernels share nothing but inputs; that is
// checked while they run: every access claims its global bytes. When two clusters meet, or one faults, all that was written is put back and the launch runs on one thread,
// which is what the result then is. So the number of threads never shows.
#include <algorithm>
#include <cstdlib>
#include <thread>

#include "sim/launch.hpp"
#include "sim/ops.hpp"

namespace tlx::sim {
namespace {

struct claims {
  explicit claims(global_memory& m) : memory(m) {
    // calloc: pages that nobody touches cost nothing.
    for (const auto& a : memory.list) a->claims = static_cast<std::atomic<std::uint64_t>*>(std::calloc(a->bytes / 8 + 1, sizeof(std::atomic<std::uint64_t>)));
  }
  ~claims() {
    for (const auto& a : memory.list) { std::free(static_cast<void*>(a->claims)); a->claims = nullptr; }
  }
  claims(const claims&) = delete;
  claims& operator=(const claims&) = delete;
  bool complete() const { return std::all_of(memory.list.begin(), memory.list.end(), [](const auto& a) { return a->claims != nullptr; }); }
  global_memory& memory;
};

/// False: it has to be done on one thread; memory is as it was.
bool run_apart(global_memory& memory, const program& code, const launch_shape& shape, const std::vector<std::byte>& parameters, const options& how, int sm, unsigned threads, launch_result& out) {
  const claims held(memory);
  if (!held.complete()) return false;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<engine>> engines;
  for (unsigned t = 0; t < threads; ++t) {
    engines.push_back(std::make_unique<engine>(memory, code, shape, parameters, how, sm));
    engines.back()->shared_next = &next;
    engines.back()->stop = &stop;
  }
  const auto work = [&](engine& e) {
    try { e.run(); } catch (...) { stop.store(true); }  // whatever it is, one thread will find it again
  };
  {
    std::vector<std::thread> others;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back([&, t] { work(*engines[t]); });
    work(*engines[0]);
    for (std::thread& t : others) t.join();
  }
  if (stop.load()) {
    for (const auto& e : engines) for (const auto& old : e->memory.overwritten) std::memcpy(old.at, &old.value, old.bytes);
    return false;
  }
  std::vector<std::pair<std::uint64_t, std::string>> lints;
  for (const auto& e : engines) {
    out.warp_instructions += e->warp_instructions;
    out.lane_instructions += e->lane_instructions;
    for (std::size_t k = 0; k < e->lints.size(); ++k) lints.emplace_back(e->lint_cluster[k], e->lints[k]);
  }
  std::stable_sort(lints.begin(), lints.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [cluster, text] : lints) if (std::find(out.lints.begin(), out.lints.end(), text) == out.lints.end()) out.lints.push_back(text);
  return true;
}

}  // namespace

launch_result run_launch(global_memory& memory, const program& code, const launch_shape& shape, const std::vector<std::byte>& parameters, const options& how, int sm) {
  launch_result out;
  const std::uint64_t clusters = std::uint64_t{shape.grid.x / shape.cluster.x} * (shape.grid.y / shape.cluster.y) * (shape.grid.z / shape.cluster.z);
  const unsigned threads = static_cast<unsigned>(std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(1, how.threads)), clusters));
  if (threads > 1 && !how.trace && code.clusters_apart && clusters < 0xFFFFFFFEU && run_apart(memory, code, shape, parameters, how, sm, threads, out)) return out;
  engine e(memory, code, shape, parameters, how, sm);
  try { e.run(); } catch (const fault_found& f) { out.fault = f.report; }
  out.warp_instructions = e.warp_instructions;
  out.lane_instructions = e.lane_instructions;
  out.lints = e.lints;
  out.printed = e.printed;
  out.barrier_lines = e.barrier_lines;
  out.barrier_phases = e.barrier_phases;
  for (std::size_t k = 0; k < e.reached.size(); ++k) {
    if (e.reached[k].warps) out.lines_run[code.code[k].line] |= e.reached[k].warps;
    if (e.reached[k].guarded) out.lines_guarded.insert(code.code[k].line);
  }
  return out;
}

}  // namespace tlx::sim
