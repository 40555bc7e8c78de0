// What a report says besides its kind: the lines that lead to the mistake. Each kernel is wrong in one place, and the report has to name it, on every policy
// of order; its right twin runs.
#include <doctest/doctest.h>

#include <algorithm>

#include "support.hpp"

using namespace sim_test;

namespace {

struct wrong_kernel {
  std::string body, before = {};
  setup how = {};
  unsigned registers = 0;  // of a thread at the start; 0: not said
  std::string text() const {
    std::string all = module_text(body, how, before);
    if (registers) all.replace(all.find(")\n{"), 3, ") .maxntid " + std::to_string(how.threads) + " .minnctapersm 1 .maxnreg " + std::to_string(registers) + "\n{");
    return all;
  }
  /// "ptx line N" of the only line that has `part`.
  std::string line(const std::string& part) const {
    const std::string all = text();
    const std::size_t at = all.find(part);
    REQUIRE(at != std::string::npos);
    REQUIRE(all.find(part, all.find('\n', at)) == std::string::npos);
    return "ptx line " + std::to_string(1 + std::count(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  }
};

struct told { std::string id, text; };

told once(const wrong_kernel& k, std::uint64_t seed) {
  setup s = k.how;
  s.seed = seed;
  try {
    run_module(k.text(), std::vector<std::uint32_t>(64, 7), s);
  } catch (const tlx::error& e) {
    return {e.id(), e.what()};
  }
  return {};
}
bool says(const told& t, const std::string& part) { return t.text.find(part) != std::string::npos; }

/// How many of 24 seeds in a row end with `id` and a report that has all of `parts`.
int named(const wrong_kernel& k, const std::string& id, const std::vector<std::string>& parts) {
  int all = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const told t = once(k, seed);
    CAPTURE(t.text);
    CHECK(t.id == id);
    all += std::all_of(parts.begin(), parts.end(), [&](const std::string& p) { return says(t, p); });
  }
  return all;
}

}  // namespace

TEST_CASE("a fence that comes after the signal is named: it orders nothing for whoever has waited for the signal") {
  // Warp 1 writes and signals; warp 0 waits and stores what was written.
  const auto kernel = [](const std::string& first, const std::string& second) {
    return wrong_kernel{.body = ".shared .align 128 .b8 x[128]; .shared .align 8 .b64 b; mov.u32 %r1, x; and.b32 %r2, %r0, 31; shl.b32 %r2, %r2, 2; add.u32 %r3, %r1, %r2; setp.lt.u32 %p1, %r0, 32; setp.eq.u32 %p2, %r0, 0;\n"
                                "@%p2 mbarrier.init.shared.b64 [b], 32;\nbar.sync 0; @%p1 bra STORE;\n"
                                "st.shared.u32 [%r3], %r0;\n" + first + "\n" + second + "\nbra DONE;\n"
                                "STORE: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0; @!%p3 bra STORE; @!%p2 bra DONE;\n"
                                // The writer gets on meanwhile.
                                "mov.u32 %r4, 0;\nMORE: add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 20000; @%p4 bra MORE;\n"
                                "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 128;\ncp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nDONE:",
                        .how = {.threads = 64}};
  };
  const std::string fence = "fence.proxy.async.shared::cta;", signal = "mbarrier.arrive.shared.b64 _, [b];";
  CHECK(named(kernel(fence, signal), "", {}) == 24);
  const wrong_kernel none = kernel("", signal), late = kernel(signal, fence);
  CHECK(named(none, "missing-proxy-fence", {"was written by warp 1 through the generic proxy (" + none.line("st.shared") + ")", none.line("cp.async.bulk.global") + " "}) == 24);
  CHECK(named(none, "missing-proxy-fence", {"came after the write"}) == 0);
  CHECK(named(late, "missing-proxy-fence", {"was written by warp 1 through the generic proxy (" + late.line("st.shared") + ")"}) == 24);
  // Named where it has been executed by then, which it has on most policies.
  CHECK(named(late, "missing-proxy-fence", {"the fence of " + late.line("fence.proxy") + " came after the write"}) >= 12);
}

TEST_CASE("a deadlock's report says who waits where, what has signalled, and where the others ended") {
  const std::string notes = "// tlx.ring name=\"ab\" which=full offset=16 bytes=8 stages=3\n// tlx.role name=\"load\" warps=0..0\n// tlx.role name=\"use\" warps=1..2\n.extern .shared .align 16 .b8 dyn[];\n";
  const auto kernel = [&](const std::string& count) {
    return wrong_kernel{.body = "setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 32; mov.u32 %r1, dyn; mov.u32 %r2, 0;\n@%p1 mbarrier.init.shared.b64 [%r1+24], " + count + ";\nbar.sync 0; @!%p2 bra WAIT;\n"
                                "@%p1 mbarrier.arrive.shared.b64 _, [%r1+24]; // signals\n"
                                "exit;  // the role ends\n"
                                "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r1+24], 0;\n@!%p3 bra WAIT;",
                        .before = notes, .how = {.threads = 96, .dynamic_shared = 64}};
  };
  CHECK(named(kernel("1"), "", {}) == 24);
  const wrong_kernel wrong = kernel("2");
  CHECK(named(wrong, "deadlock", {"2 warps (first: 1) role \"use\" wait (" + wrong.line("try_wait") + ") for phase 0 of the mbarrier at shared offset 1048 (full barrier of slot 1 of ring \"ab\"): phase 0, 1 of 2 arrivals pending",
                                  "in this phase signalled at " + wrong.line("// signals"), "ended: role \"load\" (" + wrong.line("// the role ends") + ")"}) == 24);
}

TEST_CASE("a deadlock's report names a CTA barrier with its count, and registers that nobody gives back") {
  const wrong_kernel barrier{.body = "setp.lt.u32 %p1, %r0, 64;\n@%p1 bar.sync 3, 96;", .how = {.threads = 96}};
  CHECK(named(barrier, "deadlock", {"2 warps (first: 0) wait at CTA barrier 3: 64 of 96 threads arrived"}) == 24);
  CHECK(named({.body = "bar.sync 3, 96;", .how = {.threads = 96}}, "", {}) == 24);
  // 16 K registers: each of 256 threads has 64, and half of them want 96, for which the others have to give back 32.
  const auto registers = [](const std::string& first) {
    return wrong_kernel{.body = "setp.lt.u32 %p1, %r0, 128; @%p1 bra FIRST;\nsetmaxnreg.inc.sync.aligned.u32 96;\nbra DONE;\nFIRST:\n" + first + "\nDONE:", .how = {.threads = 256}, .registers = 64};
  };
  CHECK(named(registers("setmaxnreg.dec.sync.aligned.u32 32;"), "", {}) == 24);
  const wrong_kernel kept = registers("");
  CHECK(named(kept, "deadlock", {"4 warps (first: 4) wait (" + kept.line("setmaxnreg.inc") + ") for registers (setmaxnreg)"}) == 24);
}

TEST_CASE("a deadlock's report names lanes that have left their warp, and where") {
  // Lane 0 should have signalled before the warp meets.
  const auto kernel = [](const std::string& first) {
    return wrong_kernel{.body = ".shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0; @!%p1 bra WAIT;\n" + first + "\nmbarrier.arrive.shared.b64 _, [b];\nWAIT: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0; @!%p3 bra WAIT;"};
  };
  CHECK(named(kernel(""), "", {}) == 24);
  const wrong_kernel left = kernel("exit; // too early");
  CHECK(named(left, "deadlock", {"ended: CTA (0,0,0) warp 0 lane 0 (" + left.line("// too early") + ")"}) == 24);
}

TEST_CASE("of places where warps wait twelve are listed, and the others counted") {
  std::string body = "shr.u32 %r1, %r0, 5;\n";
  for (int k = 0; k < 15; ++k) body += "setp.eq.u32 %p1, %r1, " + std::to_string(k) + "; @%p1 bar.sync " + std::to_string(k) + ", 64;\n";
  CHECK(named({.body = body, .how = {.threads = 15 * 32}}, "deadlock", {"and 3 more places"}) == 24);
}

TEST_CASE("bytes that rings take turns at are named by all of them") {
  const std::string notes = "// tlx.ring name=\"k\" which=slots offset=0 bytes=64 stages=2\n// tlx.ring name=\"rotated k\" which=slots offset=64 bytes=64 stages=1\n.extern .shared .align 16 .b8 dyn[];\n";
  const auto kernel = [&](const std::string& between) {
    return wrong_kernel{.body = "mov.u32 %r1, dyn; setp.eq.u32 %p1, %r0, 0;\n@%p1 st.shared.u32 [%r1+68], %r0;\n" + between + "\nld.shared.u32 %r2, [%r1+68];", .before = notes, .how = {.threads = 64, .dynamic_shared = 128}};
  };
  CHECK(named(kernel("bar.sync 0;"), "", {}) == 24);
  CHECK(named(kernel(""), "race", {"shared memory byte 1092 (slot 1 of ring \"k\", slot 0 of ring \"rotated k\")"}) == 24);
}

TEST_CASE("what a CTA leaves behind is told with the place where it ended") {
  const auto store = [](const std::string& wait) {
    return wrong_kernel{.body = ".shared .align 16 .b8 x[16]; mov.u32 %r1, x; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.v4.b32 [x], {%r0, %r0, %r0, %r0}; fence.proxy.async.shared::cta;\n"
                                "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 16;\n@%p1 cp.async.bulk.commit_group; " + wait + "\nexit;"};
  };
  CHECK(named(store("@%p1 cp.async.bulk.wait_group.read 0;"), "", {}) == 24);
  // Where the copy lands at once nothing is left behind.
  int left = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const wrong_kernel k = store("");
    const told t = once(k, seed);
    if (t.id.empty()) continue;
    CHECK(t.id == "race");
    left += says(t, "bulk store of " + k.line("cp.async.bulk.global")) && says(t, "its last thread ended at " + k.line("exit;"));
  }
  CHECK(left >= 6);
  // Tensor memory: who took it, where, and where that warp ended.
  const auto memory = [](const std::string& free) {
    return wrong_kernel{.body = ".shared .b32 slot; mov.u32 %r1, slot; setp.lt.u32 %p1, %r0, 32; @%p1 bra REST;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;\nld.shared.u32 %r2, [slot]; " + free + "\nexit;  // of warp 1\nREST:", .how = {.target = "sm_100a", .threads = 64}};
  };
  CHECK(named(memory("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;"), "", {}) == 24);
  const wrong_kernel kept = memory("");
  CHECK(named(kept, "tmem-misuse", {"it was allocated at " + kept.line("tcgen05.alloc") + " by warp 1, which ended at " + kept.line("// of warp 1")}) == 24);
}

