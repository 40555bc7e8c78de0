#include <doctest/doctest.h>

#include <cmath>

#include "sim/alu.hpp"
#include "sim/units/formats.hpp"
#include "support.hpp"

using namespace sim_test;

TEST_CASE("integer arithmetic wraps, widens and divides as PTX says") {
  CHECK(of("add.s32 %r9, %r1, %r2;", 0xFFFFFFFF, 2) == 1);
  CHECK(of("sub.u32 %r9, %r1, %r2;", 1, 2) == 0xFFFFFFFF);
  CHECK(of("mul.lo.s32 %r9, %r1, %r2;", 0x10001, 0x10001) == 0x20001);
  CHECK(of("mul.hi.u32 %r9, %r1, %r2;", 0xFFFFFFFF, 0xFFFFFFFF) == 0xFFFFFFFE);
  CHECK(of("mul.hi.s32 %r9, %r1, %r2;", 0xFFFFFFFF, 2) == 0xFFFFFFFF);
  CHECK(of("mul.wide.s32 %rd8, %r1, %r2; shr.u64 %rd8, %rd8, 32; cvt.u32.u64 %r9, %rd8;", 0xFFFFFFFF, 1) == 0xFFFFFFFF);
  CHECK(of("mul.wide.u32 %rd8, %r1, %r2; shr.u64 %rd8, %rd8, 32; cvt.u32.u64 %r9, %rd8;", 0xFFFFFFFF, 16) == 15);
  CHECK(of("mad.lo.u32 %r9, %r1, %r2, %r3;", 7, 6, 5) == 47);
  CHECK(of("mad.hi.s32 %r9, %r1, %r2, %r3;", 0x40000000, 4, 10) == 11);
  CHECK(of("cvt.u64.u32 %rd8, %r3; mad.wide.u32 %rd8, %r1, %r2, %rd8; cvt.u32.u64 %r9, %rd8;", 3, 4, 5) == 17);
  CHECK(of("div.s32 %r9, %r1, %r2;", static_cast<std::uint32_t>(-7), 2) == static_cast<std::uint32_t>(-3));
  CHECK(of("rem.s32 %r9, %r1, %r2;", static_cast<std::uint32_t>(-7), 2) == static_cast<std::uint32_t>(-1));
  CHECK(of("div.u32 %r9, %r1, %r2;", 0xFFFFFFFE, 3) == 0x55555554);
  CHECK(of("min.s32 %r9, %r1, %r2;", 0xFFFFFFFF, 1) == 0xFFFFFFFF);
  CHECK(of("min.u32 %r9, %r1, %r2;", 0xFFFFFFFF, 1) == 1);
  CHECK(of("abs.s32 %r9, %r1;", static_cast<std::uint32_t>(-5)) == 5);
  CHECK(of("neg.s32 %r9, %r1;", 5) == static_cast<std::uint32_t>(-5));
  CHECK(of("sad.u32 %r9, %r1, %r2, %r3;", 3, 10, 100) == 107);
  CHECK(of("add.sat.s32 %r9, %r1, %r2;", 0x7FFFFFFF, 1) == 0x7FFFFFFF);
  CHECK(of("mul24.lo.u32 %r9, %r1, %r2;", 0xFF000003, 5) == 15);
}

TEST_CASE("carries pass through the condition code") {
  CHECK(of("add.cc.u32 %r8, %r1, %r2; addc.u32 %r9, 0, 0;", 0xFFFFFFFF, 1) == 1);
  CHECK(of("add.cc.u32 %r8, %r1, %r2; addc.u32 %r9, 0, 0;", 0xFFFFFFFE, 1) == 0);
  CHECK(of("sub.cc.u32 %r8, %r1, %r2; subc.u32 %r9, 5, 0;", 0, 1) == 4);
  CHECK(of("sub.cc.u32 %r8, %r1, %r2; subc.u32 %r9, 5, 0;", 1, 1) == 5);
  CHECK(of("sub.cc.u32 %r8, %r1, %r2; subc.cc.u32 %r7, 0, 0; subc.u32 %r9, 0, 0;", 0, 1) == 0xFFFFFFFF);
  // The flag after a subtraction says that nothing was borrowed.
  CHECK(of("sub.cc.u32 %r8, %r1, %r2; addc.u32 %r9, 0, 0;", 0, 1) == 0);
  CHECK(of("sub.cc.u32 %r8, %r1, %r2; addc.u32 %r9, 0, 0;", 1, 1) == 1);
  CHECK(of("mad.lo.cc.u32 %r8, %r1, %r2, %r3; madc.hi.u32 %r9, %r1, %r2, 0;", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF) == 0xFFFFFFFF);
}

