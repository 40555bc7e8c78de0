#include "tlx/support/error.hpp"

#include <doctest/doctest.h>

TEST_CASE("a diagnostic prints its five parts, one a line") {
  const tlx::diagnostic d{.id = "ring-never-drained",
                          .what = "ring \"ab\" (4 stages of 49152 bytes) is filled by role \"producer\" but no role drains it",
                          .where = {"/somewhere/gemm.cpp", 41},
                          .because = "the producer would wait forever for the first slot to come back",
                          .fix = {"drain \"ab\" in a role, or remove the ring"},
                          .context = "kernel \"gemm\""};
  CHECK(tlx::to_string(d) ==
        "tlx error [ring-never-drained]: ring \"ab\" (4 stages of 49152 bytes) is filled by role \"producer\" but no role drains it\n"
        "  at gemm.cpp:41 in kernel \"gemm\"\n"
        "  because the producer would wait forever for the first slot to come back\n"
        "  fix drain \"ab\" in a role, or remove the ring");
}

TEST_CASE("every family is thrown as itself and keeps its parts") {
  try {
    tlx::raise(tlx::device_error({.id = "launch-failed", .what = "x"}));
    FAIL("raise returned");
  } catch (const tlx::error& e) {
    CHECK(e.id() == "launch-failed");
    CHECK(std::string(e.what()) == "tlx device error [launch-failed]: x");
  }
}
