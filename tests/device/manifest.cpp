#include <doctest/doctest.h>

#include "sample.hpp"

using namespace sample;

namespace {

std::string fails(const std::string& text, std::string* message = nullptr) {
  return error_of([&] { from_manifest(text); }, message);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

kernel full() {
  kernel k = gemm();
  k.cluster = {2, 1, 1};
  k.grid_y = "processors";
  k.blocks_per_processor = 2;
  k.dependent = true;
  k.maps[0].stored = true;
  k.used = {.registers = 168, .spill_bytes = 0, .stack_bytes = 0, .static_shared_bytes = 128, .advisories = {"C7508 \"quoted\"\t"}, .assembler = "ptxas 13.0.88"};
  return k;
}

}  // namespace

TEST_CASE("a manifest gives back the same kernel, without its code") {
  kernel k = full();
  k.code.ptx = "secret";
  const std::string text = to_manifest(k);
  CHECK(text.find("secret") == std::string::npos);
  const kernel back = from_manifest(text);
  CHECK(to_manifest(back) == text);
  CHECK(back.entry == "gemm_entry");
  CHECK(back.parameters.size() == 3);
  CHECK(back.parameters[0].align_bytes == 16);
  CHECK(back.parameters[1].what == parameter::kind::view);
  CHECK(back.maps[0].box == std::vector<std::uint32_t>{64, 128});
  CHECK(back.maps[0].element == map_element::bf16);
  CHECK(back.cluster.x == 2);
  CHECK(back.grid_y == "processors");
  CHECK(back.dynamic_shared_bytes == 200000);
  CHECK(back.blocks_per_processor == 2);
  CHECK(back.used.advisories == k.used.advisories);
  CHECK(back.used.registers == 168);
  CHECK(back.dependent);
  CHECK(back.maps[0].stored);
  const launch how = bind(back, {view_value(0x1000, {300, 512}), view_value(0x2000, {8}), scalar_value(512)}, h200());
  CHECK(how.grid.y == 132);
  CHECK(how.dependent);
}

TEST_CASE("every element name survives") {
  for (int e = 0; e <= static_cast<int>(map_element::u6x16_align16); ++e) {
    kernel k = full();
    k.maps[0].element = static_cast<map_element>(e);
    CHECK(from_manifest(to_manifest(k)).maps[0].element == k.maps[0].element);
  }
}

TEST_CASE("a manifest cut at any length is refused") {
  const std::string text = to_manifest(full());
  for (size_t n = 0; n + 2 < text.size(); ++n) {
    CAPTURE(n);
    CHECK(fails(text.substr(0, n)) == "manifest-malformed");
  }
}

TEST_CASE("text that is no JSON is refused with the offset") {
  std::string message;
  CHECK(fails("{\"format\": }", &message) == "manifest-malformed");
  CHECK(message.find("offset 12") != std::string::npos);
}

TEST_CASE("wrong fields are refused by their path") {
  const std::string text = to_manifest(full());
  std::string message;
  CHECK(fails(replaced(text, "\"version\": 1", "\"version\": 2"), &message) == "manifest-malformed");
  CHECK(fails(replaced(text, "\"tlx-kernel\"", "\"other\"")) == "manifest-malformed");
  CHECK(fails(replaced(text, "\"element_bits\": 16", "\"element_bits\": \"16\""), &message) == "manifest-malformed");
  CHECK(message.find("parameters[0].element_bits") != std::string::npos);
  CHECK(fails(replaced(text, "200000", "-1"), &message) == "manifest-malformed");
  CHECK(message.find("dynamic_shared_bytes") != std::string::npos);
  CHECK(fails(replaced(text, "200000", "4294967296")) == "manifest-malformed");
  CHECK(fails(replaced(text, "200000", "18446744073709551615")) == "manifest-malformed");
  CHECK(fails(replaced(text, "200000", "2.5")) == "manifest-malformed");
  CHECK(fails(replaced(text, "\"parameter\": 0", "\"parameter\": 3")) == "manifest-malformed");
  CHECK(fails(replaced(text, "\"element\": \"bf16\",\n      \"box\"", "\"element\": \"bf17\",\n      \"box\"")) == "manifest-malformed");
  CHECK(fails(replaced(text, "\"scalar\"", "\"view\"")) == "manifest-malformed");
  CHECK(fails(replaced(text, "\"entry\"", "\"entrance\""), &message) == "manifest-malformed");
  CHECK(message.find("\"entry\" is missing") != std::string::npos);
  CHECK(fails("[]") == "manifest-malformed");
  CHECK(fails("null") == "manifest-malformed");
}

TEST_CASE("a manifest nested without end is refused, not a crash") {
  CHECK(fails(std::string(200000, '[')) == "manifest-malformed");
}