TEST_CASE("bits move as PTX says") {
  CHECK(of("shl.b32 %r9, %r1, %r2;", 1, 32) == 0);
  CHECK(of("shl.b32 %r9, %r1, %r2;", 1, 31) == 0x80000000);
  CHECK(of("shr.s32 %r9, %r1, %r2;", 0x80000000, 99) == 0xFFFFFFFF);
  CHECK(of("shr.u32 %r9, %r1, %r2;", 0x80000000, 31) == 1);
  CHECK(of("shf.l.wrap.b32 %r9, %r1, %r2, %r3;", 0x80000001, 0x12345678, 36) == 0x23456788);
  CHECK(of("shf.r.clamp.b32 %r9, %r1, %r2, %r3;", 0x80000001, 0x12345678, 40) == 0x12345678);
  CHECK(of("and.b32 %r9, %r1, %r2;", 0xF0F0, 0xFF00) == 0xF000);
  CHECK(of("not.b32 %r9, %r1;", 0xF0F0) == 0xFFFF0F0F);
  CHECK(of("lop3.b32 %r9, %r1, %r2, %r3, 0x96;", 0xF0, 0xCC, 0xAA) == (0xF0 ^ 0xCC ^ 0xAA));
  CHECK(of("lop3.b32 %r9, %r1, %r2, %r3, 0xE8;", 0xF0, 0xCC, 0xAA) == ((0xF0 & 0xCC) | (0xF0 & 0xAA) | (0xCC & 0xAA)));
  CHECK(of("popc.b32 %r9, %r1;", 0xF0F01) == 9);
  CHECK(of("clz.b32 %r9, %r1;", 0x00010000) == 15);
  CHECK(of("clz.b32 %r9, %r1;", 0) == 32);
  CHECK(of("brev.b32 %r9, %r1;", 1) == 0x80000000);
  CHECK(of("bfind.u32 %r9, %r1;", 0x00010000) == 16);
  CHECK(of("bfind.shiftamt.u32 %r9, %r1;", 0x00010000) == 15);
  CHECK(of("bfind.s32 %r9, %r1;", 0xFFFFFFFF) == 0xFFFFFFFF);
  CHECK(of("bfe.u32 %r9, %r1, 8, 8;", 0x12345678) == 0x56);
  CHECK(of("bfe.s32 %r9, %r1, 4, 4;", 0x00000080) == 0xFFFFFFF8);
  CHECK(of("bfi.b32 %r9, %r1, %r2, 8, 8;", 0xAB, 0x11111111) == 0x1111AB11);
  CHECK(of("prmt.b32 %r9, %r1, %r2, 0x5410;", 0x33221100, 0x77665544) == 0x55441100);
  CHECK(of("prmt.b32 %r9, %r1, %r2, 0x000B;", 0x80221100, 0) == 0x000000FF);  // byte 3 with sign replication
  CHECK(of("dp4a.s32.s32 %r9, %r1, %r2, %r3;", 0xFF020304, 0x01010101, 100) == 100 + 4 + 3 + 2 - 1);
  CHECK(of("dp4a.u32.u32 %r9, %r1, %r2, %r3;", 0xFF020304, 0x01010101, 0) == 255 + 9);
  CHECK(of("mov.b64 %rd8, {%r1, %r2}; mov.b64 {%r8, %r9}, %rd8;", 5, 6) == 6);
  CHECK(of("mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r9, {%rs2, %rs1};", 0x12345678) == 0x56781234);
  CHECK(of("mov.b64 %rd8, {%r1, %r2}; mov.b128 %rq1, {%rd8, %rd8}; mov.b128 {%rd9, %rd10}, %rq1; cvt.u32.u64 %r9, %rd10;", 77, 6) == 77);
}

