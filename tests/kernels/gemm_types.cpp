// host::gemm in every operand and result type, batched, scaled and with every part of the epilogue, against float64 on every machine of the run.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/support/error_of.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/products.hpp"
#include "tests/support/skip.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using problems::factor_kind;
using problems::product_case;
using tile::element;

namespace {

bool has_integer_products(const test::machine_under_test& m) { return m.on->about().target != "sm_103a"; }

// Returns the name of the kernel that ran.
std::string expect(test::machine_under_test& m, const product_case& c, std::uint64_t seed = 1) {
  std::string kernel;
  try {
    problems::product_problem p(*m.on, c, seed);
    kernel = p.kernel(*m.with);
    CAPTURE(kernel);
    CAPTURE(cat(c.m, "x", c.n, "x", c.k, " batch ", c.batch));
    p.run(*m.with);
    const problems::verdict v = p.check();
    CHECK_MESSAGE(v.ok, v.why);
    if (c.m && c.n && c.batch) CHECK(v.checked > 0);
  } catch (const error& e) {
    FAIL_CHECK(std::string(e.what()));
  }
  return kernel;
}

host::gemm_options of(element type, std::optional<element> c = {}) {
  host::gemm_options o;
  o.type = type;
  o.type_c = c;
  return o;
}

}  // namespace

TEST_CASE("operands of every type give float64's sums in every result type") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const element type : {element::tf32, element::e4m3, element::e5m2, element::s8}) {
      if (type == element::s8 && !has_integer_products(m)) continue;
      for (const element c : {element::f32, element::bf16, element::f16}) {
        product_case one{.m = 130, .n = 136, .k = 160, .how = of(type, c)};
        if (type == element::s8) one.how.alpha = 0x1p-10f;
        expect(m, one);
      }
      product_case wide{.m = 128, .n = 512, .k = 320, .how = of(type), .bias = true};
      if (type == element::s8) wide.how.alpha = 0x1p-10f;
      expect(m, wide);
    }
    for (const element type : {element::bf16, element::f16}) expect(m, {.m = 136, .n = 264, .k = 200, .how = of(type, element::f32)});
  });
}

TEST_CASE("e4m3 and e5m2 multiply each other in both orders") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const auto& [a, b] : {std::pair{element::e4m3, element::e5m2}, {element::e5m2, element::e4m3}}) {
      product_case c{.m = 64, .n = 72, .k = 128, .how = of(a)};
      c.how.type_b = b;
      CHECK(expect(m, c).find(a == element::e4m3 ? "e4m3_e5m2" : "e5m2_e4m3") != std::string::npos);
    }
  });
}

TEST_CASE("narrow operands of any K, unaligned rows and empty sums are right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const element type : {element::e4m3, element::tf32}) {
      for (const std::int64_t k : {0, 1, 16, 127, 129}) expect(m, {.m = 66, .n = 40, .k = k, .how = of(type), .bias = true});
      expect(m, {.m = 33, .n = 7, .k = 65, .how = of(type), .pad = 3, .shift = 1});
      expect(m, {.m = 0, .n = 7, .k = 65, .how = of(type)});
    }
  });
}

TEST_CASE("scales of the whole, of rows of a and of columns of b multiply the sums") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const factor_kind a : {factor_kind::none, factor_kind::one, factor_kind::each})
      for (const factor_kind b : {factor_kind::none, factor_kind::one, factor_kind::each}) expect(m, {.m = 130, .n = 72, .k = 64, .how = of(element::e4m3), .scale_a = a, .scale_b = b});
    product_case all{.m = 130, .n = 264, .k = 64, .how = of(element::bf16), .bias = true, .scale_a = factor_kind::each, .scale_b = factor_kind::each};
    all.how.alpha = 0.5f;
    expect(m, all);
  });
}

TEST_CASE("promoted sums of 8-bit floats are closer to float64 than Hopper's own") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    product_case c{.m = 130, .n = 136, .k = 1056, .how = of(element::e4m3, element::f32)};
    c.how.promoted = true;  // the tolerance is that of 128 products instead of 1056
    const std::string kernel = expect(m, c);
    CHECK((kernel.find("promoted") != std::string::npos) == (m.on->about().target == "sm_90a"));
    c.k = 0;
    c.bias = true;
    expect(m, c);
  });
}

