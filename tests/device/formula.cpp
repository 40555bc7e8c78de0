#include <doctest/doctest.h>

#include "sample.hpp"

using namespace sample;

namespace {

const std::vector<value> arguments{view_value(0x1000, {300, 512}), view_value(0x2000, {7}), scalar_value(std::int32_t{-10})};

std::int64_t run(const formula& f) { return evaluate(f, gemm(), arguments, 132); }
std::string fails(const formula& f, std::string* text = nullptr) {
  return error_of([&] { run(f); }, text);
}

}  // namespace

TEST_CASE("atoms are integers, the processor count, scalars and extents") {
  CHECK(run("42") == 42);
  CHECK(run(" -3 ") == -3);
  CHECK(run("processors") == 132);
  CHECK(run("n") == -10);
  CHECK(run("a.0") == 300);
  CHECK(run("a.1") == 512);
}

TEST_CASE("forms nest and quotients round down and up for every sign") {
  CHECK(run("(add (mul a.0 2) (sub 5 n))") == 615);
  CHECK(run("(min processors (ceil_div a.0 128))") == 3);
  CHECK(run("(max 1 (div bias.0 8))") == 1);
  CHECK(run("(div 7 2)") == 3);
  CHECK(run("(div -7 2)") == -4);
  CHECK(run("(div 7 -2)") == -4);
  CHECK(run("(ceil_div 7 2)") == 4);
  CHECK(run("(ceil_div -7 2)") == -3);
  CHECK(run("(ceil_div 8 2)") == 4);
}

TEST_CASE("scalars are read with their own width and sign") {
  kernel k = gemm();
  const auto read = [&](const char* element, int bits, value v) {
    k.parameters[2].element = element;
    k.parameters[2].element_bits = bits;
    return evaluate("n", k, {arguments[0], arguments[1], std::move(v)}, 1);
  };
  CHECK(read("u32", 32, scalar_value(0xffffffffu)) == 4294967295);
  CHECK(read("s32", 32, scalar_value(0xffffffffu)) == -1);
  CHECK(read("s8", 8, scalar_value(std::int8_t{-5})) == -5);
  CHECK(read("u8", 8, scalar_value(std::uint8_t{251})) == 251);
  CHECK(read("s64", 64, scalar_value(INT64_MIN)) == INT64_MIN);
  CHECK(error_of([&] { read("u64", 64, scalar_value(UINT64_MAX)); }) == "formula-overflow");
  CHECK(error_of([&] { read("f32", 32, scalar_value(1.0f)); }) == "formula-malformed");
}

TEST_CASE("nothing wraps around: overflow and division by zero are errors") {
  CHECK(fails("(mul 9223372036854775807 2)") == "formula-overflow");
  CHECK(fails("(add 9223372036854775807 1)") == "formula-overflow");
  CHECK(fails("(sub -9223372036854775808 1)") == "formula-overflow");
  CHECK(fails("(div -9223372036854775808 -1)") == "formula-overflow");
  CHECK(fails("(div 1 (add n 10))") == "formula-divides-by-zero");
  CHECK(fails("(ceil_div 1 0)") == "formula-divides-by-zero");
  CHECK(run("(mul 3037000499 3037000499)") == 9223372030926249001);
}

TEST_CASE("a malformed formula is refused with the offset") {
  for (const char* f : {"", "(", "(add 1)", "(add 1 2", "(add 1 2))", "(pow 1 2)", "unknown", "a", "a.2", "a.-1", "a.x", "n.0", "()", "1 2",
                        "9223372036854775808", "(add 1 2 3)", "12x"}) {
    CAPTURE(f);
    CHECK(fails(f) == "formula-malformed");
  }
  std::string text;
  fails("(add 1 oops)", &text);
  CHECK(text.find("offset 7") != std::string::npos);
}

TEST_CASE("a formula nested without end is refused, not a crash") {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "(add 1 ";
  CHECK(fails(deep) == "formula-malformed");
}
