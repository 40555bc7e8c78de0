// Mistakes that users of tiled-kernel systems have reported (their numbers in the names), as small kernels: the right one passes on every policy of order,
// the wrong one is reported with the place.
#include <doctest/doctest.h>

#include "support.hpp"

using namespace sim_test;

namespace {

struct verdict { std::string id, text; std::vector<std::uint32_t> out; };

verdict once(const std::string& body, setup s, const std::vector<std::uint32_t>& in, const std::string& before) {
  verdict v;
  try {
    v.out = run_module(module_text(body, s, before), in, s);
  } catch (const tlx::error& e) {
    v.id = e.id();
    v.text = e.what();
  }
  return v;
}
/// The first fault among 32 schedules; without one, the result, which every schedule must give.
verdict all_schedules(const std::string& body, setup s, const std::vector<std::uint32_t>& in, const std::string& before = {}) {
  verdict first;
  for (s.seed = 0; s.seed < 32; ++s.seed) {
    verdict v = once(body, s, in, before);
    if (!v.id.empty()) return v;
    if (s.seed == 0) first = v;
    else if (v.out != first.out) return {"differs", "two schedules differ", {}};
  }
  return first;
}
bool says(const verdict& v, const std::string& part) { return v.text.find(part) != std::string::npos; }
std::string number(std::uint32_t n) { return std::to_string(n); }

// A ring of three slots of 128 bytes: thread 0 fills it by bulk copies, warp 1 adds up what arrives. In shared memory: slots, then full, then empty barriers.
struct ring {
  std::uint32_t tiles = 7, empty_count = 1;
  bool arrive = true, flip = true, right_stage = true;

  std::string text() const {
    const std::string next = " add.u32 %r10, %r10, 1; add.u32 %r11, %r11, 1; setp.eq.u32 %p6, %r11, 3; selp.b32 %r11, 0, %r11, %p6; selp.b32 %r13, 1, 0, %p6;";
    const std::string places = " shl.b32 %r14, %r11, 3; add.u32 %r15, %r1, %r14; shl.b32 %r16, %r11, 7; add.u32 %r17, %r1, %r16;";
    return "mov.u32 %r1, dyn; setp.eq.u32 %p1, %r0, 0; mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r20, 0;\n@!%p1 bra READY;\n" + init() +
           "\nREADY: bar.sync 0; setp.ge.u32 %p2, %r0, 32; @%p2 bra CONSUMER; @!%p1 bra DONE;\n"
           "PRODUCER: setp.ge.u32 %p5, %r10, " + number(tiles) + "; @%p5 bra DONE;" + places + " xor.b32 %r18, %r12, 1;\n"
           "W1: mbarrier.try_wait.parity.shared.b64 %p3, [%r15+408], %r18;\n@!%p3 bra W1;\n"
           "add.u32 %r19, %r15, 384; mbarrier.arrive.expect_tx.shared.b64 _, [%r19], 128; mul.wide.u32 %rd3, %r10, 128; add.s64 %rd4, %rd1, %rd3;\n"
           "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r17], [%rd4], 128, [%r19];\n" + next + " xor.b32 %r12, %r12, %r13; bra PRODUCER;\n"
           "CONSUMER: and.b32 %r2, %r0, 31; shl.b32 %r2, %r2, 2;\n"
           "LOOP: setp.ge.u32 %p5, %r10, " + number(tiles) + "; @%p5 bra STORE;" + places + "\n" +
           (right_stage ? "mov.u32 %r21, %r15;" : "add.u32 %r21, %r11, 1; setp.eq.u32 %p7, %r21, 3; selp.b32 %r21, 0, %r21, %p7; shl.b32 %r21, %r21, 3; add.u32 %r21, %r1, %r21;") +
           "\nW2: mbarrier.try_wait.parity.shared.b64 %p3, [%r21+384], %r12;\n@!%p3 bra W2;\n"
           "add.u32 %r22, %r17, %r2; ld.shared.u32 %r23, [%r22]; add.u32 %r20, %r20, %r23;\nbar.warp.sync -1;\nsetp.eq.u32 %p8, %r2, 0;\n" +
           (arrive ? "@%p8 mbarrier.arrive.shared.b64 _, [%r15+408];\n" : "\n") + next + (flip ? " xor.b32 %r12, %r12, %r13;" : "") + " bra LOOP;\n"
           "STORE: cvt.u64.u32 %rd5, %r2; add.s64 %rd6, %rd2, %rd5; st.global.u32 [%rd6], %r20;\nDONE:";
  }
  std::string init() const {
    std::string all;
    for (int k = 0; k < 3; ++k) all += "mbarrier.init.shared.b64 [%r1+" + number(384 + 8 * k) + "], 1; mbarrier.init.shared.b64 [%r1+" + number(408 + 8 * k) + "], " + number(empty_count) + ";";
    return all;
  }
  verdict tried() const {
    std::vector<std::uint32_t> in(32 * 8);
    for (std::uint32_t k = 0; k < in.size(); ++k) in[k] = k / 32 * 100 + k % 32;
    return all_schedules(text(), {.threads = 64, .dynamic_shared = 432, .out_words = 32}, in,
                         "// tlx.ring name=\"tiles\" which=full offset=384 bytes=8 stages=3\n// tlx.ring name=\"tiles\" which=empty offset=408 bytes=8 stages=3\n// tlx.ring name=\"tiles\" which=slots offset=0 bytes=128 stages=3\n"
                         "// tlx.role name=\"load\" warps=0..0\n// tlx.role name=\"add\" warps=1..1\n.extern .shared .align 128 .b8 dyn[];\n");
  }
};

}  // namespace