TEST_CASE("every schedule that the rule knows of gives float64's sums, and the rule's own is the first") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    std::set<std::string> seen;
    const auto all_of = [&](const product_case& c) {
      const std::vector<host::gemm_estimate> offered = problems::product_problem(*m.on, c).schedules(*m.with);
      REQUIRE(!offered.empty());
      CHECK(offered.front().kernel == problems::product_problem(*m.on, c).kernel(*m.with));
      for (const host::gemm_estimate& e : offered) {
        CAPTURE(host::to_string(e));
        CHECK(e.us >= std::max({e.products_us, e.memory_us, e.l2_us}));
        CHECK(e.fill <= 1);
        product_case one = c;
        one.how.schedule = e.schedule;
        CHECK(expect(m, one) == e.kernel);
        seen.insert(e.kernel);
      }
    };
    for (const std::int64_t rows : {5, 64, 100}) all_of({.m = rows, .n = 296, .k = 1024, .how = of(element::bf16), .bias = true, .residual = true});
    all_of({.m = 64, .n = 120, .k = 1024, .how = of(element::bf16), .bias = true});  // K in parts on two processors, too
    all_of({.m = 128, .n = 64, .k = 1000, .how = of(element::f16, element::f32)});
    all_of({.m = 300, .n = 520, .k = 136, .how = of(element::bf16), .bias = true});
    product_case promoted{.m = 300, .n = 392, .k = 1040, .how = of(element::e4m3), .bias = true, .scale_a = factor_kind::each, .scale_b = factor_kind::each};
    all_of(promoted);
    promoted.how.promoted = true;
    all_of(promoted);
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) all_of({.m = 304, .n = 264, .k = 200, .how = of(element::f16), .a_column_major = ta, .b_column_major = tb, .bias = true, .residual = true, .before = true});
    const bool clusters = m.on->about().target == "sm_90a";
    for (const std::string kernel : {"gemm_bf16_64x72_nt_cluster4_bias_residual", "gemm_bf16_64x64_nt_cluster2_bias_residual", "gemm_f16_to_f32_128x72_nt_cluster4",
                               "gemm_bf16_128x64_nt_swapped_cluster2_parts", "gemm_e4m3_128x176_nt_promoted_scale_a_each_scale_b_each_bias"}) {
      CAPTURE(kernel);
      CHECK((seen.count(kernel) == 1) == clusters);
    }
    // There two CTAs share what they load, on Blackwell they multiply together.
    for (const std::string kernel : {"gemm_bf16_128x256_nt_cluster2_bias", "gemm_e4m3_128x256_nt_cluster2_scale_a_each_scale_b_each_bias"}) {
      CAPTURE(kernel);
      CHECK(seen.count(kernel) == 1);
    }
    for (const std::string kernel : {"gemm_bf16_128x128_nt_cluster2_bias", "gemm_f16_128x256_nn_cluster2_bias_before_residual", "gemm_f16_128x256_tn_cluster2_bias_before_residual", "gemm_f16_128x256_tt_cluster2_bias_before_residual"}) {
      CAPTURE(kernel);
      CHECK((seen.count(kernel) == 1) == !clusters);
    }
    product_case strange{.m = 64, .n = 64, .k = 64, .how = of(element::bf16)};
    strange.how.schedule = host::gemm_schedule{.rows = 96, .cols = 96};
    CHECK(test::error_of([&] { problems::product_problem(*m.on, strange).run(*m.with); }) == "gemm-schedule");
  });
}

TEST_CASE("each matrix of a batch is multiplied by its own, in every layout and type") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const element type : {element::bf16, element::f16})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
          expect(m, {.m = 64, .n = 64, .k = 64, .batch = 5, .how = of(type), .a_column_major = ta, .b_column_major = tb});
          expect(m, {.m = 72, .n = 136, .k = 80, .batch = 3, .how = of(type), .a_column_major = ta, .b_column_major = tb, .pad = 8, .batch_pad = 24});
        }
    expect(m, {.m = 40, .n = 24, .k = 200, .batch = 7, .how = of(element::bf16), .bias = true, .residual = true});
    expect(m, {.m = 33, .n = 7, .k = 65, .batch = 3, .how = of(element::bf16), .bias = true, .residual = true, .pad = 1, .batch_pad = 5, .shift = 1});
    expect(m, {.m = 64, .n = 64, .k = 64, .batch = 0, .how = of(element::bf16)});
    expect(m, {.m = 64, .n = 64, .k = 0, .batch = 2, .how = of(element::bf16), .bias = true});
    expect(m, {.m = 130, .n = 136, .k = 96, .batch = 2, .how = of(element::e4m3)});
    expect(m, {.m = 130, .n = 136, .k = 96, .batch = 2, .how = of(element::bf16, element::f32)});
  });
}

