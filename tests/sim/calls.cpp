// Calls of every kind, lanes that exchange in groups, and the rarer arithmetic: each with its value by hand.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "support.hpp"

using namespace sim_test;

namespace {
std::vector<std::uint32_t> counting(std::uint32_t n) {
  std::vector<std::uint32_t> v(n);
  for (std::uint32_t k = 0; k < n; ++k) v[k] = k;
  return v;
}
/// out[tid] = %r9 after `body`, with functions in front.
std::vector<std::uint32_t> with_functions(const std::string& functions, const std::string& body, std::uint64_t seed = 1) {
  setup s;
  s.seed = seed;
  s.threads = 32;
  const auto in = counting(32);
  return run_module(module_text("mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3; ld.global.u32 %r1, [%rd4];\n" + body + "\nst.global.u32 [%rd5], %r9;", s, functions), in, s);
}
std::string call(const std::string& function, const std::string& argument, const std::string& result) {
  return "{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], " + argument + "; call (r0), " + function + ", (a0); ld.param.b32 " + result + ", [r0]; }";
}
}  // namespace

TEST_CASE("a function that calls itself keeps the registers and parameters of each activation") {
  // fib; the parameter is read again after the first inner call.
  const std::string fib = R"(.func (.param .b32 result) fib (.param .b32 n) { .reg .pred %p<3>; .reg .b32 %x<9>; ld.param.b32 %x1, [n]; setp.lt.u32 %p1, %x1, 2; @%p1 bra SMALL;
      sub.u32 %x2, %x1, 1; )" + call("fib", "%x2", "%x3") + R"( ld.param.b32 %x4, [n]; sub.u32 %x4, %x4, 2; )" + call("fib", "%x4", "%x5") + R"( add.u32 %x6, %x3, %x5; st.param.b32 [result], %x6; ret;
      SMALL: st.param.b32 [result], %x1; ret; } )";
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto out = with_functions(fib, "and.b32 %r2, %r1, 7; " + call("fib", "%r2", "%r9"), seed);
    const std::uint32_t expected[] = {0, 1, 1, 2, 3, 5, 8, 13};
    for (std::uint32_t t = 0; t < 32; ++t) CHECK(out[t] == expected[t % 8]);
  }
}

TEST_CASE("each activation of a recursive function has its own local memory, and outer ones stay reachable") {
  // down(n, p): own = n; *p += n; if (n) down(n - 1, &own); the caller's own is read after the call. Result: n + what the inner call added to it.
  const std::string down = R"(.func (.param .b32 result) down (.param .b32 n, .param .b64 p) { .local .align 4 .b8 own[4]; .reg .pred %p<3>; .reg .b32 %x<9>; .reg .b64 %d<6>;
      ld.param.b32 %x1, [n]; ld.param.b64 %d1, [p]; mov.u64 %d2, own; cvta.local.u64 %d3, %d2; st.u32 [%d3], %x1; ld.u32 %x2, [%d1]; add.u32 %x2, %x2, %x1; st.u32 [%d1], %x2;
      setp.eq.u32 %p1, %x1, 0; @%p1 bra END; sub.u32 %x3, %x1, 1;
      { .param .b32 a0; .param .b64 a1; .param .b32 r0; st.param.b32 [a0], %x3; st.param.b64 [a1], %d3; call (r0), down, (a0, a1); ld.param.b32 %x4, [r0]; }
      END: ld.local.u32 %x5, [own]; st.param.b32 [result], %x5; ret; } )";
  const auto out = with_functions(down, R"(.local .align 4 .b8 top[4]; mov.u64 %rd6, top; cvta.local.u64 %rd7, %rd6; st.local.u32 [top], 1000; and.b32 %r2, %r1, 7;
      { .param .b32 a0; .param .b64 a1; .param .b32 r0; st.param.b32 [a0], %r2; st.param.b64 [a1], %rd7; call (r0), down, (a0, a1); ld.param.b32 %r3, [r0]; }
      ld.local.u32 %r4, [top]; mad.lo.u32 %r9, %r3, 10000, %r4;)");
  for (std::uint32_t t = 0; t < 32; ++t) { const std::uint32_t n = t % 8; CHECK(out[t] == (n ? n + n - 1 : 0) * 10000 + 1000 + n); }
  // Without end it runs out of local memory, and says so.
  const std::string deep = R"(.func (.param .b32 result) deep (.param .b32 n) { .local .align 4 .b8 own[4]; .reg .b32 %x<9>; .reg .pred %p<2>; ld.param.b32 %x1, [n]; st.local.u32 [own], %x1; add.u32 %x1, %x1, 1; )" + call("deep", "%x1", "%x2") + " st.param.b32 [result], %x2; ret; } ";
  CHECK(id_of([&] { with_functions(deep, call("deep", "%r1", "%r9")); }) == "out-of-bounds");
  const std::string endless = R"(.func (.param .b32 result) deep (.param .b32 n) { .reg .b32 %x<9>; ld.param.b32 %x1, [n]; )" + call("deep", "%x1", "%x2") + " st.param.b32 [result], %x2; ret; } ";
  CHECK(id_of([&] { with_functions(endless, call("deep", "%r1", "%r9")); }) == "out-of-bounds");
}

