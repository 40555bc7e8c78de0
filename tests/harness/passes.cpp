#include <doctest/doctest.h>

TEST_CASE("one and one is two") { CHECK(1 + 1 == 2); }
TEST_CASE("two and two is four") { CHECK(2 + 2 == 4); }
