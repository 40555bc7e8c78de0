#include <doctest/doctest.h>

#include <numeric>

#include "support.hpp"

using namespace sim_test;

namespace {
std::vector<std::uint32_t> counting(std::size_t n) { std::vector<std::uint32_t> v(n); std::iota(v.begin(), v.end(), 0U); return v; }
}  // namespace

TEST_CASE("loads extend, vectors come in order, offsets count bytes") {
  CHECK(one("ld.global.s8 %r9, [%rd4+3];", 0x80112233) == 0xFFFFFF80);
  CHECK(one("ld.global.u8 %r9, [%rd4+3];", 0x80112233) == 0x80);
  CHECK(one("ld.global.u16 %rs1, [%rd4+2]; cvt.u32.u16 %r9, %rs1;", 0x80112233) == 0x8011);
  CHECK(one("ld.global.s16 %r9, [%rd4+2];", 0x80112233) == 0xFFFF8011);
  CHECK(one("ld.global.v2.u16 {%rs1, %rs2}, [%rd4]; mov.b32 %r9, {%rs2, %rs1};", 0x80112233) == 0x22338011);
  CHECK(one("ld.global.s32 %rd8, [%rd4]; shr.u64 %rd8, %rd8, 32; cvt.u32.u64 %r9, %rd8;", 0x80000000) == 0xFFFFFFFF);
  CHECK(per_lane("ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+16]; mov.b32 %r9, %r5;", counting(32))[0] == 7);
  CHECK(per_lane("ld.global.v4.b64 {%rd8, %rd9, %rd10, %rd11}, [%rd1+32]; cvt.u32.u64 %r9, %rd11;", counting(32), {.target = "sm_100a"})[0] == 14);
}

TEST_CASE("generic addresses reach shared, local, parameter and global memory") {
  CHECK(one(".shared .align 8 .b32 x[2]; mov.u32 %r2, x; cvt.u64.u32 %rd6, %r2; cvta.shared.u64 %rd7, %rd6; st.u32 [%rd7+4], %r1; ld.shared.u32 %r9, [x+4];", 42) == 42);
  CHECK(one(".local .align 8 .b8 x[16]; mov.u64 %rd6, x; cvta.local.u64 %rd7, %rd6; st.u32 [%rd7+4], %r1; ld.local.u32 %r9, [x+4];", 43) == 43);
  CHECK(one("mov.b64 %rd6, p_in; cvta.param.u64 %rd7, %rd6; ld.u64 %rd8, [%rd7]; ld.global.u32 %r9, [%rd8];", 44) == 44);
  CHECK(one("cvta.to.global.u64 %rd6, %rd4; isspacep.global %p1, %rd6; selp.u32 %r9, 1, 0, %p1;", 44) == 1);
  CHECK(one(".shared .b32 x; mov.u64 %rd6, x; cvta.shared.u64 %rd7, %rd6; isspacep.shared %p1, %rd7; selp.u32 %r9, 1, 0, %p1; cvta.to.shared.u64 %rd8, %rd7; setp.eq.u64 %p2, %rd8, %rd6; @!%p2 mov.u32 %r9, 5;") == 1);
}

TEST_CASE("module variables hold their initial values and addresses of each other") {
  const std::string vars = ".global .align 4 .b32 table[4] = {10, 20, 30};\n.const .align 4 .f32 half = 0f3F000000;\n.global .align 8 .u64 where = table;\n";
  setup s;
  s.threads = 1;
  s.out_words = 3;
  const auto out = run_module(module_text("ld.global.u32 %r1, [table+8]; st.global.u32 [%rd2], %r1; ld.const.f32 %f1, [half]; st.global.f32 [%rd2+4], %f1; ld.global.u64 %rd3, [where]; ld.global.u32 %r1, [%rd3+4]; st.global.u32 [%rd2+8], %r1;", s, vars), {}, s);
  CHECK(out[0] == 30);
  CHECK(out[1] == 0x3F000000);
  CHECK(out[2] == 20);
}

TEST_CASE("atomics return the old value and every lane acts once") {
  setup s;
  s.out_words = 33;
  auto out = run("mov.u32 %r1, 0; setp.eq.u32 %p1, %r0, 0; @%p1 st.global.u32 [%rd2+128], %r1; bar.warp.sync -1; atom.global.add.u32 %r2, [%rd2+128], 3; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r2;", {}, s);
  CHECK(out[32] == 96);
  std::uint32_t sum = 0;
  for (int l = 0; l < 32; ++l) sum += out[static_cast<std::size_t>(l)];
  CHECK(sum == 3 * 496);
  CHECK(one(".shared .b32 x; st.shared.u32 [x], 5; atom.shared.cas.b32 %r2, [x], 5, %r1; ld.shared.u32 %r9, [x];", 77) == 77);
  CHECK(one(".shared .b32 x; st.shared.u32 [x], 5; atom.shared.exch.b32 %r9, [x], %r1;", 77) == 5);
  CHECK(one(".shared .b32 x; st.shared.u32 [x], 5; atom.shared.inc.u32 %r9, [x], 5; ld.shared.u32 %r9, [x];") == 0);
  CHECK(one(".shared .f32 x; st.shared.f32 [x], 0f3F800000; red.shared.add.f32 [x], 0f40000000; ld.shared.u32 %r9, [x];") == 0x40400000);
  CHECK(one("mov.u32 %r2, 8; red.global.max.u32 [%rd4], %r2; ld.global.u32 %r9, [%rd4];", 7) == 8);
  CHECK(one("atom.global.gpu.acq_rel.or.b32 %r2, [%rd4], 8; ld.global.u32 %r9, [%rd4];", 7) == 15);
}

