#include <doctest/doctest.h>

#include <numeric>

#include "support.hpp"

using namespace sim_test;

namespace {
std::vector<std::uint32_t> counting(std::size_t n) { std::vector<std::uint32_t> v(n); std::iota(v.begin(), v.end(), 0U); return v; }
}  // namespace

TEST_CASE("lanes that diverge meet again at the post-dominator") {
  // Odd lanes take one side, even lanes the other; activemask behind the join is full again.
  const auto out = per_lane(R"(
    and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1;
    @%p1 bra ODD;
    mov.u32 %r3, 100; bra.uni JOIN;
    ODD: mov.u32 %r3, 200;
    JOIN: activemask.b32 %r4; setp.eq.u32 %p2, %r4, 0xFFFFFFFF; selp.u32 %r5, 1, 0, %p2; add.u32 %r9, %r3, %r5;)", counting(32));
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == (l % 2 ? 201 : 101));
}

TEST_CASE("a loop runs as often as each lane asks") {
  const auto out = per_lane(R"(
    mov.u32 %r2, 0; mov.u32 %r9, 0;
    LOOP: setp.ge.u32 %p1, %r2, %r1; @%p1 bra DONE;
    add.u32 %r9, %r9, %r2; add.u32 %r2, %r2, 1; bra LOOP;
    DONE:)", counting(32));
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == l * (l - 1) / 2);
}

TEST_CASE("nested divergence, early exit and predicated returns keep the other lanes going") {
  const auto out = per_lane(R"(
    mov.u32 %r9, 7; st.global.u32 [%rd5], %r9;
    setp.lt.u32 %p1, %r1, 8; @%p1 ret;
    setp.lt.u32 %p2, %r1, 16; @%p2 bra A;
    setp.lt.u32 %p3, %r1, 24; @%p3 bra B;
    mov.u32 %r9, 3; bra C;
    B: mov.u32 %r9, 2; bra C;
    A: mov.u32 %r9, 1;
    C: add.u32 %r9, %r9, 10;)", counting(32));
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == (l < 8 ? 7 : l < 16 ? 11 : l < 24 ? 12 : 13));
}

TEST_CASE("a lane may wait for its siblings: both sides of a branch make progress") {
  // Lane 0 spins on a flag that lane 1 sets only behind its own side of the branch.
  const std::string body = R"(
    .shared .align 4 .b32 flag;
    setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [flag], 0; bar.warp.sync 0xFFFFFFFF;
    @%p1 bra WAIT;
    st.volatile.shared.u32 [flag], 5; bra JOIN;
    WAIT: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;
    JOIN: ld.volatile.shared.u32 %r9, [flag];)";
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    setup s;
    s.seed = seed;
    const auto out = per_lane(body, counting(32), s);
    CHECK(out[0] == 5);
  }
}

TEST_CASE("brx.idx jumps through its table, each lane to its own target") {
  const auto out = per_lane(R"(
    T: .branchtargets L0, L1, L2;
    rem.u32 %r2, %r1, 3;
    brx.idx %r2, T;
    L0: mov.u32 %r9, 10; bra E;
    L1: mov.u32 %r9, 11; bra E;
    L2: mov.u32 %r9, 12;
    E: activemask.b32 %r4; setp.ne.u32 %p1, %r4, 0xFFFFFFFF; @%p1 mov.u32 %r9, 0;)", counting(32));
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == 10 + l % 3);
}

TEST_CASE("functions are called with their own parameters, also by some lanes only") {
  const std::string square = R"(.func (.param .b32 result) square(.param .b32 x)
{ .reg .b32 %a<3>; .reg .pred %q; ld.param.b32 %a1, [x]; setp.lt.u32 %q, %a1, 4; @%q bra SMALL; mul.lo.u32 %a2, %a1, %a1; st.param.b32 [result], %a2; ret; SMALL: st.param.b32 [result], %a1; ret; }
)";
  const std::string body = R"(mul.wide.u32 %rd3, %r0, 4; add.s64 %rd5, %rd2, %rd3; mov.u32 %r9, 1;
    setp.ge.u32 %p1, %r0, 2;
    @!%p1 bra SKIP;
    { .param .b32 a0; .param .b32 r0_; st.param.b32 [a0], %r0; call.uni (r0_), square, (a0); ld.param.b32 %r9, [r0_]; }
    SKIP: st.global.u32 [%rd5], %r9;)";
  setup s;
  s.out_words = 32;
  const auto out = run_module(module_text(body, s, square), {}, s);
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == (l < 2 ? 1 : l < 4 ? l : l * l));
}