TEST_CASE("C25: a ring that bulk copies fill ends with the right sum for every number of tiles around its slots") {
  for (const std::uint32_t tiles : {1U, 2U, 3U, 4U, 6U, 7U}) {
    CAPTURE(tiles);
    const verdict v = ring{.tiles = tiles}.tried();
    CHECK(v.text == "");
    REQUIRE(v.out.size() == 32);
    CHECK(v.out[5] == tiles * 5 + 100 * (tiles * (tiles - 1) / 2));
  }
}

TEST_CASE("C31: four mistakes in a ring of three slots are told with barrier, waiter and phase") {
  for (const std::uint32_t tiles : {1U, 3U, 4U, 7U}) {
    CAPTURE(tiles);
    // Up to three tiles nobody waits for a slot to be free again.
    const bool wraps = tiles > 3;
    for (const ring& r : {ring{.tiles = tiles, .arrive = false}, ring{.tiles = tiles, .empty_count = 2}}) {
      const verdict v = r.tried();
      if (!wraps) { CHECK(v.text == ""); continue; }
      CHECK(v.id == "deadlock");
      CHECK(says(v, "role \"load\" wait"));
      CHECK(says(v, "for phase 0 of the"));
      CHECK(says(v, "empty barrier of slot 0 of ring \"tiles\""));
      CHECK(says(v, r.arrive ? "1 of 2 arrivals pending" : "1 of 1 arrivals pending"));
    }
    const verdict phase = ring{.tiles = tiles, .flip = false}.tried();
    CHECK((wraps ? phase.id == "race" || phase.id == "deadlock" : phase.text.empty()));
    if (wraps) CHECK(says(phase, "of ring \"tiles\""));
    const verdict stage = ring{.tiles = tiles, .right_stage = false}.tried();
    CHECK((stage.id == "race" || stage.id == "deadlock"));
    CHECK(says(stage, "of ring \"tiles\""));
  }
}