TEST_CASE("indirect calls reach the function that each lane names, from a table or a register, also in a recursion") {
  const std::string functions = R"(.visible .func (.param .b32 result) twice (.param .b32 n) { .reg .b32 %x<3>; ld.param.b32 %x1, [n]; shl.b32 %x1, %x1, 1; st.param.b32 [result], %x1; ret; }
      .visible .func (.param .b32 result) minus (.param .b32 n) { .reg .b32 %x<3>; ld.param.b32 %x1, [n]; sub.u32 %x1, %x1, 5; st.param.b32 [result], %x1; ret; }
      .visible .func (.param .b32 result) sum (.param .b32 n) { .reg .b32 %x<5>; .reg .b64 %d<3>; .reg .pred %p<2>; ld.param.b32 %x1, [n]; setp.eq.u32 %p1, %x1, 0; mov.u32 %x3, 0; @%p1 bra E; sub.u32 %x2, %x1, 1; mov.u64 %d1, sum;
        { .param .b32 a0; .param .b32 r0; st.param.b32 [a0], %x2; P: .callprototype (.param .b32 _) _ (.param .b32 _); call (r0), %d1, (a0), P; ld.param.b32 %x3, [r0]; } E: add.u32 %x3, %x3, %x1; st.param.b32 [result], %x3; ret; }
      .global .align 8 .u64 table[3] = {twice, minus, sum}; )";
  const std::string indirect = "{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], %r1; P: .callprototype (.param .b32 _) _ (.param .b32 _); call (r0), %rd8, (a0), P; ld.param.b32 %r9, [r0]; }";
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto out = with_functions(functions, "rem.u32 %r2, %r1, 3; mul.wide.u32 %rd6, %r2, 8; mov.u64 %rd7, table; add.s64 %rd7, %rd7, %rd6; ld.global.u64 %rd8, [%rd7]; " + indirect, seed);
    for (std::uint32_t t = 0; t < 32; ++t) CHECK(out[t] == (t % 3 == 0 ? 2 * t : t % 3 == 1 ? t - 5 : t * (t + 1) / 2));
    const auto some = with_functions(functions, "mov.u64 %rd8, minus; mov.u32 %r9, 7; setp.gt.u32 %p1, %r1, 20; @!%p1 bra S; " + indirect + " S: ", seed);
    for (std::uint32_t t = 0; t < 32; ++t) CHECK(some[t] == (t > 20 ? t - 5 : 7));
  }
  CHECK(id_of([&] { with_functions(functions, "mov.u64 %rd8, 4096; mov.u64 %rd9, twice; " + indirect); }) == "out-of-bounds");
  CHECK(id_of([&] { with_functions(functions, "mov.u64 %rd8, twice; { .param .b64 a0; .param .b32 r0; st.param.b64 [a0], %rd8; P: .callprototype (.param .b32 _) _ (.param .b64 _); call (r0), %rd8, (a0), P; ld.param.b32 %r9, [r0]; }"); }) == "out-of-bounds");
}

