// The probes of the Blackwell bring-up: ptxas takes them, and no second reading of a question is the same as the first.
#include "bench/device/probes.hpp"

#include <doctest/doctest.h>

#include <set>

#include "tests/support/skip.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;

TEST_CASE("every probe can tell its readings apart") {
  std::set<std::string> ids;
  for (const bench::probe& p : bench::probes()) {
    CAPTURE(p.id);
    CHECK(ids.insert(p.id).second);
    REQUIRE(!p.readings.empty());
    for (const bench::reading& r : p.readings) CHECK(r.words.size() == p.output_words);
    for (std::size_t r = 1; r < p.readings.size(); ++r) {
      bool differs = false;
      for (std::size_t i = 0; i < p.output_words; ++i) {
        const std::int64_t a = p.readings[0].words[i], b = p.readings[r].words[i];
        differs = differs || (a != b && a != bench::anything && b != bench::anything);
      }
      CAPTURE(p.readings[r].name);
      CHECK(differs);
    }
  }
}

TEST_CASE("every probe is accepted by ptxas for sm_100a") {
  TLX_SKIP_UNLESS(jit::has_assembler(), "no ptxas");
  for (const bench::probe& p : bench::probes()) {
    CAPTURE(p.id);
    try {
      CHECK(!jit::assemble(p.ptx, "sm_100a").cubin.empty());
    } catch (const error& e) {
      FAIL_CHECK(std::string(e.what()));
    }
  }
}