TEST_CASE("C28: tiles that leave through one staging buffer need a proxy fence before and a wait for the read after") {
  const auto waves = [](const std::string& fence, const std::string& wait) {
    return ".shared .align 128 .b8 x[128]; mov.u32 %r1, x; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; setp.eq.u32 %p1, %r0, 0; mov.u32 %r10, 0;\n"
           "WAVE: mad.lo.u32 %r4, %r10, 100, %r0; st.shared.u32 [%r3], %r4;\n" + fence + "\nbar.warp.sync -1; mul.wide.u32 %rd3, %r10, 128; add.s64 %rd4, %rd2, %rd3;\n"
           "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r1], 128; @%p1 cp.async.bulk.commit_group;\n" + wait + "\nbar.warp.sync -1;\n"
           "add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 4; @%p2 bra WAVE; @%p1 cp.async.bulk.wait_group.read 0;";
  };
  const std::string fence = "fence.proxy.async.shared::cta;", wait = "@%p1 cp.async.bulk.wait_group.read 0;";
  const setup s{.threads = 32, .out_words = 128};
  const verdict right = all_schedules(waves(fence, wait), s, {0});
  CHECK(right.text == "");
  REQUIRE(right.out.size() == 128);
  CHECK(right.out[3 * 32 + 7] == 307);
  CHECK(all_schedules(waves("", wait), s, {0}).id == "missing-proxy-fence");
  CHECK(all_schedules(waves(fence, ""), s, {0}).id == "race");
  CHECK(all_schedules(waves(fence, "@%p1 cp.async.bulk.wait_group.read 1;"), s, {0}).id == "race");
}

TEST_CASE("C34: a copy that one thread starts completes a barrier for all, when all arrive") {
  const auto copy = [](const std::string& who) {
    return ".shared .align 128 .b8 x[128]; .shared .align 8 .b64 b; mov.u32 %r1, x; mov.u32 %r2, b; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 32; bar.sync 0;\n"
           "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 128; @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 128, [%r2];\n" + who +
           "mbarrier.arrive.shared.b64 _, [b];\nW: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra W;\n"
           "shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3; ld.shared.u32 %r5, [%r4]; cvt.u64.u32 %rd3, %r3; add.s64 %rd4, %rd2, %rd3; st.global.u32 [%rd4], %r5;";
  };
  std::vector<std::uint32_t> in(32);
  for (std::uint32_t k = 0; k < 32; ++k) in[k] = 3 * k;
  const verdict right = all_schedules(copy(""), {.threads = 32}, in);
  CHECK(right.text == "");
  CHECK(right.out == in);
  const verdict wrong = all_schedules(copy("@%p1 "), {.threads = 32}, in);  // the count says 32, one thread arrives
  CHECK(wrong.id == "deadlock");
  CHECK(says(wrong, "31 of 32 arrivals pending"));
}

TEST_CASE("C35: a pipeline of cp.async whose length depends on the CTA drains by waiting for all") {
  const auto loop = [](const std::string& drain) {
    // CTA k adds up k + 1 tiles of 128 bytes, two in flight.
    return ".shared .align 128 .b8 x[256]; mov.u32 %r1, x; shl.b32 %r2, %r0, 2; mov.u32 %r3, %ctaid.x; add.u32 %r3, %r3, 1; mov.u32 %r10, 0; mov.u32 %r20, 0;\n"
           "LOOP: setp.ge.u32 %p1, %r10, %r3; @%p1 bra DRAIN; and.b32 %r4, %r10, 1; shl.b32 %r4, %r4, 7; add.u32 %r5, %r1, %r4; add.u32 %r5, %r5, %r2; mul.wide.u32 %rd3, %r10, 128; add.s64 %rd4, %rd1, %rd3; cvt.u64.u32 %rd5, %r2; add.s64 %rd4, %rd4, %rd5;\n"
           "cp.async.ca.shared.global [%r5], [%rd4], 4; cp.async.commit_group; setp.eq.u32 %p2, %r10, 0; @%p2 bra NEXT;\n"
           "cp.async.wait_group 1; xor.b32 %r6, %r4, 128; add.u32 %r6, %r6, %r1; add.u32 %r6, %r6, %r2; ld.shared.u32 %r7, [%r6]; add.u32 %r20, %r20, %r7;\n"
           "NEXT: add.u32 %r10, %r10, 1; bra LOOP;\nDRAIN: " + drain + " ld.shared.u32 %r7, [%r5]; add.u32 %r20, %r20, %r7;\n"
           "mov.u32 %r8, %ctaid.x; mad.lo.u32 %r8, %r8, 32, %r0; mul.wide.u32 %rd6, %r8, 4; add.s64 %rd7, %rd2, %rd6; st.global.u32 [%rd7], %r20;";
  };
  std::vector<std::uint32_t> in(32 * 5);
  for (std::uint32_t k = 0; k < in.size(); ++k) in[k] = k;
  const setup s{.threads = 32, .grid = 5, .out_words = 160};
  const verdict right = all_schedules(loop("cp.async.wait_all;"), s, in);
  CHECK(right.text == "");
  REQUIRE(right.out.size() == 160);
  for (std::uint32_t c = 0; c < 5; ++c) CHECK(right.out[c * 32 + 3] == (c + 1) * 3 + 32 * (c * (c + 1) / 2));
  CHECK(all_schedules(loop("cp.async.wait_group 1;"), s, in).id == "race");
}

