#include "tlx/tile/scaled_mma.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace tlx;
using namespace tlx::tile;

TEST_CASE("instruction descriptors of block-scaled products are those that Triton writes") {
  // tests/sim/cases/mx_e4m3.sm100 and mx_e2m1.sm100, 128 x 128, step by step.
  CHECK(scaled_idesc({}) == 144703488U);
  CHECK(scaled_idesc({.id_a = 1, .id_b = 1}) == 681574416U);
  CHECK(scaled_idesc({.id_a = 2, .id_b = 2}) == 1218445344U);
  CHECK(scaled_idesc({.id_a = 3, .id_b = 3}) == 1755316272U);
  CHECK(scaled_idesc({.a = element::e2m1x2, .b = element::e2m1x2}) == 144704640U);
  CHECK(scaled_idesc({.a = element::e2m1x2, .b = element::e2m1x2, .id_a = 2, .id_b = 2}) == 1218446496U);
  CHECK(scaled_idesc({.scale = element::ue4m3}) == (144703488U & ~(1U << 23)));
}

TEST_CASE("operands and scales that go together make a kind, others none") {
  CHECK(scaled_kind_of(element::e4m3, element::e5m2, element::ue8m0) == scaled_kind::mxf8f6f4);
  CHECK(scaled_kind_of(element::e2m1x2, element::e2m1x2, element::ue8m0) == scaled_kind::mxf4);
  CHECK(scaled_kind_of(element::e2m1x2, element::e2m1x2, element::ue4m3) == scaled_kind::mxf4nvf4);
  CHECK_FALSE(scaled_kind_of(element::e4m3, element::e4m3, element::ue4m3).has_value());
  CHECK_FALSE(scaled_kind_of(element::e4m3, element::e2m1x2, element::ue8m0).has_value());
  CHECK_FALSE(scaled_kind_of(element::bf16, element::bf16, element::ue8m0).has_value());
  CHECK(scales_per_instruction(scaled_kind::mxf8f6f4) == 1);
  CHECK(scales_per_instruction(scaled_kind::mxf4) == 2);
  CHECK(scales_per_instruction(scaled_kind::mxf4nvf4) == 4);
}

TEST_CASE("shapes of block-scaled products follow their rules") {
  const auto rule = [](const char* text) { return std::string(text ? text : ""); };
  CHECK(rule(scaled_shape_problem(scaled_kind::mxf8f6f4, 128, 256, 128, 4)).empty());
  CHECK(rule(scaled_shape_problem(scaled_kind::mxf4nvf4, 128, 128, 256, 16)).empty());
  CHECK(rule(scaled_shape_problem(scaled_kind::mxf8f6f4, 64, 128, 128, 4)).find("M ") == 0);
  CHECK(rule(scaled_shape_problem(scaled_kind::mxf8f6f4, 128, 192, 128, 4)).find("N ") == 0);
  CHECK(rule(scaled_shape_problem(scaled_kind::mxf8f6f4, 128, 128, 64, 2)).find("multiple of 4") != std::string::npos);
  CHECK(rule(scaled_shape_problem(scaled_kind::mxf4nvf4, 128, 128, 256, 8)).find("one scale") != std::string::npos);
  CHECK(scale_columns(128, 4) == 4);
  CHECK(scale_columns(256, 16) == 32);
}

TEST_CASE("ue4m3 is e4m3 without a sign, and e2m1x2 two numbers in a byte") {
  CHECK(static_cast<float>(ue4m3(1.0F)) == 1.0F);
  CHECK(static_cast<float>(ue4m3(1000.0F)) == 448.0F);
  CHECK(ue4m3(-1.0F).code == 0);
  CHECK(ue4m3(NAN).code == 0x7f);
  CHECK(std::isnan(static_cast<float>(ue4m3::from_code(0x7f))));
  const e2m1x2 pair(e2m1(0.5F), e2m1(-6.0F));
  CHECK(pair.code == 0xf1);
  CHECK(static_cast<float>(pair.first()) == 0.5F);
  CHECK(static_cast<float>(pair.second()) == -6.0F);
  CHECK(bits(element::e2m1x2) == 8);
  CHECK(numbers_in(element::e2m1x2) == 2);
  CHECK_FALSE(is_signed(element::ue4m3));
}