TEST_CASE("lanes that name different member masks at one instruction exchange in their groups") {
  // Tiles of eight: each group adds up its own; also when a part of the groups comes later.
  const std::string tile = "shr.u32 %r2, %r1, 3; shl.b32 %r2, %r2, 3; mov.u32 %r3, 255; shl.b32 %r3, %r3, %r2; ";
  const auto expected = [](std::uint32_t t) { const std::uint32_t b = t / 8 * 8; return 8 * b + 28; };
  auto out = per_lane(tile + "mov.u32 %r9, %r1; shfl.sync.bfly.b32 %r4, %r9, 4, 31, %r3; add.u32 %r9, %r9, %r4; shfl.sync.bfly.b32 %r4, %r9, 2, 31, %r3; add.u32 %r9, %r9, %r4; shfl.sync.bfly.b32 %r4, %r9, 1, 31, %r3; add.u32 %r9, %r9, %r4;", counting(32));
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(out[t] == expected(t));
  out = per_lane(tile + "redux.sync.add.s32 %r9, %r1, %r3;", counting(32));
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(out[t] == expected(t));
  out = per_lane(tile + "and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 0; mov.u32 %r6, 0; @%p1 bra G; L: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 5; @%p2 bra L; G: bar.warp.sync %r3; redux.sync.add.s32 %r9, %r1, %r3; vote.sync.ballot.b32 %r7, %p1, %r3; popc.b32 %r7, %r7; mad.lo.u32 %r9, %r7, 1000, %r9;", counting(32));
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(out[t] == 4000 + expected(t));
  // Two groups on two sides of a branch at the same instruction of a function.
  out = per_lane("setp.lt.u32 %p1, %r1, 12; selp.u32 %r3, 0xFFF, 0xFFFFF000, %p1; match.any.sync.b32 %r9, %r3, %r3;", counting(32));
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(out[t] == (t < 12 ? 0xFFFU : 0xFFFFF000U));
  CHECK(id_of([&] { per_lane("mov.u32 %r3, 1; shfl.sync.idx.b32 %r9, %r1, 0, 31, %r3;", counting(32)); }) == "barrier-misuse");
}

