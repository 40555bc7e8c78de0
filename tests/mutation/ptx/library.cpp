// Every kernel of the library's list, on inputs made from its parameters: the smallest that take it everywhere it goes with large ones.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "subject.hpp"
#include "tests/mutation/inputs.hpp"
#include "tlx/host/library.hpp"
#include "tlx/jit/compile.hpp"

namespace mutation {

using namespace tlx;

namespace {

/// From small to large: what is cheap comes first. The last goes everywhere.
constexpr tlx::mutation::sizes candidates[] = {{72, 72, 72}, {136, 136, 72}, {136, 136, 136}, {136, 136, 264}, {136, 264, 136}, {136, 264, 264}, {264, 264, 136}, {264, 264, 264}};
constexpr std::uint64_t enough_phases = 3;  // of each slot: the ring has gone round more than twice

/// Where a run went: the lines it executed and those that a predicate kept some lanes from, and how often the barriers completed, up to three phases each.
struct ways {
  std::map<int, std::uint64_t> lines;
  std::set<int> guarded;
  std::map<std::uint32_t, std::uint64_t> phases;

  explicit ways(const sim::statistics& of) : lines(of.lines_run), guarded(of.lines_guarded), phases(of.barrier_phases) {
    for (auto& [offset, count] : phases) count = std::min(count, enough_phases);
  }
  bool reach(const ways& other) const {
    const auto phases_at = [&](std::uint32_t offset) { const auto at = phases.find(offset); return at == phases.end() ? 0 : at->second; };
    return std::all_of(other.lines.begin(), other.lines.end(), [&](const auto& l) { return lines.count(l.first); }) &&
           std::all_of(other.guarded.begin(), other.guarded.end(), [&](int l) { return guarded.count(l); }) &&
           std::all_of(other.phases.begin(), other.phases.end(), [&](const auto& p) { return phases_at(p.first) >= p.second; });
  }
};

subject launched(const host::library_kernel& each, const device::kernel& k, const std::vector<tlx::mutation::input>& inputs, const std::string& target) {
  auto on = std::make_shared<recorder>(target);
  std::vector<device::buffer> held;
  const std::vector<device::value> values = tlx::mutation::put(inputs, *on, held);
  const auto code = on->load(k.code);
  on->run(*code, k.entry, device::bind(k, values, on->about()));
  subject s{each.name, target, on, std::move(on->launches.front()), true};
  on->launches.clear();
  return s;
}

/// Of the rings that the PTX names.
std::int64_t most_slots(const std::string& ptx) {
  std::int64_t most = 8;
  for (std::size_t at = ptx.find(" stages="); at != std::string::npos; at = ptx.find(" stages=", at + 1)) most = std::max<std::int64_t>(most, std::stol(ptx.substr(at + 8, 4)));
  return most;
}

/// Problems of one tile, or few, whose rings end at each of their slots: what is done once more where a ring begins anew is done between other waits each time.
std::function<const std::vector<subject>&()> rounds_of(const host::library_kernel& each, const device::kernel& k, std::shared_ptr<const ir::kernel> traced, const std::string& target) {
  auto made = std::make_shared<std::vector<subject>>();
  return [=]() -> const std::vector<subject>& {
    if (!made->empty()) return *made;
    const bool attention = each.name.find("attention") != std::string::npos;
    const std::int64_t shortest = each.name.find("_jagged") != std::string::npos ? 328 : 8;  // of jagged kernels only the last sequence becomes longer, where sizes are larger than the usual ones
    const std::int64_t round = each.name.find("e4m3") != std::string::npos ? 128 : 64;
    const auto add = [&](std::int64_t m, std::int64_t k_extent) { made->push_back(launched(each, k, tlx::mutation::inputs_of(*traced, {m, 72, k_extent}), target)); };
    for (std::int64_t n = 0; n <= most_slots(k.code.ptx); ++n) {
      add(72, shortest + n * round);
      if (attention) add(shortest + n * round, 8);  // rounds over queries
    }
    return *made;
  };
}

}  // namespace

std::vector<subject> library(const std::string& target, const wanted& is_wanted, std::int64_t extent) {
  std::vector<subject> all;
  for (const host::library_kernel& each : host::library_kernels(target)) {
    if (!is_wanted(each.name)) continue;
    const std::shared_ptr<const ir::kernel> traced = each.trace(target);
    const device::kernel k = jit::compile(*traced, {.assemble = false, .use_cache = false});
    const auto inputs = [&](const tlx::mutation::sizes& of) { return tlx::mutation::inputs_of(*traced, of); };
    const tlx::mutation::sizes largest = extent ? tlx::mutation::sizes{extent, extent, extent} : *std::rbegin(candidates);
    subject best = launched(each, k, inputs(largest), target);
    const auto size_of = [](const std::vector<tlx::mutation::input>& all_of) {
      std::size_t bytes = 0;
      for (const tlx::mutation::input& in : all_of) bytes += in.bytes.size();
      return bytes;
    };
    if (!extent && size_of(inputs(candidates[0])) < size_of(inputs(largest))) {
      const ways everywhere(best.from->on->last_run());
      // Few rounds show what many rounds put in order, and the other way round: what is passed over is kept for mutants that show nothing.
      std::vector<subject> others;
      for (const tlx::mutation::sizes& smaller : candidates) {
        others.push_back(launched(each, k, inputs(smaller), target));
        if (!ways(others.back().from->on->last_run()).reach(everywhere)) continue;
        std::swap(best, others.back());
        break;
      }
      best.others = std::move(others);
    }
    best.rounds = rounds_of(each, k, traced, target);
    all.push_back(std::move(best));
  }
  return all;
}

}  // namespace mutation
