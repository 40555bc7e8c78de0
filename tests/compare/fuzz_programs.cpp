// Random valid kernels: what they give before the passes (by interpretation) is what they give after them, for both chips, with and without the optional
// passes, and after a trip through the text form.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tests/compare/programs.hpp"
#include "tests/compare/run.hpp"
#include "tests/support/skip.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;

namespace {
bool full() { return std::getenv("TLX_TEST_FULL") != nullptr; }

void same_everywhere(std::uint64_t seed) {
  CAPTURE(seed);
  for (const char* target : {"sm_90a", "sm_100a"})
    for (const bool optimised : {true, false}) {
      CAPTURE(target);
      CAPTURE(optimised);
      try {
        compare::program p = compare::random_program(seed, target);
        ir::verify_or_raise(*p.traced, "generate");
        if (!optimised) p.traced = ir::parse(ir::print(*p.traced));
        const compare::sample s = compare::compiled(p, cat("program ", seed), optimised);
        const auto machine = sim::open(target, {.seed = seed});
        CHECK(compare::check(s, compare::run(*machine, s)) == "");
      } catch (const error& e) {
        FAIL_CHECK(std::string(e.what()));
      }
    }
}
}  // namespace

TEST_CASE("random kernels give what their tile-level meaning says, for every target and set of passes") {
  const std::uint64_t count = full() ? 600 : 12;
  for (std::uint64_t seed = 1; seed <= count; ++seed) same_everywhere(seed);
  // A row maximum whose users were laid out before the tile that it is taken of.
  for (const std::uint64_t seed : {378, 446}) same_everywhere(seed);
}

TEST_CASE("kernels of the language give the same on both chips, with and without the optional passes") {
  int index = 0, made = 0;
  for (const compare::entry& e : compare::population()) {
    if (e.from != compare::quota::rings || (index++ % 8 != 3 && !full())) continue;
    CAPTURE(e.name);
    const compare::sample first = e.make();
    if (!first.again) continue;  // written in PTX
    ++made;
    for (const char* target : {"sm_90a", "sm_100a"})
      for (const bool optimised : {true, false}) {
        CAPTURE(target);
        CAPTURE(optimised);
        const compare::sample s = first.again(target, optimised);
        const auto machine = sim::open(target);
        CHECK(compare::check(s, compare::run(*machine, s)) == "");
      }
  }
  CHECK(made >= 4);
}
