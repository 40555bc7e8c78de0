#include <doctest/doctest.h>

#include "tests/support/skip.hpp"

TEST_CASE("a case that passes beside one that fails") { CHECK(true); }
TEST_CASE("a failed check before a skip is a failure") {
  CHECK(1 + 1 == 3);
  TLX_SKIP_UNLESS(false, "on purpose");
}