TEST_CASE("a bulk store that is in no group is named when a wait for groups ends too early") {
  const auto kernel = [](const std::string& commit) {
    return wrong_kernel{.body = ".shared .align 128 .b8 x[128]; mov.u32 %r1, x; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; setp.eq.u32 %p1, %r0, 0;\nst.shared.u32 [%r3], %r0; fence.proxy.async.shared::cta; bar.warp.sync -1;\n"
                                "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 128;\n" + commit + "\n@%p1 cp.async.bulk.wait_group.read 0; bar.warp.sync -1;\n"
                                "st.shared.u32 [%r3], %r0;\n@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"};
  };
  CHECK(named(kernel("@%p1 cp.async.bulk.commit_group;"), "", {}) == 24);
  const wrong_kernel open = kernel("");
  CHECK(named(open, "race", {"no cp.async.bulk.commit_group has followed the one of " + open.line("cp.async.bulk.global")}) == 24);
}

TEST_CASE("a race of a warp that has waited says for what, and who has signalled that") {
  // Warp 0 fills two words and signals each; warp 1 waits for the first and reads the second.
  const std::string notes = "// tlx.ring name=\"x\" which=full offset=16 bytes=8 stages=2\n// tlx.ring name=\"x\" which=slots offset=0 bytes=8 stages=2\n.extern .shared .align 16 .b8 dyn[];\n";
  const auto kernel = [&](const std::string& read) {
    return wrong_kernel{.body = "mov.u32 %r1, dyn; setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 32;\n@%p1 mbarrier.init.shared.b64 [%r1+16], 1; @%p1 mbarrier.init.shared.b64 [%r1+24], 1; bar.sync 0; @!%p2 bra WAIT; @!%p1 bra DONE;\n"
                                "st.shared.u32 [%r1], %r0;\nmbarrier.arrive.shared.b64 _, [%r1+16]; // the first\nst.shared.u32 [%r1+8], %r0; // too late\nmbarrier.arrive.shared.b64 _, [%r1+24]; // the second\nbra DONE;\n"
                                "WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r1+16], 0; @!%p3 bra WAIT;\n"
                                "mov.u32 %r4, 0;\nMORE: add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 20000; @%p4 bra MORE;\n" + read + "\nDONE:",
                        .before = notes, .how = {.threads = 64, .dynamic_shared = 64}};
  };
  CHECK(named(kernel("ld.shared.u32 %r2, [%r1];"), "", {}) == 24);
  const wrong_kernel wrong = kernel("ld.shared.u32 %r2, [%r1+8];");
  CHECK(named(wrong, "race", {"shared memory byte 1032 (slot 1 of ring \"x\") is read by warp 1 but its write by warp 0 (" + wrong.line("// too late") + ") is not ordered before",
                              "warp 1 has last waited for the mbarrier at shared offset 1040 (full barrier of slot 0 of ring \"x\"), whose latest phase was signalled at " + wrong.line("// the first")}) == 24);
}

