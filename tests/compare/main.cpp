// The population on the simulator and on a GPU (or against what a GPU gave earlier), compared bit by bit. One table, details as JSON.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <thread>

#include "tests/compare/record.hpp"
#include "tests/compare/values.hpp"
#include "tests/support/apart.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/machines.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace {

using namespace tlx;
using namespace tlx::compare;

const char* const usage = R"(usage: compare_population [--filter RE] [--every N] [--jobs N] [--list] [--ptx NAME]
  --target sm_100a    the population for another chip: all but wgmma, and what that chip's code generation makes
  --device gpu:0      runs on this GPU as well; each kernel that faults or hangs costs its own process only
  --save FILE         keeps what the GPU gave, in full
  --against FILE      compares with what a GPU gave earlier, instead of running on one
  --golden FILE       writes names and digests of what the GPU gave
  --json FILE         differences: kernel, launch, inputs and outputs around the first ones
  --only-check        the simulator alone, against plain C++
  --assemble          gives every kernel to ptxas and counts what it refuses
)";

struct options {
  std::string filter = ".*", device, save, against, golden, json, ptx;
  int every = 1;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  bool list = false, assemble = false;
};

/// A sample with all that is known of it.
struct work {
  entry what;
  sample made;
  std::string problem;  // it could not be made
  std::string cubin, refused;
  outcome simulated, there;
  bool has_there = false;
};

template <class F>
void in_parallel(std::size_t count, unsigned jobs, F&& f) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> all;
  for (unsigned j = 0; j < jobs; ++j)
    all.emplace_back([&] {
      for (std::size_t i; (i = next++) < count;) f(i);
    });
  for (std::thread& t : all) t.join();
}

void make(work& w, bool assemble) {
  try {
    w.made = w.what.make();
    if (assemble) {
      try {
        w.cubin = jit::assemble(w.made.ptx, w.made.target).cubin;
      } catch (const error& e) {
        w.refused = e.what();
      }
    }
  } catch (const std::exception& e) {
    w.problem = e.what();
    return;
  }
  const auto machine = sim::open(w.made.target, {.seconds_without_progress = 20});
  w.simulated = run(*machine, w.made);
}

/// Runs `all` on the GPU in child processes, so that a kernel that faults or hangs takes none of the others with it.
void run_there(std::vector<work>& all, const options& o) {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < all.size(); ++i)  // a hang costs its whole time limit; asked for by name it is run
    if (all[i].problem.empty() && (all[i].simulated.error.find("[deadlock]") != 0 || o.filter != ".*")) wanted.push_back(i);
  const auto results = test::run_apart(wanted.size(), 10, 40, [&]() -> test::apart_worker {
    const std::shared_ptr<device::machine> machine = jit::open_machine(o.device);
    return [&, machine](std::size_t k) {
      const work& w = all[wanted[k]];
      const outcome got = run(*machine, w.made, w.cubin);
      return test::apart_text{to_text(w.what.name, w.made, got), !got.error.empty()};
    };
  });
  std::string kept;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    work& w = all[wanted[k]];
    if (!results[k].ran && results[k].failure.empty()) continue;
    outcome lost;
    lost.error = cat("[", results[k].failure, "]");
    kept += results[k].ran ? results[k].text : to_text(w.what.name, w.made, lost);
    if (!results[k].ran) std::printf("on %s: %s: %s\n", o.device.c_str(), w.what.name.c_str(), results[k].failure.c_str());
  }
  const outcomes found = outcomes_of(kept, "the child process");
  for (work& w : all)
    if (const auto it = found.find(w.what.name); it != found.end()) w.there = it->second, w.has_there = true;
  if (!o.save.empty()) std::ofstream(o.save, std::ios::binary) << kept;
}

void complete(work& w) {  // inputs were not kept: they are as before
  for (std::size_t m = 0; m < w.there.after.size() && m < w.made.memories.size(); ++m)
    if (w.there.after[m].empty()) w.there.after[m] = w.made.memories[m].before;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else if (static_cast<unsigned char>(c) < 32) out += ' ';
    else out += c;
  }
  return out + "\"";
}

