// What an H200 gave where this simulator had read the documents otherwise; each line was a difference of the generated population (tests/compare).
#include <doctest/doctest.h>

#include "support.hpp"

using namespace sim_test;

TEST_CASE("tiny products are flushed before they are rounded") {
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
