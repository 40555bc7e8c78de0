// tcgen05 by one CTA and by a pair (pair.hpp), with its planted mistakes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "pair.hpp"
#include "support.hpp"

using namespace sim_test;

namespace {

std::vector<std::uint32_t> run_variant(const pair_variant& v, std::uint64_t seed = 1) {
  return run(pair_kernel(v), {0}, pair_setup(v, seed));
}
/// The fault on any of eight schedules.
std::string fault(const pair_variant& v) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) if (const std::string id = id_of([&] { run_variant(v, seed); }); !id.empty()) return id;
  return "";
}

}  // namespace

TEST_CASE("tcgen05.mma by one CTA and by a pair gives the product, each CTA its rows") {
  for (int pair = 1; pair <= 2; ++pair)
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto out = run_variant({.pair = pair}, seed);
      for (int row = 0; row < 128 * pair; ++row) {
        CAPTURE(pair);
        CAPTURE(row);
        const float a = static_cast<float>(row % 16);
        CHECK(real(out[static_cast<std::size_t>(row * 4)]) == a * 1.0F);       // column 0: 0 % 8 + 1
        CHECK(real(out[static_cast<std::size_t>(row * 4 + 1)]) == a * 2.0F);
        CHECK(real(out[static_cast<std::size_t>(row * 4 + 2)]) == a * 7.0F);   // column 62
        CHECK(real(out[static_cast<std::size_t>(row * 4 + 3)]) == a * 8.0F);
      }
    }
}

TEST_CASE("both CTAs of a pair allocate, by the book; a product that the odd one issues is legal and a lint") {
  const auto odd_lines = [](const pair_variant& v) {
    std::vector<std::string> lints;
    setup s = pair_setup(v);
    s.lints = &lints;
    run(pair_kernel(v), {0}, s);
    return std::count_if(lints.begin(), lints.end(), [](const std::string& l) { return l.find("by the odd CTA of the pair") != std::string::npos; });
  };
  CHECK(odd_lines({.pair = 2}) == 0);
  CHECK(odd_lines({.pair = 2, .issuer = 1}) == 2);  // the product and its commit
}

TEST_CASE("C39: of a tile of 64 columns each CTA of a pair holds the operand's half, and the product has both") {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto out = run_variant({.pair = 2, .more_b = "mad.lo.u32 %r8, %r1, 16, %r8;"}, seed);  // rows of B from the odd CTA: 16 more
    for (int row = 0; row < 256; ++row) {
      CAPTURE(row);
      const float a = static_cast<float>(row % 16);
      CHECK(real(out[static_cast<std::size_t>(row * 4)]) == a * 1.0F);
      CHECK(real(out[static_cast<std::size_t>(row * 4 + 1)]) == a * 2.0F);
      CHECK(real(out[static_cast<std::size_t>(row * 4 + 2)]) == a * 23.0F);  // columns 62 and 63 are the odd CTA's 30 and 31
      CHECK(real(out[static_cast<std::size_t>(row * 4 + 3)]) == a * 24.0F);
    }
  }
}

TEST_CASE("the mistakes around tcgen05 are found") {
  CHECK(fault({.fence = ""}) == "missing-proxy-fence");
  CHECK(fault({.wait = ""}) == "race");
  CHECK(fault({.enable = "1"}) == "uninitialized");
  CHECK(fault({.d_column = 32}) == "tmem-misuse");
  CHECK(fault({.n = 0}) == "illegal-shape");
  CHECK(fault({.pair = 2, .n = 24}) == "illegal-shape");
  CHECK(fault({.dealloc_columns = "32"}) == "tmem-misuse");
  CHECK(fault({.before_mma = "bra SKIP; SKIP: @%p4 st.shared.u32 [slot], 5;"}) != "missing-proxy-fence");
  CHECK(fault({.before_mma = "or.b64 %rd3, %rd3, 0x6000000000000000;"}) == "descriptor-misuse");
  CHECK(fault({.wait = "setp.ne.u32 %p8, %r0, 77; @!%p4 bra N; st.shared.u32 [a], 1; N: W: mbarrier.try_wait.parity.shared.b64 %p6, [bar], 0; @!%p6 bra W;"}) == "race");
}

TEST_CASE("a load or store of tensor memory that is not waited for is a race with what comes after") {
  const std::string zero = "shr.u32 %r30, %r0, 5; shl.b32 %r30, %r30, 21; add.u32 %r30, %r30, %r10; tcgen05.st.sync.aligned.32x32b.x2.b32 [%r30], {%r6, %r6};";
  CHECK(fault({.before_mma = zero + "tcgen05.wait::st.sync.aligned; bar.sync 0;"}) == "");
  CHECK(fault({.before_mma = zero + "bar.sync 0;"}) == "race");
  CHECK(fault({.before_mma = zero + "tcgen05.wait::st.sync.aligned;"}) == "race");  // no order to the thread that issues the MMA
  CHECK(fault({.before_mma = zero + "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r31}, [%r30]; tcgen05.wait::st.sync.aligned; tcgen05.wait::ld.sync.aligned; bar.sync 0;"}) == "race");
}

TEST_CASE("memory that is not freed, and a peer that is gone, are found") {
  CHECK(fault({.end = "bra END; END:"}) == "");
  setup s;
  s.target = "sm_100a";
  CHECK(id_of([&] { run(".shared .b32 slot; mov.u32 %r1, slot; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", {0}, s); }) == "tmem-misuse");
  s.target = "sm_90a";
  s.grid = s.cluster = 2;
  CHECK(id_of([&] { run(".shared .b32 x; st.shared.u32 [x], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 1; @%p1 ret; mov.u32 %r4, 0; L: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 20000; @%p2 bra L; mov.u32 %r2, x; mapa.shared::cluster.u32 %r2, %r2, 1; ld.shared::cluster.u32 %r3, [%r2];", {0}, s); }) == "peer-exited");
}

