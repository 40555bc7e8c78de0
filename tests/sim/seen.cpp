// What an H200 gave where this simulator had read the documents otherwise; each line was a difference of the generated population (tests/compare).
#include <doctest/doctest.h>

#include "support.hpp"

using namespace sim_test;

TEST_CASE("products are flushed when they are tiny in 24 bits") {
  CHECK(of("mul.rn.ftz.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0x3F7FFFFF, 0x00800000) == 0);
  CHECK(of("mul.rn.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0x3F7FFFFF, 0x00800000) == 0x00800000);
  CHECK(of("mul.rn.ftz.sat.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0x3F7FFFFF, 0x00800000) == 0);
  CHECK(of("mul.rn.ftz.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0x3F800000, 0x80800000) == 0x80800000);
}

TEST_CASE(".ftz flushes subnormal halves, and bf16 on its way to f32") {
  CHECK(of("mov.b32 {%rs1, %rs2}, %r1; neg.ftz.f16 %rs3, %rs1; cvt.u32.u16 %r9, %rs3;", 0x0001) == 0x8000);
  CHECK(of("mov.b32 {%rs1, %rs2}, %r1; abs.ftz.f16 %rs3, %rs1; cvt.u32.u16 %r9, %rs3;", 0x8001) == 0);
  CHECK(of("mov.b32 {%rs1, %rs2}, %r1; setp.eq.ftz.f16 %p1, %rs1, %rs2; selp.u32 %r9, 1, 0, %p1;", 0x00018002) == 1);
  CHECK(of("mov.b32 {%rs1, %rs2}, %r1; setp.eq.f16 %p1, %rs1, %rs2; selp.u32 %r9, 1, 0, %p1;", 0x00018002) == 0);
  CHECK(of("mov.b32 {%rs1, %rs2}, %r1; cvt.ftz.f32.bf16 %f9, %rs1; mov.b32 %r9, %f9;", 0x0001) == 0);
  CHECK(of("slct.ftz.f32.f32 %f9, %f1, %f2, %f3; mov.b32 %r9, %f9;", 0x40000000, 0x3F800000, 0x80000001) == 0x40000000);
}

TEST_CASE("the sign instructions of halves make every NaN the canonical one") {
  CHECK(of("neg.f16x2 %r9, %r1;", 0x7C018001) == 0x7FFF0001);
  CHECK(of("abs.f16x2 %r9, %r1;", 0xFE0080FF) == 0x7FFF00FF);
  CHECK(of("neg.bf16x2 %r9, %r1;", 0xFF813F80) == 0x7FFFBF80);
}

TEST_CASE("tf32 has a NaN of its own, and .rna only drops bits of one") {
  CHECK(of("cvt.rn.tf32.f32 %r9, %f1;", 0x7F800001) == 0x7FFFE000);
  CHECK(of("cvt.rna.tf32.f32 %r9, %f1;", 0x7FC00001) == 0x7FC00000);
  CHECK(of("cvt.rna.tf32.f32 %r9, %f1;", 0xFFFFFFFF) == 0xFFFFE000);
}

TEST_CASE("packed minimum with .relu, packed set, normal zeros, the sixteen-bit mode of prmt, division by what is beyond 2^126") {
  CHECK(of("min.relu.s16x2 %r9, %r1, %r2;", 0xFF800001, 0x00000011) == 0x00000001);
  CHECK(of("max.relu.s16x2 %r9, %r1, %r2;", 0xFFFF8001, 0xFFFF7FFF) == 0x00007FFF);
  CHECK(of("set.lt.f16x2.f16x2 %r9, %r1, %r2;", 0x80000000, 0x01000001) == 0x3C003C00);
  CHECK(of("testp.normal.f32 %p1, %f1; selp.u32 %r9, 1, 0, %p1;", 0) == 1);
  CHECK(of("testp.subnormal.f32 %p1, %f1; selp.u32 %r9, 1, 0, %p1;", 0) == 0);
  CHECK(of("prmt.b32.rc16 %r9, %r1, %r2, %r3;", 0x80000001, 0x00010000, 0xFFFFFFF1) == 0x80008000);
  CHECK(of("prmt.b32.rc16 %r9, %r1, %r2, %r3;", 0xFFFFFFDF, 0x00000009, 0xFFFFFFFE) == 0xFFDFFFDF);
  CHECK(of("div.approx.ftz.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0x46FFFF01, 0xFF61B1E5) == 0x80000000);
  CHECK(of("div.full.ftz.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0x46FFFF01, 0xFF61B1E5) == 0x87112F59);
}

TEST_CASE("approximate f64 functions look at upper words only") {
  const auto upper = [](const char* op, std::uint32_t high, std::uint32_t low) { return of(std::string("mov.b64 %fd1, {%r2, %r1}; ") + op + " %fd2, %fd1; mov.b64 {%r8, %r9}, %fd2;", high, low); };
  CHECK(upper("rcp.approx.ftz.f64", 0x3FE7FFFF, 0xFFFFFFFF) == 0x3FF55556);
  CHECK(upper("rcp.approx.ftz.f64", 0x7FF00000, 1) == 0);
  CHECK(upper("rsqrt.approx.ftz.f64", 0x40592000, 0) == 0x3FB98947);
}

TEST_CASE("fused products and quotients are flushed when they are tiny in 24 bits") {
  const auto fused = [](const char* how, std::uint32_t a, std::uint32_t b, std::uint32_t c) { return of(std::string("fma") + how + ".f32 %f9, %f1, %f2, %f3; mov.b32 %r9, %f9;", a, b, c); };
  CHECK(fused(".rn.ftz", 0x3F7FFFFF, 0x00800000, 0x80000000) == 0);
  CHECK(fused(".rn.ftz", 0xBF7FFFFF, 0x00800000, 0x80000000) == 0x80000000);
  CHECK(fused(".rp.ftz", 0x3F7FFFFF, 0x00800000, 0x80000000) == 0);
  CHECK(fused(".rm.ftz", 0xBF7FFFFF, 0x00800000, 0x80000000) == 0x80000000);
  CHECK(fused(".rn", 0x3F7FFFFF, 0x00800000, 0x80000000) == 0x00800000);
  CHECK(fused(".rn.ftz", 0x3F800000, 0x00800000, 0x80000000) == 0x00800000);
  CHECK(fused(".rn.ftz", 0x3F7FFFFF, 0x00800000, 0x00800000) == 0x01000000);
  CHECK(fused(".rn.ftz", 22432948, 2308328210, 0x00800000) == 0x00800000);  // less than 2^-126 by much less than half of its last bit
  CHECK(of("div.full.ftz.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0xBFFFFFFF, 0xFF000000) == 0);
  CHECK(of("div.full.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0xBFFFFFFF, 0xFF000000) == 0x00800000);
}

TEST_CASE("f32 atomics flush subnormals in global memory and keep them in shared memory, bulk reductions keep them") {
  const std::string shared = ".shared .align 4 .b32 x; st.shared.u32 [x], %r1; ", read = " ld.shared.u32 %r9, [x];";
  CHECK(of(shared + "atom.shared.add.f32 %f9, [x], %f2;" + read, 0x00800001, 0x003FFFFF) == 0x00C00000);
  CHECK(of(shared + "red.shared.add.f32 [x], %f2;" + read, 0x80008001, 0x8000C000) == 0x80014001);
  CHECK(of(shared + "mov.u32 %r4, x; cvt.u64.u32 %rd6, %r4; cvta.shared.u64 %rd6, %rd6; atom.add.f32 %f9, [%rd6], %f2;" + read, 0x00800001, 0x003FFFFF) == 0x00C00000);
  CHECK(of("st.global.u32 [%rd5], %r1; atom.global.add.f32 %f9, [%rd5], %f2; ld.global.u32 %r9, [%rd5];", 0x00800001, 0x003FFFFF) == 0x00800001);
  CHECK(of("st.global.u32 [%rd5], %r1; atom.add.f32 %f9, [%rd5], %f2; ld.global.u32 %r9, [%rd5];", 0x00800001, 0x003FFFFF) == 0x00800001);
  const std::string bulk = ".shared .align 16 .b32 y[4]; st.shared.v4.u32 [y], {%r2, %r2, %r2, %r2}; fence.proxy.async.shared::cta; mov.u32 %r4, y; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd2], [%r4], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";
  const auto out = run("mov.b32 %r1, 0x80000001; mov.b32 %r2, 3; st.global.v4.u32 [%rd2], {%r1, %r1, %r1, %r1}; fence.proxy.async.global;" + bulk, {0}, {.threads = 1, .out_words = 4});
  CHECK(out == std::vector<std::uint32_t>(4, 2));
}

TEST_CASE("a launch with clusters is an explicit cluster") {
  const std::string body = "mov.pred %p1, %is_explicit_cluster; selp.u32 %r9, 1, 0, %p1; mov.u32 %r5, %ctaid.x; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r9;";
  CHECK(run(body, {0}, {.threads = 1, .grid = 2, .cluster = 2, .out_words = 2}) == std::vector<std::uint32_t>{1, 1});
  CHECK(run(body, {0}, {.threads = 1, .grid = 2, .out_words = 2}) == std::vector<std::uint32_t>{0, 0});
}
