// Every run case compiles and is accepted by ptxas.
#include "tests/codegen/runs.hpp"

#include <doctest/doctest.h>

#include "tests/codegen/look.hpp"

using namespace test;

TEST_CASE("every kernel that is run elsewhere compiles and is accepted") {
  for (auto* make : {shared_memory_runs, tile_runs, arithmetic_runs})
    for (const run_case& c : make()) {
      CAPTURE(c.name);
      const std::string ptx = compile(*c.kernel);
      CHECK(!contains(ptx, ".local"));
      CHECK(c.expected.size() == c.output.bytes.size());
      if (ptxas().empty()) continue;
      const assembled a = assemble(ptx, c.kernel->target);
      CAPTURE(a.log);
      CHECK(a.ok);
    }
}
