// Kernels of clusters: none that is shipped has one. Small kernels of the population, and a pair of CTAs that multiplies together.
#include <regex>

#include "subject.hpp"
#include "tests/compare/run.hpp"
#include "tests/sim/pair.hpp"
#include "tlx/support/error.hpp"

namespace mutation {

using namespace tlx;

namespace {

/// One instruction a line, for the operators; the two halves of a cluster barrier stay together.
std::string one_a_line(const std::string& ptx) {
  std::string text = std::regex_replace(ptx, std::regex(";[ \t]*"), ";\n");
  text = std::regex_replace(text, std::regex("\n[ \t]*([A-Z]\\w*):[ \t]*"), "\n$1:\n");
  return std::regex_replace(text, std::regex("(barrier\\.cluster\\.arrive[^;]*;)\\s*(barrier\\.cluster\\.wait)"), "$1 $2");
}

}  // namespace

std::vector<subject> clusters(const std::string& target, const wanted& is_wanted) {
  std::vector<subject> all;
  const auto keep = [&](const std::string& name, const std::shared_ptr<recorder>& on) {
    if (on->launches.size() != 1) raise(internal_error({.id = "mutation-subject-wrong", .what = name + " is wrong before it is made wrong"}));
    all.push_back({name, target, on, std::move(on->launches.front())});
    on->launches.clear();
  };
  std::vector<compare::entry> population;
  compare::add_clusters(population);
  for (const compare::entry& e : population) {
    const bool small = e.name.find(" 2x1") != std::string::npos || e.name == "multicast 4x1";
    if (!small || e.name.find("registers") != std::string::npos || !is_wanted("cluster: " + e.name)) continue;
    compare::sample s = e.make();
    s.target = target;
    s.ptx = one_a_line(std::regex_replace(s.ptx, std::regex("\\.target \\w+"), ".target " + target));
    // As other compilers do it: what the fence has released needs no more of the first barrier.
    if (const std::size_t first = s.ptx.find("barrier.cluster"); s.ptx.find("fence.mbarrier_init") < first && s.ptx.find("st.shared") > first)
      s.ptx = std::regex_replace(s.ptx, std::regex("cluster\\.arrive\\.aligned"), "cluster.arrive.relaxed.aligned", std::regex_constants::format_first_only);
    auto on = std::make_shared<recorder>(target);
    const compare::outcome o = compare::run(*on, s);
    if (!o.error.empty() || !compare::check(s, o).empty()) raise(internal_error({.id = "mutation-subject-wrong", .what = e.name + ": " + o.error + compare::check(s, o)}));
    keep("cluster: " + e.name, on);
  }
  if (target != "sm_90a" && is_wanted("cluster: a pair's product")) {
    auto on = std::make_shared<recorder>(target);
    const sim_test::pair_variant pair{.pair = 2, .more_b = "mad.lo.u32 %r8, %r1, 32, %r0;"};  // every column its own number
    const sim_test::setup s = sim_test::pair_setup(pair);
    const device::address in = on->allocate(4), out = on->allocate(s.out_words * 4);
    const std::vector<std::uint32_t> nothing(s.out_words, 0xEEEEEEEEU);
    on->write(out, nothing.data(), nothing.size() * 4);
    const auto code = on->load({.ptx = one_a_line(sim_test::module_text(sim_test::pair_kernel(pair), s)), .cubin = {}});
    device::launch l;
    l.grid = {s.grid, 1, 1};
    l.block = {s.threads, 1, 1};
    l.cluster = {s.cluster, 1, 1};
    l.arguments = {device::scalar<std::uint64_t>(in), device::scalar<std::uint64_t>(out)};
    on->run(*code, "k", l);
    keep("cluster: a pair's product", on);
  }
  return all;
}

}  // namespace mutation
