// Several threads give what one gives: values, faults, lints and counts, for clusters that share nothing and for those that do.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "support.hpp"

using namespace sim_test;

namespace {

struct outcome {
  std::vector<std::uint32_t> out;
  std::string error;
  std::uint64_t instructions = 0, lanes = 0;
  std::vector<std::string> lints, printed;
  bool operator==(const outcome&) const = default;
};
outcome run_on(int threads, const std::string& body, std::uint64_t seed, unsigned grid = 24, unsigned cluster = 1, std::size_t words = 1024) {
  setup s;
  tlx::sim::options o;
  o.seed = seed;
  o.threads = threads;
  auto m = tlx::sim::open(s.target, o);
  const auto a = m->allocate(4 * words), b = m->allocate(4 * words);
  std::vector<std::uint32_t> in(words);
  for (std::size_t k = 0; k < words; ++k) in[k] = static_cast<std::uint32_t>(k);
  m->write(a, in.data(), 4 * words);
  m->fill(b, 0, 4 * words);
  const auto code = m->load({.ptx = module_text(body, s), .cubin = {}});
  tlx::device::launch l;
  l.grid = {grid, 1, 1};
  l.block = {32, 1, 1};
  l.cluster = {cluster, 1, 1};
  l.arguments = {tlx::device::scalar<std::uint64_t>(a), tlx::device::scalar<std::uint64_t>(b)};
  outcome r;
  try { m->run(*code, "k", l); } catch (const tlx::error& e) { r.error = e.what(); }
  r.out.resize(words);
  m->read(r.out.data(), b, 4 * words);
  r.instructions = m->last_run().warp_instructions;
  r.lanes = m->last_run().lane_instructions;
  r.lints = m->last_run().lints;
  r.printed = m->last_run().printed;
  return r;
}

const std::string own_place = "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 32, %r0; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3; ld.global.u32 %r3, [%rd4];";

void same(const std::string& body, unsigned grid = 24, unsigned cluster = 1, std::uint64_t seeds = 6) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const outcome one = run_on(1, body, seed, grid, cluster);
    for (const int threads : {2, 3, 8}) CHECK(run_on(threads, body, seed, grid, cluster) == one);
  }
}

}  // namespace

TEST_CASE("clusters that share nothing: values that depend on the schedule, the number of instructions, and lints are the same") {
  // The sum in shared memory takes the lanes' and warps' order, which the seed picks.
  same(own_place + ".shared .align 4 .f32 x; setp.eq.u32 %p1, %r0, 0; mov.f32 %f1, 0f00000000; @%p1 st.shared.f32 [x], %f1; bar.sync 0; cvt.rn.f32.u32 %f2, %r3; mul.f32 %f2, %f2, 0f3DCCCCCD; rcp.approx.f32 %f2, %f2; add.f32 %f2, %f2, 0f3F800000; atom.shared.add.f32 %f3, [x], %f2; bar.sync 0; ld.shared.f32 %f4, [x]; add.f32 %f4, %f4, %f3; st.global.f32 [%rd5], %f4;");
  same(own_place + "mapa.shared::cluster.u32 %r4, 0, 0; .shared .b32 y; st.shared.u32 [y], %r3; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r5, y; mov.u32 %r6, %cluster_ctarank; xor.b32 %r6, %r6, 1; mapa.shared::cluster.u32 %r5, %r5, %r6; ld.shared::cluster.u32 %r7, [%r5]; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r8, %smid; mad.lo.u32 %r7, %r7, 1000, %r8; st.global.u32 [%rd5], %r7;", 24, 2);
  same(own_place + ".shared .align 8 .b64 b; .shared .align 16 .b8 d[128]; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0; mov.u32 %r5, d; mov.u32 %r6, b; @%p1 mbarrier.arrive.expect_tx.shared.b64 %rd7, [b], 128; @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd4], 128, [%r6]; W: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra W; mad.lo.u32 %r7, %r0, 4, %r5; ld.shared.u32 %r8, [%r7]; add.u32 %r8, %r8, 1; st.shared.u32 [%r7], %r8; fence.proxy.async.shared::cta; bar.sync 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r5], 128; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;");
}

TEST_CASE("clusters that meet in global memory: the launch is taken back and run on one thread") {
  same("mov.u32 %r1, %ctaid.x; cvt.rn.f32.u32 %f1, %r1; rcp.approx.f32 %f1, %f1; red.global.add.f32 [%rd2], %f1;");                     // known from the code
  same("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r0, 0; @!%p1 bra E; ld.global.u32 %r2, [%rd2]; add.u32 %r2, %r2, %r1; mul.lo.u32 %r2, %r2, 3; st.global.u32 [%rd2], %r2; E: st.global.u32 [%rd2+128], %r1;");  // found out while it runs
  same(own_place + "atom.global.add.u32 %r5, [%rd2+2048], 1; st.global.u32 [%rd5], %r5;");                                                // tickets
  // A flag that a later CTA sets and an earlier one waits for.
  same("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra SET; W: ld.acquire.gpu.global.u32 %r2, [%rd2]; setp.eq.u32 %p2, %r2, 0; @%p2 bra W; bra E; SET: st.release.gpu.global.u32 [%rd2], 7; E: mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4+512], %r1;", 2, 1, 1);
}

TEST_CASE("a fault is the one that one thread finds, and what was written before it is the same") {
  for (const char* bad : {"setp.eq.u32 %p1, %r1, 17; @%p1 trap;", "setp.gt.u32 %p1, %r1, 15; mov.u64 %rd9, 64; @%p1 ld.global.u32 %r9, [%rd9];", ".shared .b32 z; ld.shared.u32 %r9, [z]; st.global.u32 [%rd5+4], %r9;"}) {
    same(own_place + "st.global.u32 [%rd5], %r3;" + bad);
    CHECK(!run_on(4, own_place + bad, 1).error.empty());
  }
}