TEST_CASE("predicates compare, combine and select") {
  CHECK(of("setp.lt.s32 %p1, %r1, %r2; selp.u32 %r9, 1, 0, %p1;", 0xFFFFFFFF, 0) == 1);
  CHECK(of("setp.lt.u32 %p1, %r1, %r2; selp.u32 %r9, 1, 0, %p1;", 0xFFFFFFFF, 0) == 0);
  CHECK(of("setp.hi.u32 %p1, %r1, %r2; selp.u32 %r9, 1, 0, %p1;", 0xFFFFFFFF, 0) == 1);
  CHECK(of("setp.eq.s32 %p1|%p2, %r1, %r2; selp.u32 %r9, 1, 0, %p2;", 1, 2) == 1);
  CHECK(of("setp.eq.s32 %p1, 1, 1; setp.eq.and.s32 %p2, %r1, %r2, !%p1; selp.u32 %r9, 1, 0, %p2;", 1, 1) == 0);
  CHECK(of("setp.nan.f32 %p1, %f1, %f2; selp.u32 %r9, 1, 0, %p1;", 0x7FC00000, 0) == 1);
  CHECK(of("setp.ltu.f32 %p1, %f1, %f2; selp.u32 %r9, 1, 0, %p1;", 0x7FC00000, 0) == 1);
  CHECK(of("setp.ne.f32 %p1, %f1, %f2; selp.u32 %r9, 1, 0, %p1;", 0x7FC00000, 0) == 0);
  CHECK(of("setp.neu.f32 %p1, %f1, %f2; selp.u32 %r9, 1, 0, %p1;", 0x7FC00000, 0) == 1);
  CHECK(of("set.lt.u32.s32 %r9, %r1, %r2;", 1, 2) == 0xFFFFFFFF);
  CHECK(of("set.lt.f32.s32 %f9, %r1, %r2; mov.b32 %r9, %f9;", 1, 2) == 0x3F800000);
  CHECK(of("slct.s32.s32 %r9, %r1, %r2, %r3;", 1, 2, 0x80000000) == 2);
  CHECK(of("setp.eq.u32 %p1, %r1, %r1; not.pred %p2, %p1; xor.pred %p3, %p1, %p2; and.pred %p4, %p3, %p1; selp.u32 %r9, 4, 5, %p4;", 1) == 4);
}