TEST_CASE("shuffles read the lane that PTX names and tell whether it was in range") {
  auto out = per_lane("shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", counting(32));
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == (l ^ 1U));
  out = per_lane("shfl.sync.up.b32 %r9|%p1, %r1, 3, 0, -1; @!%p1 mov.u32 %r9, 99;", counting(32));
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == (l >= 3 ? l - 3 : 99));
  out = per_lane("shfl.sync.idx.b32 %r9, %r1, 5, 0x181F, -1;", counting(32));  // segments of 8
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == l / 8 * 8 + 5);
  out = per_lane("shfl.sync.down.b32 %r9, %r1, 4, 31, -1;", counting(32));
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(out[l] == (l + 4 < 32 ? l + 4 : l));
}

TEST_CASE("votes, matches, reductions and election agree over the warp") {
  CHECK(per_lane("setp.gt.u32 %p1, %r1, 27; vote.sync.ballot.b32 %r9, %p1, -1;", counting(32))[3] == 0xF0000000);
  CHECK(per_lane("setp.gt.u32 %p1, %r1, 27; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2;", counting(32))[0] == 1);
  CHECK(per_lane("setp.gt.u32 %p1, %r1, 27; vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r9, 1, 0, %p2;", counting(32))[0] == 0);
  CHECK(per_lane("and.b32 %r2, %r1, 3; match.any.sync.b32 %r9, %r2, -1;", counting(32))[5] == 0x22222222);
  CHECK(per_lane("redux.sync.add.u32 %r9, %r1, -1;", counting(32))[9] == 496);
  CHECK(per_lane("sub.u32 %r1, 5, %r1; redux.sync.min.s32 %r9, %r1, -1;", counting(32))[9] == static_cast<std::uint32_t>(-26));
  const auto out = per_lane("elect.sync %r2|%p1, -1; selp.u32 %r9, 1, 0, %p1;", counting(32));
  CHECK(std::accumulate(out.begin(), out.end(), 0U) == 1);
}

TEST_CASE("named barriers with counts join the warps they count") {
  // Warps 0 and 1 meet at barrier 3 (64 threads); warp 2 only arrives at barrier 4, warp 3 waits for it there.
  const std::string body = R"(
    .shared .align 4 .b32 cell[4];
    shr.u32 %r2, %r0, 5; and.b32 %r3, %r0, 31; setp.eq.u32 %p1, %r3, 0; mul.lo.u32 %r4, %r2, 4; mov.u32 %r5, cell; add.u32 %r6, %r5, %r4;
    @%p1 st.shared.u32 [%r6], %r2;
    setp.lt.u32 %p2, %r2, 2; @!%p2 bra HIGH;
    bar.sync 3, 64; xor.b32 %r7, %r4, 4; add.u32 %r7, %r5, %r7; ld.shared.u32 %r9, [%r7]; bra STORE;
    HIGH: setp.eq.u32 %p3, %r2, 2; mov.u32 %r9, 50; @%p3 bar.arrive 4, 64; @%p3 bra STORE;
    bar.sync 4, 64; ld.shared.u32 %r9, [cell+8];
    STORE: mul.wide.u32 %rd3, %r0, 4; add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r9;)";
  setup s;
  s.threads = 128;
  s.out_words = 128;
  for (s.seed = 0; s.seed < 6; ++s.seed) {
    const auto out = run(body, {}, s);
    CHECK(out[0] == 1);
    CHECK(out[40] == 0);
    CHECK(out[70] == 50);
    CHECK(out[100] == 2);
  }
}

TEST_CASE("bar.red counts the predicate over the CTA") {
  setup s;
  s.threads = 96;
  s.out_words = 96;
  const auto out = run("setp.lt.u32 %p1, %r0, 40; bar.red.popc.u32 %r9, 0, %p1; bar.red.or.pred %p2, 0, %p1; @%p2 add.u32 %r9, %r9, 1000; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r9;", {}, s);
  CHECK(out[0] == 1040);
  CHECK(out[95] == 1040);
}

TEST_CASE("special registers name the thread, the CTA and the cluster") {
  setup s;
  s.grid = 4;
  s.cluster = 2;
  s.threads = 64;
  s.out_words = 4 * 64;
  const auto out = run(R"(mov.u32 %r1, %ctaid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %clusterid.x; mov.u32 %r4, %warpid; mov.u32 %r5, %laneid; mov.u32 %r6, %ntid.x;
    mul.lo.u32 %r9, %r2, 10; add.u32 %r9, %r9, %r3; mul.lo.u32 %r9, %r9, 100; mad.lo.u32 %r9, %r4, 32, %r9; add.u32 %r9, %r9, %r5;
    mad.lo.u32 %r7, %r1, %r6, %r0; mul.wide.u32 %rd3, %r7, 4; add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r9;)", {}, s);
  CHECK(out[3 * 64 + 33] == 1133);  // CTA 3: rank 1 of cluster 1; thread 33
  CHECK(out[0] == 0);
}