/// The first differing elements with all inputs of the same index, where the memories are as long.
std::string details(const work& w, const difference& d) {
  std::string text = cat("{\"kernel\": ", quoted(w.what.name), ", \"is\": ", quoted(w.made.name), ", \"quota\": ", quoted(name_of(w.what.from)), ", \"elements\": ", d.elements, ", \"differing\": ", d.differing, ", \"beyond\": ", d.beyond,
                         ", \"largest_ulps\": ", d.largest_ulps, ", \"first\": ", quoted(d.first), ", \"simulator\": ", quoted(w.simulated.error), ", \"gpu\": ", quoted(w.there.error), ", \"cases\": [");
  int shown = 0;
  for (std::size_t m = 0; m < w.made.memories.size() && shown < 32; ++m) {
    const memory& what = w.made.memories[m];
    if (w.simulated.after.size() <= m || w.there.after.size() <= m) continue;
    const std::size_t count = what.before.size() / static_cast<std::size_t>(width(what.type));
    for (std::size_t i = 0; i < count && shown < 32; ++i) {
      const std::uint64_t x = get(w.simulated.after[m], what.type, i), y = get(w.there.after[m], what.type, i);
      if (x == y) continue;
      text += cat(shown++ ? ", " : "", "{\"memory\": ", quoted(what.name), ", \"index\": ", i, ", \"simulator\": ", x, ", \"gpu\": ", y, ", \"inputs\": [");
      bool first = true;
      for (const memory& in : w.made.memories)
        if (in.before.size() / static_cast<std::size_t>(width(in.type)) == count && (!in.output || in.name == what.name)) text += cat(first ? "" : ", ", get(in.before, in.type, i)), first = false;
      text += "]}";
    }
  }
  return text + "]}";
}

int report(std::vector<work>& all, const options& o) {
  struct line { int kernels = 0, equal = 0, within = 0, differing = 0, unsupported = 0, unmade = 0, absent = 0; double ulps = 0; std::string furthest; };
  std::vector<line> table(quota_count);
  std::vector<std::string> json, differing;
  std::string golden_text = "# What an NVIDIA H200 gave: name, digest of launch and inputs, digest of outputs. Written by compare_population --golden.\n";
  for (work& w : all) {
    line& l = table[static_cast<std::size_t>(w.what.from)];
    ++l.kernels;
    if (!w.problem.empty()) {
      ++l.unmade;
      differing.push_back(cat(w.what.name, ": cannot be made: ", w.problem.substr(0, 400)));
      continue;
    }
    if (!w.has_there) {
      ++l.absent;
      continue;
    }
    complete(w);
    if (w.there.error.empty()) golden_text += golden_line(w.what.name, w.made, w.there);
    const difference d = differences(w.made, w.simulated, w.there);
    if (d.largest_ulps > l.ulps) l.ulps = d.largest_ulps, l.furthest = w.what.name;
    const std::string against_plain = w.there.error.empty() ? check(w.made, w.there) : std::string();
    if (w.simulated.error.find("[ptx-unsupported]") == 0) ++l.unsupported;
    else if (d.beyond) ++l.differing;
    else if (d.differing) ++l.within;
    else ++l.equal;
    if (d.beyond) differing.push_back(cat(w.what.name, " = ", w.made.name, ": ", d.beyond, " of ", d.elements, ", ", d.first.substr(0, 500)));
    if (!against_plain.empty()) differing.push_back(cat(w.what.name, " = ", w.made.name, ": THE GPU differs from plain C++: ", against_plain.substr(0, 300)));
    if (d.beyond || !w.there.error.empty()) json.push_back(details(w, d));
  }
  std::printf("%-14s %8s %9s %8s %9s %11s %9s %8s %14s\n", "quota", "kernels", "bit-equal", "bounded", "differing", "unsupported", "not made", "not run", "largest ulps");
  line sum;
  for (int q = 0; q <= quota_count; ++q) {
    const line& l = q == quota_count ? sum : table[static_cast<std::size_t>(q)];
    std::printf("%-14s %8d %9d %8d %9d %11d %9d %8d %14.1f  %s\n", q == quota_count ? "all" : name_of(static_cast<quota>(q)), l.kernels, l.equal, l.within, l.differing, l.unsupported, l.unmade, l.absent, l.ulps, l.furthest.c_str());
    sum.kernels += l.kernels, sum.equal += l.equal, sum.within += l.within, sum.differing += l.differing, sum.unsupported += l.unsupported, sum.unmade += l.unmade, sum.absent += l.absent;
    if (l.ulps > sum.ulps) sum.ulps = l.ulps, sum.furthest = l.furthest;
  }
  for (const std::string& d : differing) std::printf("%s\n", d.c_str());
  if (!o.json.empty()) {
    std::ofstream out(o.json);
    out << "[\n";
    for (std::size_t i = 0; i < json.size(); ++i) out << json[i] << (i + 1 < json.size() ? ",\n" : "\n");
    out << "]\n";
  }
  if (!o.golden.empty()) std::ofstream(o.golden) << golden_text;
  return sum.differing || sum.unsupported || sum.unmade || sum.absent ? 1 : 0;
}

