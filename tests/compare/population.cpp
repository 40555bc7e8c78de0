// The generated population: large enough in every part, the same every time, right by plain C++ on the simulator, and to the bit what an H200 gave.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "tests/compare/record.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;

TEST_CASE("the population has every quota, and no name twice") {
  std::map<compare::quota, int> counts;
  std::set<std::string> names;
  for (const compare::entry& e : compare::population()) ++counts[e.from], names.insert(e.name);
  int all = 0;
  for (int q = 0; q < compare::quota_count; ++q) {
    const auto which = static_cast<compare::quota>(q);
    CAPTURE(std::string(compare::name_of(which)));
    CHECK(counts[which] >= compare::smallest(which));
    all += counts[which];
  }
  CHECK(names.size() == static_cast<std::size_t>(all));
}

// One kernel in eleven by default: the rest is the same code with other numbers, and `compare_population` runs them all.
TEST_CASE("the simulator gives what plain C++ says, and the bits that an H200 gave") {
  const auto golden = compare::read_golden(std::string(TLX_SOURCE_DIR) + "/tests/compare/h200.txt");
  const bool full = std::getenv("TLX_TEST_FULL") != nullptr;
  int index = 0, held = 0, bounded = 0, absent = 0, ran = 0, refused = 0;
  for (const compare::entry& e : compare::population()) {
    if (index++ % 11 != 0 && !full) continue;
    CAPTURE(e.name);
    const compare::sample s = e.make();
    const auto machine = sim::open(s.target);
    const compare::outcome got = compare::run(*machine, s);
    ++ran;
    if (got.error.rfind("[ptx-unsupported]", 0) == 0) {  // by name and line, not wrongly
      ++refused;
      continue;
    }
    CHECK(compare::check(s, got) == "");
    const auto known = golden.find(e.name);
    if (known == golden.end()) {
      ++absent;
      continue;
    }
    CHECK_MESSAGE(known->second.inputs == compare::digest_of_inputs(s), "the inputs are others than those of the run on the GPU");
    if (known->second.outputs == "bounded") {
      ++bounded;
    } else if (got.error.empty()) {
      ++held;
      CHECK_MESSAGE(known->second.outputs == compare::digest_of_outputs(s, got), "other bits than those of an H200");
    }
  }
  MESSAGE(ran << " kernels, " << held << " to the bits of an H200, " << bounded << " bounded, " << absent << " not run there, " << refused << " refused");
  CHECK(refused <= ran / 50);
  CHECK(held > ran / 2);
}