TEST_CASE("a wait that a barrier has left behind says who has signalled its latest phase") {
  // Three phases pass while one warp sleeps in its wait for the first.
  const auto kernel = [](const std::string& times) {
    return wrong_kernel{.body = ".shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 32; mov.u32 %r4, 0;\n@%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0; @!%p2 bra WAIT; @!%p1 bra DONE;\n"
                                "mov.u32 %r5, 0;\nFIRST: add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 20000; @%p4 bra FIRST;\n"  // until the others wait
                                "MORE: mbarrier.arrive.shared.b64 _, [b]; // signals\nadd.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, " + times + "; @%p4 bra MORE; bra DONE;\n"
                                "WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0; @!%p3 bra WAIT;\nDONE:",
                        .how = {.threads = 64}};
  };
  CHECK(named(kernel("1"), "", {}) == 24);
  const wrong_kernel wrong = kernel("6");
  int left = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const told t = once(wrong, seed);
    CAPTURE(t.text);
    left += t.id == "barrier-misuse" && says(t, "so the parity it tests is garbage") && says(t, "whose latest phase was signalled at " + wrong.line("// signals"));
  }
  CHECK(left >= 3);
}

TEST_CASE("columns of tensor memory that are read too early are named by their ring") {
  const auto kernel = [](const std::string& wait) {
    return wrong_kernel{.body = ".shared .b32 slot; .shared .align 128 .b8 a[8192]; .shared .align 8 .b64 b; mov.u32 %r1, slot; mov.u32 %r2, a; mov.u32 %r3, b; setp.eq.u32 %p1, %r0, 0; shl.b32 %r4, %r0, 6; add.u32 %r4, %r4, %r2; mov.u32 %r5, 0;\n"
                                "@%p1 mbarrier.init.shared.b64 [b], 1; st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5}; st.shared.v4.b32 [%r4+16], {%r5, %r5, %r5, %r5}; st.shared.v4.b32 [%r4+32], {%r5, %r5, %r5, %r5}; st.shared.v4.b32 [%r4+48], {%r5, %r5, %r5, %r5}; fence.proxy.async.shared::cta;\n"
                                "setp.lt.u32 %p2, %r0, 32; @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64; bar.sync 0; tcgen05.fence::after_thread_sync; ld.shared.u32 %r6, [slot];\n"
                                "shr.u32 %r7, %r2, 4; cvt.u64.u32 %rd3, %r7; or.b64 %rd3, %rd3, 0x0000401000080000; and.b64 %rd3, %rd3, 0xFFFFFFFFFFFF3FFF; mov.u32 %r8, " + std::to_string(1U << 4 | 1U << 7 | 1U << 10 | 2U << 17 | 8U << 24) + "; setp.ne.u32 %p3, 0, 0;\n"
                                "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd3, %rd3, %r8, %p3;\n@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];\n" + wait + "\n"
                                "shr.u32 %r9, %r0, 5; shl.b32 %r9, %r9, 21; add.u32 %r9, %r9, %r6;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r10}, [%r9];\ntcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;\n"
                                "W2: mbarrier.try_wait.parity.shared.b64 %p4, [b], 0; @!%p4 bra W2; bar.sync 0; @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 64;",
                        .before = "// tlx.ring name=\"d\" which=columns offset=0 bytes=16 stages=2\n", .how = {.target = "sm_100a", .threads = 128}};
  };
  CHECK(named(kernel("W: mbarrier.try_wait.parity.shared.b64 %p4, [b], 0; @!%p4 bra W; tcgen05.fence::after_thread_sync;"), "", {}) == 24);
  CHECK(named(kernel(""), "race", {"(slot 0 of ring \"d\")"}) == 24);
}