TEST_CASE("lop3 with a predicate, saturating packs and products, and mixed precision") {
  const std::string both = "setp.ne.u32 %p1, %r3, 0; lop3.and.b32 %r4|%p2, %r1, %r2, 0, 0xC0, %p1; lop3.or.b32 _|%p3, %r1, %r2, 0, 0xC0, %p1; selp.u32 %r5, 100, 0, %p2; selp.u32 %r6, 1000, 0, %p3; add.u32 %r9, %r4, %r5; add.u32 %r9, %r9, %r6;";
  CHECK(of(both, 12, 10, 1) == 8 + 1100);
  CHECK(of(both, 12, 3, 1) == 0 + 1000);
  CHECK(of(both, 12, 10, 0) == 8 + 1000);
  CHECK(of(both, 12, 3, 0) == 0);
  CHECK(of("cvt.pack.sat.u8.s32.b32 %r9, %r1, %r2, %r3;", 300, static_cast<std::uint32_t>(-4), 0x1234ABCD) == 0xABCDFF00);
  CHECK(of("cvt.pack.sat.s8.s32.b32 %r9, %r1, %r2, %r3;", 5, static_cast<std::uint32_t>(-400), 0x11) == 0x00110580);
  CHECK(of("cvt.pack.sat.s16.s32 %r9, %r1, %r2;", 70000, static_cast<std::uint32_t>(-2)) == 0x7FFFFFFE);
  CHECK(of("cvt.pack.sat.u16.s32 %r9, %r1, %r2;", 70000, 77) == 0xFFFF004D);
  CHECK(of("cvt.pack.sat.u4.s32.b32 %r9, %r1, %r2, %r3;", 3, 99, 0x123) == 0x1233F);
  CHECK(of("cvt.pack.sat.s2.s32.b32 %r9, %r1, %r2, %r3;", 3, static_cast<std::uint32_t>(-9), 0x5) == 0x56);
  CHECK(of("vadd4.u32.u32.u32.sat %r9, %r1, %r2, %r3;", 0xF0010203, 0x20304050, 0) == 0xFF314253);
  CHECK(of("vadd4.s32.s32.s32 %r9, %r1, %r2, %r3;", 0xFF7F0080, 0x02010180, 0) == 0x01800100);
  CHECK(of("vsub2.s32.s32.s32.sat %r9, %r1, %r2, %r3;", 0x80000005, 0x00010007, 0) == 0x8000FFFE);
  CHECK(of("vabsdiff4.u32.u32.u32 %r9, %r1, %r2, %r3;", 0x01FF8005, 0x0300FF05, 0) == 0x02FF7F00);
  CHECK(of("vabsdiff4.u32.u32.u32.add %r9, %r1, %r2, %r3;", 0x01FF8005, 0x0300FF05, 1000) == 1000 + 2 + 255 + 127);
  CHECK(of("vmin2.s32.s32.s32 %r9, %r1, %r2, %r3;", 0xFFFF0005, 0x00010003, 0) == 0xFFFF0003);
  CHECK(of("vmax4.u32.u32.u32 %r9, %r1, %r2, %r3;", 0xFF000102, 0x01020300, 0) == 0xFF020302);
  CHECK(of("vset2.s32.s32.lt %r9, %r1, %r2, %r3;", 0xFFFF0005, 0x00010003, 0) == 0x00010000);
  CHECK(of("mad.hi.sat.s32 %r9, %r1, %r2, %r3;", 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF) == 0x7FFFFFFF);
  CHECK(of("mad.hi.sat.s32 %r9, %r1, %r2, %r3;", 0x40000000, 8, 3) == 5);
  CHECK(of("mad24.hi.sat.s32 %r9, %r1, %r2, %r3;", 0x400000, 0x400000, 0x7FFFFFFF) == 0x7FFFFFFF);
  CHECK(of("mad24.hi.sat.s32 %r9, %r1, %r2, %r3;", 0xFFFF00, 0x100, 0) == 0xFFFFFFFF);  // -256 * 256 >> 16
  const setup blackwell{.target = "sm_100a"};
  CHECK(of("cvt.u16.u32 %rs1, %r1; add.f32.f16 %f9, %rs1, %f2; mov.b32 %r9, %f9;", 0x3C01, bits(1.0F), 0, blackwell) == bits(2.0F + 0x1p-10F));
  CHECK(of("cvt.u16.u32 %rs1, %r1; sub.rz.f32.bf16 %f9, %rs1, %f2; mov.b32 %r9, %f9;", 0x3F80, bits(0x1p-30F), 0, blackwell) == bits(1.0F - 0x1p-24F));
  CHECK(of("cvt.u16.u32 %rs1, %r1; cvt.u16.u32 %rs2, %r2; fma.rn.f32.f16 %f9, %rs1, %rs2, %f3; mov.b32 %r9, %f9;", 0x3C01, 0x3C01, bits(-1.0F), blackwell) == bits(0x1p-9F + 0x1p-20F));
  CHECK(of("cvt.u16.u32 %rs1, %r1; fma.rn.sat.f32.bf16 %f9, %rs1, %rs1, %f3; mov.b32 %r9, %f9;", 0x4000, 0, bits(1.0F), blackwell) == bits(1.0F));
  CHECK(id_of([&] { of("add.f32.f16 %f9, %rs1, %f2;", 0); }) == "ptx-unsupported");
  CHECK(of("mov.pred %p1, %is_explicit_cluster; selp.u32 %r9, 1, 2, %p1;", 0) == 2);
}

TEST_CASE("printf formats its arguments and gives their number back") {
  std::ifstream file(std::string(TLX_SOURCE_DIR) + "/tests/sim/cases/cuda_printing/kernel.ptx");
  std::stringstream text;
  text << file.rdbuf();
  auto m = tlx::sim::open("sm_90a");
  std::vector<std::uint32_t> x = counting(32), y(32);
  const auto in = m->allocate(128), out = m->allocate(128);
  m->write(in, x.data(), 128);
  const auto code = m->load({.ptx = text.str(), .cubin = {}});
  tlx::device::launch l;
  l.grid = {1, 1, 1};
  l.block = {32, 1, 1};
  l.arguments = {tlx::device::scalar<std::uint64_t>(in), tlx::device::scalar<std::uint64_t>(out)};
  m->run(*code, "printing", l);
  std::string all;
  for (const std::string& s : m->last_run().printed) all += s;
  CHECK(all == "t=3 x=3 hex=00000003 f=1.500 s=text c=q ll=3298534883328 p%\n");
  // The assertion of a lane that fails ends the run.
  x[5] = 0x80000000;
  m->write(in, x.data(), 128);
  CHECK(id_of([&] { m->run(*code, "printing", l); }) == "trap");
}
