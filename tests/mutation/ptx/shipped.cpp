// The kernels of the library, on the smallest problems that have more K tiles than stages and several tiles a CTA.
#include <algorithm>

#include "subject.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/problems.hpp"
#include "tlx/host/session.hpp"
#include "tlx/support/error.hpp"

namespace mutation {

using namespace tlx;

namespace {

template <class Problem, class Case> void add(std::vector<subject>& all, const std::string& target, const std::string& name, const Case& c) {
  auto on = std::make_shared<recorder>(target);
  host::session with(*on);
  Problem p(*on, c);
  p.run(with);
  const problems::verdict v = p.check();
  if (!v.ok) raise(internal_error({.id = "mutation-subject-wrong", .what = cat(name, " is wrong before it is made wrong: ", v.why)}));
  for (recorder::kept& k : on->launches) all.push_back({name, target, on, std::move(k)});
  on->launches.clear();
}

/// Its rounds are products of one tile with more and more K tiles, so that rings end at each of their slots; `tile` has the schedule that the kernel was made for.
void add_product(std::vector<subject>& all, const std::string& target, const std::string& name, const problems::gemm_case& c, const host::gemm_schedule& tile) {
  add<problems::gemm_problem>(all, target, name, c);
  auto made = std::make_shared<std::vector<subject>>();
  all.back().rounds = [=, ptx = all.back().launch.ptx]() -> const std::vector<subject>& {
    if (!made->empty()) return *made;
    for (std::int64_t tiles = 1; tiles <= 9; ++tiles) {
      problems::gemm_case one = c;
      one.m = 72;
      one.n = tile.in_turns ? tile.cols + 8 : std::min<std::int64_t>(c.n, tile.cols - 8);  // roles in turns want more than one tile
      one.k = 64 * tiles;
      one.schedule = tile;
      add<problems::gemm_problem>(*made, target, name, one);
      if (made->back().launch.ptx != ptx) made->pop_back();  // the sizes ask for another kernel
    }
    return *made;
  };
}

}  // namespace

std::vector<subject> shipped(const std::string& target, const wanted& is_wanted) {
  std::vector<subject> all;
  if (is_wanted("gemm_narrow_bias")) add_product(all, target, "gemm_narrow_bias", problems::gemm_case{.m = 128 * 5 - 6, .n = 112, .k = 64 * 6, .bias = true, .schedule = host::gemm_schedule{.rows = 128, .cols = 128}}, host::gemm_schedule{.rows = 128, .cols = 128});
  if (is_wanted("gemm_wide")) add_product(all, target, "gemm_wide", problems::gemm_case{.m = 300, .n = 504, .k = 64 * 5, .schedule = host::gemm_schedule{.rows = 128, .cols = 256}}, host::gemm_schedule{.rows = 128, .cols = 256});
  if (is_wanted("gemm_turns") && target == "sm_90a")
    add_product(all, target, "gemm_turns", problems::gemm_case{.m = 248, .n = 504, .k = 64 * 3, .schedule = host::gemm_schedule{.rows = 128, .cols = 128, .in_turns = true}}, host::gemm_schedule{.rows = 128, .cols = 128, .in_turns = true});
  if (is_wanted("attention_64")) add<problems::attention_problem>(all, target, "attention_64", problems::attention_case{.lengths = {65, 130, 10}, .heads = 1, .dimension = 64, .extra_tokens = 70});
  if (is_wanted("attention_128")) add<problems::attention_problem>(all, target, "attention_128", problems::attention_case{.lengths = {65, 70}, .heads = 2, .dimension = 128, .extra_tokens = 70});
  return all;
}

}  // namespace mutation