TEST_CASE("C37: a pair of CTAs that shares tensor memory stays until both have it") {
  const auto pair = [](const std::string& between) {
    return ".shared .align 8 .b32 x; mov.u32 %r1, x; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 64; bar.sync 0; ld.shared.u32 %r2, [x]; " + between +
           " tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, 64;";
  };
  const setup s{.target = "sm_100a", .threads = 32, .grid = 2, .cluster = 2};
  CHECK(all_schedules(pair("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"), s, {0}).text == "");
  const verdict wrong = all_schedules(pair(""), s, {0});  // one frees and leaves before the other has started
  CHECK(wrong.id == "peer-exited");
  CHECK(says(wrong, "tcgen05.alloc"));
}

TEST_CASE("C83: minimum, maximum and reductions have one rule for NaN, wherever it stands") {  // C48 too
  const std::uint32_t nan = 0x7FC00000U;
  for (const bool first : {true, false}) {
    const std::uint32_t a = first ? nan : bits(6), b = first ? bits(6) : nan;
    CHECK(real(of("max.f32 %f4, %f1, %f2; mov.b32 %r9, %f4;", a, b)) == 6);
    CHECK(real(of("min.f32 %f4, %f1, %f2; mov.b32 %r9, %f4;", a, b)) == 6);
    CHECK(of("max.NaN.f32 %f4, %f1, %f2; mov.b32 %r9, %f4;", a, b) == 0x7FFFFFFFU);
    CHECK(of("min.NaN.f32 %f4, %f1, %f2; mov.b32 %r9, %f4;", a, b) == 0x7FFFFFFFU);
  }
  for (std::uint32_t at = 0; at < 32; at += 31) {
    std::vector<std::uint32_t> in(32);
    for (std::uint32_t k = 0; k < 32; ++k) in[k] = k == at ? nan : bits(static_cast<float>(k) - 10);
    const setup s{.target = "sm_100a"};
    CHECK(per_lane("redux.sync.max.f32 %f4, %f1, 0xffffffff; mov.b32 %r9, %f4;", in, s)[3] == bits(at == 31 ? 20.0F : 21.0F));
    CHECK(per_lane("redux.sync.max.NaN.f32 %f4, %f1, 0xffffffff; mov.b32 %r9, %f4;", in, s)[3] == 0x7FFFFFFFU);
  }
}

TEST_CASE("C84: a masked access at the end of a buffer reads its own elements, the rest keeps what it had") {
  std::vector<std::uint32_t> in{10, 11, 12, 13, 14, 15, 16, 17};
  const std::vector<std::uint32_t> out = run("add.u32 %r1, %r0, 3; mov.u32 %r2, -1; setp.lt.u32 %p1, %r1, 8; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; @%p1 ld.global.u32 %r2, [%rd4]; mul.wide.u32 %rd5, %r0, 4; add.s64 %rd6, %rd2, %rd5; st.global.u32 [%rd6], %r2;",
                                             in, {.threads = 8});
  CHECK(out == std::vector<std::uint32_t>{13, 14, 15, 16, 17, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU});
}