TEST_CASE("f32 arithmetic rounds once, flushes when asked and has one NaN") {
  CHECK(of("fma.rn.f32 %f9, %f1, %f2, %f3; mov.b32 %r9, %f9;", bits(1.0F + 0x1p-23F), bits(1.0F - 0x1p-23F), bits(-1.0F)) == bits(-0x1p-46F));
  CHECK(of("add.rz.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", bits(1.0F), bits(0x1.8p-24F)) == bits(1.0F));
  CHECK(of("add.rp.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", bits(1.0F), bits(0x1p-30F)) == bits(1.0F + 0x1p-23F));
  CHECK(of("add.ftz.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 1, 0) == 0);
  CHECK(of("add.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 1, 1) == 2);
  CHECK(of("sub.f32 %f9, %f1, %f1; mov.b32 %r9, %f9;", 0x7F800000) == 0x7FFFFFFF);
  CHECK(of("mul.sat.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", bits(3.0F), bits(4.0F)) == bits(1.0F));
  CHECK(of("max.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0x7FC00000, bits(-4.0F)) == bits(-4.0F));
  CHECK(of("max.NaN.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0x7FC00000, bits(-4.0F)) == 0x7FFFFFFF);
  CHECK(of("min.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", 0, 0x80000000) == 0x80000000);
  CHECK(of("div.rn.f32 %f9, %f1, %f2; mov.b32 %r9, %f9;", bits(1.0F), bits(3.0F)) == bits(1.0F / 3.0F));
  CHECK(of("rcp.approx.f32 %f9, %f1; mov.b32 %r9, %f9;", bits(4.0F)) == bits(0.25F));
  CHECK(of("ex2.approx.f32 %f9, %f1; mov.b32 %r9, %f9;", bits(-3.0F)) == bits(0.125F));
  CHECK(of("sqrt.rn.f32 %f9, %f1; mov.b32 %r9, %f9;", bits(2.0F)) == bits(1.41421356F));
  CHECK(of("max.f32 %f9, %f1, %f2, %f3; mov.b32 %r9, %f9;", bits(1.0F), bits(9.0F), bits(4.0F), {.target = "sm_100a"}) == bits(9.0F));
  CHECK(of("mov.b64 %rd8, {%r1, %r2}; fma.rn.f32x2 %rd8, %rd8, %rd8, %rd8; mov.b64 {%r8, %r9}, %rd8;", bits(2.0F), bits(3.0F), 0, {.target = "sm_100a"}) == bits(12.0F));
}

TEST_CASE("half precision arithmetic rounds once per operation") {
  CHECK(of("fma.rn.f16x2 %r9, %r1, %r2, %r3;", 0x3C004000, 0x40004000, 0x3C003C00) == 0x42004500);  // 1*2+1 = 3 (0x4200), 2*2+1 = 5 (0x4500)
  CHECK(of("fma.rn.bf16x2 %r9, %r1, %r2, %r3;", 0x3F804000, 0x40004000, 0x3F803F80) == 0x404040A0);
  CHECK(of("mov.b32 {%rs1, %rs2}, %r1; add.f16 %rs3, %rs1, %rs2; cvt.u32.u16 %r9, %rs3;", 0x3C003C00) == 0x4000);
  CHECK(of("max.bf16x2 %r9, %r1, %r2;", 0x3F80BF80, 0x40000000) == 0x40000000);
  CHECK(of("neg.f16x2 %r9, %r1;", 0x3C008000) == 0xBC000000);
  CHECK(of("set.le.f16x2.f16x2 %r9, %r1, %r2;", 0x3C004000, 0x40003C00) == 0x3C000000);
  CHECK(of("setp.eq.u32 %p1, %r1, %r1; set.lt.xor.bf16x2.bf16x2 %r9, %r1, %r2, %p1;", 0x3F804000, 0x40003F80) == 0x00003F80);
  CHECK(of("mov.b32 {%rs1, %rs2}, %r1; set.gt.u32.f16 %r9, %rs1, %rs2;", 0x3C004000) == 0xFFFFFFFF);
}

TEST_CASE("conversions extend, cut, round and saturate") {
  CHECK(of("cvt.s32.s8 %r9, %r1;", 0x80) == 0xFFFFFF80);
  CHECK(of("cvt.u32.u8 %r9, %r1;", 0x1FF) == 0xFF);
  CHECK(of("cvt.sat.u8.s32 %r9, %r1;", static_cast<std::uint32_t>(-5)) == 0);
  CHECK(of("cvt.rn.f32.s32 %f9, %r1; mov.b32 %r9, %f9;", static_cast<std::uint32_t>(-3)) == bits(-3.0F));
  CHECK(of("cvt.rn.f32.u32 %f9, %r1; mov.b32 %r9, %f9;", 0xFFFFFFFF) == bits(4294967296.0F));
  CHECK(of("cvt.rzi.s32.f32 %r9, %f1;", bits(-2.9F)) == static_cast<std::uint32_t>(-2));
  CHECK(of("cvt.rni.s32.f32 %r9, %f1;", bits(2.5F)) == 2);
  CHECK(of("cvt.rpi.f32.f32 %f9, %f1; mov.b32 %r9, %f9;", bits(2.1F)) == bits(3.0F));
  CHECK(of("cvt.rzi.u32.f32 %r9, %f1;", bits(-5.0F)) == 0);
  CHECK(of("cvt.rzi.s32.f32 %r9, %f1;", bits(1e20F)) == 0x7FFFFFFF);
  CHECK(of("cvt.rzi.s32.f32 %r9, %f1;", 0x7FC00000) == 0);
  CHECK(of("cvt.rn.bf16x2.f32 %r9, %f1, %f2;", bits(1.0F), bits(2.0F)) == 0x3F804000);
  CHECK(of("cvt.rn.f16x2.f32 %r9, %f1, %f2;", bits(1.0F), bits(-2.0F)) == 0x3C00C000);
  CHECK(of("cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2; cvt.u32.u16 %r9, %rs1;", bits(1.0F), bits(1000.0F)) == 0x387E);
  CHECK(of("cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2; cvt.rn.f16x2.e4m3x2 %r9, %rs1;", bits(1.0F), bits(-2.0F)) == 0x3C00C000);
  CHECK(of("cvt.rna.tf32.f32 %r9, %f1;", 0x3F801000) == 0x3F802000);
  CHECK(of("cvt.f64.f32 %fd1, %f1; add.f64 %fd1, %fd1, %fd1; cvt.rn.f32.f64 %f9, %fd1; mov.b32 %r9, %f9;", bits(1.5F)) == bits(3.0F));
  CHECK(of("cvt.s64.s32 %rd8, %r1; shr.u64 %rd8, %rd8, 32; cvt.u32.u64 %r9, %rd8;", 0x80000000) == 0xFFFFFFFF);
}

TEST_CASE("half precision over a million pairs equals the functions that round by definition") {
  // Every 16-bit pattern against a scrambled one, so that each kind of number meets each.
  using tlx::sim::number;
  for (const char* target : {"sm_90a"})
    for (const auto& type : {std::pair{std::string("f16"), number::f16}, std::pair{std::string("bf16"), number::bf16}})
      for (std::uint32_t round = 0; round < 8; ++round) {
        const std::string& name = type.first;
        const number format = type.second;
        setup s{.target = target, .threads = 256, .grid = 256};
        const std::uint32_t n = 65536, scramble = 40503 + 2 * round * 977;
        const auto partner = [&](std::uint32_t k) { return (k * scramble + round * 12345) & 0xFFFFU; };
        const auto third = [&](std::uint32_t k) { return (k * 1103 + (k >> 5) + round * 999) & 0xFFFFU; };
        s.out_words = n * 8;
        std::vector<std::uint32_t> in(n);
        for (std::uint32_t k = 0; k < n; ++k) in[k] = k | partner(k) << 16;
        std::string body = "mov.u32 %r40, %ctaid.x; mad.lo.u32 %r40, %r40, 256, %r0; mul.wide.u32 %rd3, %r40, 4; add.s64 %rd4, %rd1, %rd3; mul.wide.u32 %rd5, %r40, 32; add.s64 %rd5, %rd2, %rd5; ld.global.u32 %r1, [%rd4]; mov.b32 {%rs1, %rs2}, %r1; mul.lo.u32 %r2, %r40, 1103; shr.u32 %r3, %r40, 5; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, " + std::to_string(round * 999) + "; cvt.u16.u32 %rs3, %r2;";
        int k = 0;
        for (const std::string op : {"add.", "sub.", "mul.", "fma.rn.", "min.", "max."}) {
          const bool three = op == "fma.rn.";
          // Packed: the same in the upper half, the other way round.
          body += "mov.b32 %r10, {%rs1, %rs2}; mov.b32 %r11, {%rs2, %rs1}; mov.b32 %r12, {%rs3, %rs3}; " + op + name + "x2 %r13, %r10, %r11" + (three ? ", %r12" : "") + "; " + op + name + " %rs5, %rs1, %rs2" + (three ? ", %rs3" : "") + "; mov.b32 {%rs6, %rs7}, %r13; setp.ne.u16 %p1, %rs5, %rs6; @%p1 trap; st.global.u32 [%rd5+" + std::to_string(4 * k++) + "], %r13;";
        }
        body += "cvt.f32." + name + " %f1, %rs1; cvt.f32." + name + " %f2, %rs2; mul.f32 %f3, %f1, 0f3F8CCCCD; cvt.rn." + name + "x2.f32 %r14, %f3, %f2; cvt.rn." + name + ".f32 %rs8, %f3; mov.b32 {%rs9, %rs10}, %r14; setp.ne.u16 %p1, %rs8, %rs10; @%p1 trap; st.global.u32 [%rd5+24], %r14; st.global.f32 [%rd5+28], %f1;";
        const auto out = run(body, in, s);
        int wrong = 0;
        for (std::uint32_t j = 0; j < n; ++j) {
          const auto a = static_cast<std::uint16_t>(j), b = static_cast<std::uint16_t>(partner(j)), c = static_cast<std::uint16_t>(third(j));
          const auto both = [](std::uint16_t low, std::uint16_t high) { return low | static_cast<std::uint32_t>(high) << 16; };
          const float scaled = tlx::sim::mul_f32(tlx::sim::widen(format, a), real(0x3F8CCCCD));
          const std::uint32_t expected[8] = {both(tlx::sim::add_half(format, a, b), tlx::sim::add_half(format, b, a)), both(tlx::sim::sub_half(format, a, b), tlx::sim::sub_half(format, b, a)),
                                             both(tlx::sim::mul_half(format, a, b), tlx::sim::mul_half(format, b, a)), both(tlx::sim::fma_half(format, a, b, c), tlx::sim::fma_half(format, b, a, c)),
                                             both(tlx::sim::min_half(format, a, b), tlx::sim::min_half(format, b, a)), both(tlx::sim::max_half(format, a, b), tlx::sim::max_half(format, b, a)),
                                             both(static_cast<std::uint16_t>(tlx::sim::narrow(format, tlx::sim::widen(format, b))), static_cast<std::uint16_t>(tlx::sim::narrow(format, scaled))), bits(tlx::sim::widen(format, a))};
          for (int e = 0; e < 8; ++e) {
            const std::uint32_t got = out[j * 8 + static_cast<std::uint32_t>(e)];
            const bool nan_of_f32 = e == 7 && tlx::sim::widen(format, a) != tlx::sim::widen(format, a) && real(got) != real(got);
            if (got != expected[e] && !nan_of_f32 && ++wrong < 5) { INFO(name << " operation " << e << " a " << a << " b " << b << " c " << c); CHECK(got == expected[e]); }
          }
        }
        CHECK(wrong == 0);
      }
}

TEST_CASE("ex2.approx of f32 stays within two units in the last place, subnormal results included") {
  setup s{.threads = 256, .grid = 64};
  std::vector<std::uint32_t> in(16384);
  for (std::uint32_t k = 0; k < in.size(); ++k) in[k] = k % 3 == 0 ? k * 262147U : bits(-160.0F + 320.0F * static_cast<float>(k) / 16384.0F);
  in[0] = 0x7F800000; in[1] = 0xFF800000; in[2] = 0x7FC00001; in[3] = 0x80000000; in[4] = 1;
  const auto out = run("mov.u32 %r40, %ctaid.x; mad.lo.u32 %r40, %r40, 256, %r0; mul.wide.u32 %rd3, %r40, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3; ld.global.f32 %f1, [%rd4]; ex2.approx.f32 %f2, %f1; st.global.f32 [%rd5], %f2;", in, s);
  for (std::size_t k = 0; k < in.size(); ++k) {
    const float x = real(in[k]), got = real(out[k]);
    if (x != x) { CHECK(out[k] == 0x7FFFFFFF); continue; }
    const double exact = std::exp2(static_cast<double>(x));
    if (exact > 3.4028235677973366e38) { CHECK(out[k] == 0x7F800000); continue; }
    const double unit = std::max(0x1p-149, std::ldexp(1.0, (exact > 0 ? std::ilogb(exact) : -149) - 23));
    if (std::fabs(static_cast<double>(got) - exact) > 2 * unit) { CAPTURE(x); CHECK(static_cast<double>(got) == exact); }
  }
  CHECK(real(out[3]) == 1.0F);
  for (int e = -149; e < 128; ++e) CHECK(of("ex2.approx.f32 %f9, %f1; mov.b32 %r9, %f9;", bits(static_cast<float>(e))) == bits(std::ldexp(1.0F, e)));
  CHECK(of("ex2.approx.ftz.f32 %f9, %f1; mov.b32 %r9, %f9;", bits(-140.0F)) == 0);
}

TEST_CASE("half precision is the same on processors without AVX2") {
  using tlx::sim::alu;
  using tlx::sim::scalar;
  std::uint32_t seed = 1;
  for (const scalar type : {scalar::f16, scalar::bf16, scalar::f16x2, scalar::bf16x2})
    for (const alu op : {alu::add, alu::sub, alu::mul, alu::fma, alu::minimum, alu::maximum})
      for (int round = 0; round < 2000; ++round) {
        alignas(64) std::uint32_t slots[2][4][32];
        for (int k = 0; k < 4; ++k)
          for (int l = 0; l < 32; ++l) {
            seed = seed * 1664525U + 1013904223U;
            const std::uint32_t bits = seed ^ seed >> 15;
            slots[0][k][l] = slots[1][k][l] = type == scalar::f16 || type == scalar::bf16 ? bits & 0xFFFFU : bits;
          }
        tlx::sim::instruction i;
        i.d = 0, i.a = 128, i.b = 256, i.c = 384;
        tlx::sim::find_fast_generic(op, type, scalar::none, tlx::sim::compare::eq, false)(reinterpret_cast<std::byte*>(slots[0]), i, 0xFFFFFFFFU);
        tlx::sim::find_fast(op, type)(reinterpret_cast<std::byte*>(slots[1]), i, 0xFFFFFFFFU);
        CAPTURE(static_cast<int>(type));
        CAPTURE(static_cast<int>(op));
        REQUIRE(std::memcmp(slots[0], slots[1], sizeof slots[0]) == 0);
      }
}