TEST_CASE("a multicast copy reaches every CTA of its mask and their own barriers") {
  const std::string body = R"(.shared .align 16 .b8 x[32]; .shared .align 8 .b64 b; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r1, 1; and.pred %p3, %p1, %p2; mov.u32 %r2, x; mov.u32 %r3, b; mov.u16 %rs1, 3;
    @%p1 mbarrier.init.shared.b64 [b], 1; @%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 32;
    @%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd1], 32, [%r3], %rs1;
    W: mbarrier.try_wait.parity.shared.b64 %p4, [b], 0; @!%p4 bra W;
    ld.shared.u32 %r4, [x+28]; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd2, %rd3; @%p1 st.global.u32 [%rd3], %r4;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)";
  setup s;
  s.grid = s.cluster = 2;
  s.out_words = 2;
  for (s.seed = 0; s.seed < 6; ++s.seed) {
    const auto out = run(body, {1, 2, 3, 4, 5, 6, 7, 88}, s);
    CHECK(out[0] == 88);
    CHECK(out[1] == 88);
  }
}

TEST_CASE("st.async writes a peer's memory and completes on the peer's barrier") {
  const std::string body = R"(.shared .align 16 .b8 x[32]; .shared .align 8 .b64 b; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r0, 0; xor.b32 %r5, %r1, 1; mov.u32 %r2, x; mov.u32 %r3, b; mapa.shared::cluster.u32 %r2, %r2, %r5; mapa.shared::cluster.u32 %r3, %r3, %r5; add.u32 %r6, %r1, 40;
    @%p1 mbarrier.init.shared.b64 [b], 1; @%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 8;
    @%p1 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r2], {%r6, %r1}, [%r3];
    W: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p4, [b], 0; @!%p4 bra W;
    ld.shared.u32 %r4, [x]; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd2, %rd3; @%p1 st.global.u32 [%rd3], %r4;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)";
  setup s;
  s.grid = s.cluster = 2;
  s.out_words = 2;
  for (s.seed = 0; s.seed < 6; ++s.seed) {
    const auto out = run(body, {1}, s);
    CHECK(out[0] == 41);
    CHECK(out[1] == 40);
  }
}

TEST_CASE("launch control hands each CTA of the grid out exactly once") {
  // Every CTA counts its own tile, then asks for more until none is left.
  const std::string body = R"(.shared .align 16 .b8 answer[16]; .shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; mov.u32 %r2, answer; mov.u32 %r3, b; mov.u32 %r4, %ctaid.x; mov.u32 %r5, 0;
    @%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0;
    NEXT: mul.wide.u32 %rd3, %r4, 4; add.s64 %rd3, %rd2, %rd3; @%p1 red.global.add.u32 [%rd3], 1;
    fence.proxy.async.shared::cta; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 16;
    @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r3];
    W: mbarrier.try_wait.parity.shared.b64 %p2, [b], %r5; @!%p2 bra W;
    xor.b32 %r5, %r5, 1;
    ld.shared.b128 %rq1, [answer];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %rq1;
    @!%p3 bra DONE;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r4, %rq1;
    bra NEXT;
    DONE:)";
  setup s;
  s.target = "sm_100a";
  s.grid = 37;
  s.out_words = 37;
  for (s.seed = 0; s.seed < 4; ++s.seed) {
    const auto out = run(body, {1}, s);
    for (const std::uint32_t n : out) CHECK(n == 0xEEEEEEEE + 1);
  }
}

TEST_CASE("wgmma registers are fenced before and waited for after") {
  // One m64n8k16 of zeros; the accumulator comes out as it went in.
  const auto kernel_of = [](const std::string& fence, const std::string& wait, const std::string& between) {
    return R"(.shared .align 128 .b8 a[4096]; mov.u32 %r1, a; mad.lo.u32 %r2, %r0, 16, %r1; mov.u32 %r3, 0; st.shared.v4.b32 [%r2], {%r3, %r3, %r3, %r3}; st.shared.v4.b32 [%r2+2048], {%r3, %r3, %r3, %r3};
      fence.proxy.async.shared::cta; bar.sync 0;
      mov.f32 %f1, 0f40400000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; setp.eq.u32 %p1, 1, 1;
      shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd3, %r1; or.b64 %rd3, %rd3, 0x0000001000080000;)" + fence +
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd3, %rd3, %p1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;" + between + wait +
           "mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd2, %rd4; st.global.f32 [%rd4], %f4;";
  };
  setup s;
  s.threads = 128;
  s.out_words = 128;
  const std::string fence = "wgmma.fence.sync.aligned;", wait = "wgmma.wait_group.sync.aligned 0;";
  CHECK(real(run(kernel_of(fence, wait, ""), {0}, s)[77]) == 3.0F);
  CHECK(id_of([&] { run(kernel_of("", wait, ""), {0}, s); }) == "race");
  CHECK(id_of([&] { run(kernel_of(fence, "", ""), {0}, s); }) == "race");
  CHECK(id_of([&] { run(kernel_of(fence, wait, "mov.f32 %f2, 0f00000000;"), {0}, s); }) == "race");
  CHECK(id_of([&] { run(kernel_of(fence, wait, "st.shared.u32 [a], 0;"), {0}, s); }) == "race");  // an operand is overwritten while it may still be read
}
