#include "tlx/ir/text.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "sample.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;

namespace {

// The message of the refusal; empty when the text is accepted. Anything else than [ir-malformed] fails.
std::string refusal(const std::string& text) {
  try {
    ir::parse(text);
  } catch (const user_error& e) {
    CHECK(e.id() == "ir-malformed");
    return e.parts().what;
  }
  return "";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = sample();
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// Parses or is refused; what parses survives the verifier and prints as something that parses to the same.
void must_not_crash(const std::string& text) {
  std::unique_ptr<ir::kernel> k;
  try {
    k = ir::parse(text);
  } catch (const user_error& e) {
    CHECK(e.id() == "ir-malformed");
    CHECK(e.parts().what.rfind("line ", 0) == 0);
    return;
  }
  ir::verify(*k);
  const std::string printed = ir::print(*k);
  CHECK(ir::print(*ir::parse(printed)) == printed);
  ir::clone(*k);
}

}  // namespace

TEST_CASE("what print writes, parse reads and print writes again") {
  const auto k = ir::parse(sample());
  CHECK(ir::print(*k) == sample());
  CHECK(ir::verify(*k).empty());
  CHECK(k->maps.size() == 1);
  CHECK(k->cluster[0] == 2);
  REQUIRE(k->places.size() == 1);
  CHECK(k->barrier_at(1008) == &k->places[0]);
  CHECK(k->barrier_at(1016) == nullptr);
  CHECK(ir::print(*ir::clone(*k)) == sample());
}

TEST_CASE("an op without operands, attributes and location is followed by one with a result") {
  const std::string text = with("  ring.close", "  wgmma.commit\n    ring.close"), next = "    wgmma.commit\n    %12 = cmp";
  CHECK(ir::print(*ir::parse(text)) == text);
  const std::string before = with("    %12 = cmp", next);
  CHECK(ir::print(*ir::parse(before)) == before);
}

TEST_CASE("locations can be left out, and what is left is the same kernel") {
  const std::string bare = ir::print(*ir::parse(sample()), {.locations = false});
  CHECK(bare.find('@') == bare.find("@sample"));
  CHECK(ir::print(*ir::parse(bare), {.locations = false}) == bare);
}

TEST_CASE("doubles survive to the last bit") {
  for (const std::string value : {"0.10000000000000001", "-1.7976931348623157e+308", "4.9406564584124654e-324", "inf", "-inf", "nan"}) {
    CAPTURE(value);
    const auto k = ir::parse(with("{value = 1.5}", "{value = " + value + "}"));
    CHECK(ir::print(*k).find("{value = " + value + "}") != std::string::npos);
  }
}

TEST_CASE("a name that is no word is printed as one") {
  auto k = ir::parse(sample());
  k->body.ops[1]->results[0]->name = "two words, (and) more";
  const std::string text = ir::print(*k);
  CHECK(ir::print(*ir::parse(text)) == text);
}

TEST_CASE("malformed text is refused with its line") {
  CHECK(refusal("") == "line 1: expected 'tlx.ir'");
  CHECK(refusal("tlx.ir 2\n") == "line 1: only version 1 of the text form is known");
  CHECK(refusal(with("extent %x.0", "stretch %x.0")) == "line 11: unknown operation 'stretch'");
  CHECK(refusal(with("extent %x.0", "extent %y.0")) == "line 11: %y.0 is not defined before its use");
  CHECK(refusal(with("%8 = const", "%3 = const")) == "line 14: %3 is defined twice");
  CHECK(refusal(with("view<bf16 2>", "view<bf17 2>")) == "line 5: unknown element type 'bf17'");
  CHECK(refusal(with("view<bf16 2>", "view<bf16 6>")) == "line 5: 6 is not between 1 and 5");
  CHECK(refusal(with("128x64 sw128", "0x64 sw128")) == "line 7: 0 is not between 1 and 65536");
  CHECK(refusal(with("64 sw128", "64 sw48")) == "line 7: a swizzle is 0, 32, 64 or 128 bytes");
  CHECK(refusal(with("box = [64, 8]", "box = 64")) == "line 3: expected '['");
  CHECK(refusal(with("offset = 1000", "offset = -8")) == "line 4: -8 is out of range here");
  CHECK(refusal(with("warps(4)", "warps(-4)")) == "line 2: -4 is out of range here");
  CHECK(refusal(with("{value = 0}", "{value = 99999999999999999999}")) == "line 8: '99999999999999999999' is no number");
  CHECK(refusal(with("{value = 0}", "{value = 1-2}")) == "line 8: '1-2' is no number");
  CHECK(refusal(with("{value = 0}", "{value = }")) == "line 8: expected an attribute value");
  CHECK(refusal(with("{value = 0} : s32", "{value = 0} : s32, s32")) == "line 9: 'const' names 1 results and gives 2 types");
  CHECK(refusal(with("layout<8x64", "layout<4x64")) == "line 32: a layout of 4x64 for a tile of 8x64");
  CHECK(refusal(with("lane[(0,2)", "lane[(0;2)")) == "line 32: malformed layout");
  CHECK(refusal(with("tile<s32 8x64 layout", "tile<s32 16x64 layout")) == "line 32: a layout of 8x64 for a tile of 16x64");
  CHECK(refusal(sample() + "more") == "line 34: text after the kernel");
  CHECK(refusal(sample().substr(0, sample().size() - 2)).rfind("line ", 0) == 0);
}

TEST_CASE("text that nests without end is refused, not followed until the stack ends") {
  std::string regions = sample().substr(0, sample().find("  map")), types = regions + "  %0 = ring.make : ";
  for (int i = 0; i < 100000; ++i) {
    regions += "cluster.sync [";
    types += "var<";
  }
  CHECK(refusal(regions) == "line 3: nested more than 100 deep");
  CHECK(refusal(types) == "line 3: nested more than 100 deep");
}

TEST_CASE("every truncation of a kernel is refused") {
  for (size_t length = 0; length + 2 < sample().size(); ++length) {
    CAPTURE(length);
    CHECK(refusal(sample().substr(0, length)) != "");
  }
}

TEST_CASE("changed bytes give a refusal or another kernel, never a crash") {
  const int rounds = std::getenv("TLX_TEST_FULL") ? 200000 : 4000;
  const std::string alphabet = "%{}[]()<>:,=@\"\\;.-0123456789exnaft\n ";
  std::mt19937 bits(11);
  for (int round = 0; round < rounds; ++round) {
    std::string text = sample();
    for (auto changes = 1 + bits() % 3; changes > 0; --changes) {
      const size_t at = bits() % text.size();
      switch (bits() % 4) {
        case 0: text[at] = alphabet[bits() % alphabet.size()]; break;
        case 1: text[at] = static_cast<char>(bits() % 256); break;
        case 2: text.erase(at, 1 + bits() % 6); break;
        default: text.insert(at, text.substr(bits() % text.size(), bits() % 12)); break;
      }
    }
    CAPTURE(round);
    must_not_crash(text);
  }
}
