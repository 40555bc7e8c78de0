// Ends before the count line, with exit code 0: what a test looks like when something in it calls exit.
#include <doctest/doctest.h>

#include <cstdlib>

TEST_CASE("a case that ends the program with exit code 0 in the middle is no pass") { std::exit(0); }