TEST_CASE("every part of the epilogue is that of float64") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    product_case by_row{.m = 130, .n = 264, .k = 64, .how = of(element::bf16), .bias = true};
    by_row.how.bias_by_row = true;
    expect(m, by_row);
    product_case clamped{.m = 130, .n = 136, .k = 64, .how = of(element::bf16), .residual = true};
    clamped.how.low = -3.0f;
    expect(m, clamped);
    clamped.how.high = 5.0f;
    expect(m, clamped);
    product_case before{.m = 130, .n = 264, .k = 64, .how = of(element::bf16), .bias = true, .before = true};
    before.how.activate = host::activation::gelu;
    expect(m, before);
    before.residual = true;
    before.how.activate = host::activation::silu;
    expect(m, before);
    before.m = 9, before.n = 11, before.k = 13;  // ordinary loads and stores
    expect(m, before);
  });
}

TEST_CASE("products of few rows are right, whole and with K in parts") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    std::string kernels;
    for (const std::int64_t rows : {1, 7, 16, 17, 32, 33, 64, 65, 128})
      for (const std::int64_t cols : {40, 130, 264})
        for (const std::int64_t k : {72, 1024}) {
          product_case c{.m = rows, .n = cols, .k = k, .how = of(element::bf16)};
          for (const host::gemm_estimate& e : problems::product_problem(*m.on, c).schedules(*m.with)) {
            if (!e.schedule.swapped) continue;
            c.how.schedule = e.schedule;
            kernels += expect(m, c) + " ";
          }
        }
    CHECK(kernels.find("64x16_nt_swapped ") != std::string::npos);
    CHECK(kernels.find("128x128_nt_swapped_parts") != std::string::npos);
    product_case all{.m = 19, .n = 72, .k = 1536, .how = of(element::f16), .bias = true, .residual = true, .before = true, .scale_a = factor_kind::each, .scale_b = factor_kind::each, .pad = 8};
    all.how.activate = host::activation::silu;
    all.how.low = -2.0f;
    for (const std::int64_t cols : {48, 72, 300})
      for (const bool by_row : {false, true}) {
        all.n = cols;
        all.how.bias_by_row = by_row;
        expect(m, all);
      }
    expect(m, {.m = 3, .n = 5, .k = 512, .how = of(element::bf16, element::f32), .bias = true});
    expect(m, {.m = 3, .n = 5, .k = 512, .how = of(element::bf16), .bias = true, .pad = 8, .batch_pad = 3});
  });
}

TEST_CASE("types and layouts that no kernel has are refused by name") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const auto id_of = [&](const host::gemm_options& how, bool ta, bool tb) {
      const host::matrix a{4096, 64, 64, 0, ta}, b{4096, 64, 64, 0, tb}, c{4096, 64, 64};
      return test::error_of([&] { host::gemm_kernel_name(*m.with, a, b, c, how); });
    };
    CHECK(id_of(of(element::e4m3), false, true) == "");
    CHECK(id_of(of(element::e4m3), true, true) == "gemm-layout");
    CHECK(id_of(of(element::s8), false, false) == "gemm-layout");
    CHECK(id_of(of(element::tf32), true, false) == "gemm-layout");
    CHECK(id_of(of(element::f64), false, true) == "gemm-type");
    CHECK(id_of(of(element::bf16, element::f16), false, true) == "gemm-type");
    host::gemm_options mixed = of(element::bf16);
    mixed.type_b = element::f16;
    CHECK(id_of(mixed, false, true) == "gemm-type");
    host::gemm_options overlapping = of(element::bf16);
    overlapping.batch = 2;
    const host::matrix a{4096, 64, 64}, b{4096, 64, 64}, c{4096, 64, 64, 0, false, 100};
    CHECK_THROWS_AS(host::gemm(*m.with, a, b, c, overlapping), user_error);
  });
}