TEST_CASE("a copy that comes to a CTA that has ended is told with the barrier it would have signalled, and where the CTA ended") {
  const std::string notes = "// tlx.ring name=\"x\" which=full offset=64 bytes=8 stages=1\n.extern .shared .align 128 .b8 dyn[];\n";
  const auto kernel = [&](const std::string& wait) {
    return wrong_kernel{.body = "mov.u32 %r1, dyn; add.u32 %r2, %r1, 64; setp.eq.u32 %p1, %r0, 0; @!%p1 bra DONE; mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64;\n"
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];\n" + wait + "\nexit; // of lane 0\nDONE:",
                        .before = notes, .how = {.dynamic_shared = 128}};
  };
  CHECK(named(kernel("W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;"), "", {}) == 24);
  const wrong_kernel wrong = kernel("");
  int told_so = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const told t = once(wrong, seed);
    if (t.id.empty()) continue;  // it was in time
    CAPTURE(t.text);
    CHECK(t.id == "peer-exited");
    told_so += says(t, "a copy that signals the mbarrier at shared offset 1088 (full barrier of slot 0 of ring \"x\") lands in CTA rank 0, which has exited; its last thread ended at ");
  }
  CHECK(told_so >= 6);
}

TEST_CASE("a register that a load of tensor memory has not filled yet is told with that load") {
  const auto kernel = [](const std::string& wait) {
    return wrong_kernel{.body = ".shared .b32 slot; mov.u32 %r1, slot; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; ld.shared.u32 %r2, [slot];\n"
                                "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r0}; tcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2];\n" + wait +
                                "\nadd.u32 %r4, %r3, 1;\ntcgen05.wait::ld.sync.aligned; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;",
                        .how = {.target = "sm_100a"}};
  };
  CHECK(named(kernel("tcgen05.wait::ld.sync.aligned;"), "", {}) == 24);
  const wrong_kernel early = kernel("");
  CHECK(named(early, "race", {"the latest load is that of " + early.line("tcgen05.ld.sync"), early.line("add.u32")}) == 24);
}
