#include <doctest/doctest.h>

#include "tests/support/skip.hpp"

TEST_CASE("a case that needs what is never there") {
  TLX_SKIP_UNLESS(false, "on purpose");
  CHECK(false);
}