int check_alone(const std::vector<work>& all, const options& o) {
  int bad = 0, refused = 0, with_reference = 0;
  for (const work& w : all) {
    if (!w.refused.empty()) ++refused, std::printf("ptxas refuses %s: %s\n", w.what.name.c_str(), w.refused.substr(0, 600).c_str());
    const std::string why = !w.problem.empty() ? w.problem : check(w.made, w.simulated);
    with_reference += w.problem.empty() && !w.made.expected.empty();
    if (why.empty()) continue;
    ++bad;
    std::printf("%s = %s: %s\n", w.what.name.c_str(), w.made.name.c_str(), why.substr(0, 600).c_str());
  }
  std::printf("%zu kernels on the simulator, %d compared with plain C++, %d wrong%s\n", all.size(), with_reference, bad, o.assemble ? cat(", ", refused, " refused by ptxas").c_str() : "");
  return bad || refused ? 1 : 0;
}

int run_tool(const options& o) {
  std::vector<work> all;
  const std::regex wanted(o.filter);
  int index = 0;
  for (entry& e : population())
    if (std::regex_search(cat(name_of(e.from), ": ", e.name), wanted) && index++ % o.every == 0) all.push_back({.what = std::move(e)});
  if (all.empty()) return std::printf("no kernel matches the filter\n"), 1;
  if (!o.ptx.empty()) {
    for (const work& w : all)
      if (w.what.name == o.ptx) return std::fputs(w.what.make().ptx.c_str(), stdout), 0;
    return std::printf("no kernel \"%s\"\n", o.ptx.c_str()), 1;
  }
  if (o.list) {
    for (const work& w : all) std::printf("%-14s %s\n", name_of(w.what.from), w.what.name.c_str());
    return 0;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto since = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const bool gpu = !o.device.empty();
  in_parallel(all.size(), o.jobs, [&](std::size_t i) { make(all[i], (gpu && jit::has_assembler()) || o.assemble); });
  std::printf("%zu kernels made and simulated in %.1f s\n", all.size(), since());
  if (gpu) {
    run_there(all, o);
    std::printf("run on %s after %.1f s\n", o.device.c_str(), since());
  } else if (!o.against.empty()) {
    const outcomes found = read_outcomes(o.against);
    for (work& w : all)
      if (const auto it = found.find(w.what.name); it != found.end()) w.there = it->second, w.has_there = true;
  } else {
    return check_alone(all, o);
  }
  for (const work& w : all)
    if (!w.refused.empty()) std::printf("ptxas refuses %s: %s\n", w.what.name.c_str(), w.refused.substr(0, 300).c_str());
  return report(all, o);
}

}  // namespace

int main(int argc, char** argv) {
  setenv("TLX_CACHE", "off", 0);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    std::string text;
    const auto value = [&](std::string& into) { return i + 1 < argc && (into = argv[++i], true); };
    bool good = true;
    if (word == "--help") return std::fputs(usage, stdout), 0;
    else if (word == "--filter") good = value(o.filter);
    else if (word == "--every") good = value(text) && (o.every = std::atoi(text.c_str())) > 0;
    else if (word == "--jobs") good = value(text) && (o.jobs = static_cast<unsigned>(std::atoi(text.c_str()))) > 0;
    else if (word == "--target") good = value(text) && (set_population_target(text), true);
    else if (word == "--device") good = value(o.device);
    else if (word == "--save") good = value(o.save);
    else if (word == "--against") good = value(o.against);
    else if (word == "--golden") good = value(o.golden);
    else if (word == "--json") good = value(o.json);
    else if (word == "--ptx") good = value(o.ptx);
    else if (word == "--list") o.list = true;
    else if (word == "--assemble") o.assemble = true;
    else if (word == "--only-check") o.device.clear(), o.against.clear();
    else good = false;
    if (!good) return std::fprintf(stderr, "compare_population: cannot use \"%s\"\n%s", word.c_str(), usage), 2;
  }
  try {
    return run_tool(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
