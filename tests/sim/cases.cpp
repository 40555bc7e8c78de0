#include <doctest/doctest.h>

#include <string>

#include "tlx/sim/case.hpp"

namespace {
const std::string folder = std::string(TLX_SOURCE_DIR) + "/tests/sim/cases/";
}

TEST_CASE("a case that fits its expectations exits 0 and reports each buffer") {
  const auto r = tlx::sim::run_case(folder + "right_bulk_load");
  CHECK(r.exit == 0);
  REQUIRE(r.results.size() == 1);
  CHECK(r.results[0].ok);
  CHECK(r.warp_instructions > 0);
  CHECK(tlx::sim::to_json(r).find("\"exit\":0") != std::string::npos);
}

TEST_CASE("a folder without a case is malformed input, exit 3") { CHECK(tlx::sim::run_case(folder + "no_such_case").exit == 3); }

TEST_CASE("schedules run one seed after the other") {
  const auto r = tlx::sim::run_case(folder + "right_shared_exchange", {.seed = 5, .schedules = 3});
  CHECK(r.schedules == 3);
  CHECK(r.seed == 7);
}