TEST_CASE("a peer's shared memory is reached through mapa, and its barrier orders the access") {
  setup s;
  s.grid = 2;
  s.cluster = 2;
  s.out_words = 2;
  for (s.seed = 0; s.seed < 6; ++s.seed) {
    const auto out = run(R"(.shared .align 4 .b32 x;
      mov.u32 %r1, %cluster_ctarank; add.u32 %r2, %r1, 100; mov.u32 %r3, x; setp.eq.u32 %p1, %r0, 0;
      @%p1 st.shared.u32 [x], %r2;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      xor.b32 %r4, %r1, 1; mapa.shared::cluster.u32 %r5, %r3, %r4; ld.shared::cluster.u32 %r6, [%r5]; getctarank.shared::cluster.u32 %r7, %r5; mad.lo.u32 %r6, %r7, 1000, %r6;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      mul.wide.u32 %rd3, %r1, 4; add.s64 %rd5, %rd2, %rd3; @%p1 st.global.u32 [%rd5], %r6;)", {}, s);
    CHECK(out[0] == 1101);
    CHECK(out[1] == 100);
  }
}

TEST_CASE("cp.async lands at the latest when it is waited for, and fills with zeros") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    setup s;
    s.seed = seed;
    const auto out = per_lane(R"(.shared .align 16 .b8 x[512];
      mov.u32 %r2, x; mad.lo.u32 %r2, %r0, 8, %r2; and.b64 %rd6, %rd4, -8;
      cp.async.ca.shared.global [%r2], [%rd6], 8, 4; cp.async.commit_group; cp.async.wait_group 0;
      ld.shared.v2.u32 {%r3, %r4}, [%r2]; mad.lo.u32 %r9, %r4, 1000, %r3;)", counting(32), s);
    for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == l / 2 * 2);
  }
}

TEST_CASE("ldmatrix and stmatrix move 8x8 tiles of 16 bits in fragment order") {
  // Row r of the tile holds 8r .. 8r+7. Lane t gets elements 2t and 2t+1; transposed it gets (row 2(t%4), column t/4) and the row below.
  const std::string fill = R"(.shared .align 16 .b8 x[128];
      mov.u32 %r2, x; mad.lo.u32 %r3, %r0, 4, %r2; mul.lo.u32 %r4, %r0, 2; add.u32 %r5, %r4, 1; shl.b32 %r5, %r5, 16; or.b32 %r4, %r4, %r5; st.shared.u32 [%r3], %r4; bar.warp.sync -1;
      and.b32 %r6, %r0, 7; mad.lo.u32 %r6, %r6, 16, %r2;)";
  auto out = per_lane(fill + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r6];", counting(32));
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(out[t] == (2 * t | (2 * t + 1) << 16));
  out = per_lane(fill + "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r9}, [%r6];", counting(32));
  for (std::uint32_t t = 0; t < 32; ++t) { const std::uint32_t r = 2 * (t % 4), c = t / 4; CHECK(out[t] == ((8 * r + c) | ((8 * (r + 1) + c) << 16))); }
  out = per_lane(fill + "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r7}, [%r6]; bar.warp.sync -1; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r6], {%r7}; bar.warp.sync -1; ld.shared.u32 %r9, [%r3];", counting(32));
  for (std::uint32_t t = 0; t < 32; ++t) { const std::uint32_t r = t / 4, c = 2 * (t % 4); CHECK(out[t] == ((8 * c + r) | ((8 * (c + 1) + r) << 16))); }
}

TEST_CASE("mma.sync multiplies and accumulates small tiles exactly") {
  // A is all ones (16x16), B all twos (16x8): every element of D is 32 plus the accumulator.
  const auto out = per_lane(R"(mov.u32 %r2, 0x3C003C00; mov.u32 %r3, 0x40004000; mov.f32 %f2, 0f3F800000;
      mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r2, %r2, %r2, %r2}, {%r3, %r3}, {%f2, %f2, %f2, %f2}; mov.b32 %r9, %f7;)", counting(32));
  for (std::uint32_t t = 0; t < 32; ++t) CHECK(real(out[t]) == 33.0F);
}
