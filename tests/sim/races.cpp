// What orders two accesses and what does not: lanes of a warp, warps, CTAs, bulk stores. Every wrong kernel has a right twin; both on every policy of order.
#include <doctest/doctest.h>

#include "support.hpp"

using namespace sim_test;

namespace {

/// The faults that 24 seeds in a row find; "" when none does. All of them must find the same.
std::string found(const std::string& body, setup s = {}, const std::vector<std::uint32_t>& in = std::vector<std::uint32_t>(64, 7)) {
  std::string first;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    s.seed = seed;
    const std::string now = id_of([&] { run(body, in, s); });
    if (seed == 0) first = now;
    else if (now != first) return first + " and " + now;
  }
  return first;
}
std::string told(const std::string& body, setup s = {}) {
  try {
    run(body, std::vector<std::uint32_t>(64, 7), s);
  } catch (const tlx::error& e) {
    return e.what();
  }
  return {};
}
bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("lanes of one warp are ordered by a warp barrier and by nothing less") {
  const std::string write = ".shared .b32 x[32]; mov.u32 %r1, x; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; xor.b32 %r4, %r3, 4; st.shared.u32 [%r3], %r0;\n";
  CHECK(found(write + "bar.warp.sync -1; ld.shared.u32 %r6, [%r4];") == "");
  CHECK(found(write + "ld.shared.u32 %r6, [%r4];") == "race");
  CHECK(found(write + "ld.shared.u32 %r6, [%r3];") == "");  // its own
  CHECK(found(write + "shfl.sync.idx.b32 %r5, %r0, 0, 31, -1; ld.shared.u32 %r6, [%r4];") == "race");
  CHECK(found(write + "bar.sync 0; ld.shared.u32 %r6, [%r4]; st.shared.u32 [%r3], %r0;") == "race");  // a write after another lane's read
  CHECK(found(write + "bar.sync 0; ld.shared.u32 %r6, [%r4]; bar.warp.sync -1; st.shared.u32 [%r3], %r0;") == "");
  const std::string report = told(write + "ld.shared.u32 %r6, [%r4];");
  CHECK(says(report, "of the same warp"));
  CHECK(says(report, "bar.warp.sync"));
}

TEST_CASE("one lane signals for the others only after a warp barrier") {
  // Warp 0 reads, its lane 0 arrives; warp 1 waits and writes.
  const std::string start = ".shared .b32 x[32]; .shared .align 8 .b64 b; mov.u32 %r1, x; and.b32 %r2, %r0, 31; shl.b32 %r2, %r2, 2; add.u32 %r3, %r1, %r2; setp.lt.u32 %p1, %r0, 32; setp.eq.u32 %p2, %r0, 0;"
                            "@%p1 st.shared.u32 [%r3], %r0; @%p2 mbarrier.init.shared.b64 [b], 1; bar.sync 0; @!%p1 bra OTHER;\n";
  const std::string end = "@%p2 mbarrier.arrive.shared.b64 _, [b]; bra DONE; OTHER: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0; @!%p3 bra OTHER; st.shared.u32 [%r3], %r0; DONE:";
  CHECK(found(start + "ld.shared.u32 %r4, [%r3]; bar.warp.sync -1;" + end, {.threads = 64}) == "");
  CHECK(found(start + "ld.shared.u32 %r4, [%r3];" + end, {.threads = 64}) == "race");
  CHECK(found(start + "@%p2 ld.shared.u32 %r4, [%r3];" + end, {.threads = 64}) == "");  // the lane that signals is the one that read
}

TEST_CASE("one lane fences for the others only after a warp barrier") {
  // 32 lanes write, lane 0 stores what they wrote.
  const std::string write = ".shared .align 128 .b8 x[128]; mov.u32 %r1, x; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 16; st.shared.u32 [%r3], %r0;\n";
  const std::string fence = "fence.proxy.async.shared::cta;", meet = " bar.warp.sync -1;", store = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 128; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;";
  const setup s{.out_words = 32};
  CHECK(found(write + fence + meet + store, s) == "");
  CHECK(found(write + meet + "@%p1 " + fence + store, s) == "");
  CHECK(found(write + "@%p1 " + fence + meet + store, s) == "missing-proxy-fence");
  CHECK(found(write + "@%p2 " + fence + "@!%p2 " + fence + meet + store, s) == "");  // each lane has fenced, in two groups
  CHECK(found(write + "@%p1 " + fence + "@!%p2 " + fence + meet + store, s) == "missing-proxy-fence");
  // What a lane has written, fenced and signalled itself is covered, whatever the others do.
  const std::string ring = ".shared .align 128 .b8 x[128]; .shared .align 128 .b8 y[128]; .shared .align 8 .b64 b; mov.u32 %r1, x; and.b32 %r2, %r0, 31; shl.b32 %r2, %r2, 2; mov.u32 %r3, y; add.u32 %r3, %r3, %r2; setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 32; setp.eq.u32 %p4, %r0, 32;\n"
                           "@%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0; @!%p2 bra STORE;\nst.shared.u32 [%r3], %r0; @%p1 st.shared.v4.b32 [x], {%r0, %r0, %r0, %r0};\n";
  const std::string other = "@%p1 mbarrier.arrive.shared.b64 _, [b]; bra DONE;\nSTORE: mbarrier.try_wait.parity.shared.b64 %p3, [b], 0; @!%p3 bra STORE; @%p4 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 16; @%p4 cp.async.bulk.commit_group; @%p4 cp.async.bulk.wait_group 0;\nDONE:";
  CHECK(found(ring + "@%p1 " + fence + other, {.threads = 64, .out_words = 4}) == "");
  CHECK(found(ring + fence + other, {.threads = 64, .out_words = 4}) == "");
  CHECK(found(ring + other, {.threads = 64, .out_words = 4}) == "missing-proxy-fence");
}

TEST_CASE("who names a barrier for a copy or a commit must know of its initialisation") {
  // Warp 0 makes the barrier and says so in a word that orders nothing by itself; warp 1 sees the word.
  const auto kernel = [](const std::string& first, bool ordered, const std::string& second) {
    const std::string store = ordered ? "st.release.gpu.global.u32 [%rd1+16], 1;" : "st.relaxed.gpu.global.u32 [%rd1+16], 1;";
    const std::string load = ordered ? "ld.acquire.gpu.global.u32 %r3, [%rd1+16];" : "ld.relaxed.gpu.global.u32 %r3, [%rd1+16];";
    return ".shared .align 128 .b8 x[128]; .shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 32; mov.u32 %r1, x; mov.u32 %r2, b;"
           "@%p2 bra SEE; @!%p1 bra MEET; mbarrier.init.shared.b64 [b], 1;" + first + store + "bra MEET;"
           "SEE: " + load + "setp.ne.u32 %p3, %r3, 1; @%p3 bra SEE;" + second + "MEET: bar.sync 0;"
           "WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [b], 0; @!%p4 bra WAIT;";
  };
  const std::string commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];";
  CHECK(found(kernel("", true, commit), {.target = "sm_100a", .threads = 64}) == "");
  CHECK(found(kernel("", false, commit), {.target = "sm_100a", .threads = 64}) == "race");
  // The copy alone: the first warp expects its bytes and arrives.
  const std::string expected = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 64;", copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1+128], 64, [%r2];";
  CHECK(found(kernel(expected, true, copy), {.threads = 64}) == "");
  CHECK(found(kernel(expected, false, copy), {.threads = 64}) == "race");
  CHECK(says(told(kernel(expected, false, copy), {.threads = 64}), "its initialisation by warp 0 is not ordered before"));
}

TEST_CASE("global memory: warps and CTAs that write what others use are ordered by something") {
  const std::string same = "setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 32;\n";
  CHECK(found(same + "@%p1 st.global.u32 [%rd2], %r0; @%p2 st.global.u32 [%rd2], %r0;", {.threads = 64}) == "race");
  CHECK(found(same + "@%p1 st.global.u32 [%rd2], %r0; bar.sync 0; @%p2 st.global.u32 [%rd2], %r0;", {.threads = 64}) == "");
  CHECK(found(same + "@%p1 st.global.u32 [%rd2], %r0; @%p2 st.global.u32 [%rd2+4], %r0;", {.threads = 64}) == "");
  CHECK(found(same + "@%p1 st.global.u8 [%rd2], 0; @%p2 st.global.u8 [%rd2+1], 0;", {.threads = 64}) == "");
  CHECK(found(same + "@%p1 ld.global.u32 %r1, [%rd2]; @%p2 st.global.u32 [%rd2], %r0;", {.threads = 64}) == "race");
  CHECK(found("st.global.u32 [%rd2], %r0;", {.threads = 1, .grid = 2}) == "race");
  CHECK(found("mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd3, %rd2; st.global.u32 [%rd3], %r0;", {.threads = 1, .grid = 8}) == "");
  CHECK(found("st.global.u32 [%rd2], %r0;", {.threads = 1, .grid = 2, .cluster = 2}) == "race");
  const std::string report = told("st.global.u32 [%rd2], %r0;", {.threads = 1, .grid = 2});
  CHECK(says(report, "global memory"));
  CHECK(says(report, "ptx line"));
}

TEST_CASE("atomics race with nobody but plain accesses, within their scope") {
  CHECK(found("red.global.add.u32 [%rd2], 1;", {.threads = 64, .grid = 4}) == "");
  CHECK(found("atom.global.add.u32 %r1, [%rd2], 1;", {.threads = 64, .grid = 4}) == "");
  CHECK(found("red.relaxed.cta.global.add.u32 [%rd2], 1;", {.threads = 64}) == "");
  CHECK(found("red.relaxed.cta.global.add.u32 [%rd2], 1;", {.threads = 64, .grid = 2}) == "race");
  CHECK(found("setp.eq.u32 %p1, %r0, 0; @%p1 red.global.add.u32 [%rd2], 1; @!%p1 ld.global.u32 %r1, [%rd2];", {.threads = 64}) == "race");
}

TEST_CASE("a message through global memory needs release and acquire, of a scope that reaches") {
  const auto message = [](const std::string& send, const std::string& receive) {
    return "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READER; st.global.u32 [%rd1], 5; " + send + " bra DONE;\nREADER: " + receive + " setp.eq.u32 %p2, %r2, 7; @%p2 bra READER;\nAFTER: ld.global.u32 %r3, [%rd1]; DONE:";
  };
  const setup two{.threads = 1, .grid = 2};
  CHECK(found(message("st.release.gpu.global.u32 [%rd1+16], 1;", "ld.acquire.gpu.global.u32 %r2, [%rd1+16];"), two) == "");
  CHECK(found(message("st.release.cta.global.u32 [%rd1+16], 1;", "ld.acquire.cta.global.u32 %r2, [%rd1+16];"), two) == "race");
  CHECK(found(message("st.relaxed.gpu.global.u32 [%rd1+16], 1;", "ld.acquire.gpu.global.u32 %r2, [%rd1+16];"), two) == "race");
  CHECK(found(message("st.release.gpu.global.u32 [%rd1+16], 1;", "ld.relaxed.gpu.global.u32 %r2, [%rd1+16];"), two) == "race");
  CHECK(found(message("fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd1+16], 1;", "ld.relaxed.gpu.global.u32 %r2, [%rd1+16]; fence.acq_rel.gpu;"), two) == "");
  CHECK(found(message("membar.gl; red.global.add.u32 [%rd1+16], 1;", "ld.volatile.global.u32 %r2, [%rd1+16]; membar.gl;"), two) == "");
}

TEST_CASE("the last CTA reads what the others wrote") {
  const std::string partial = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; setp.eq.u32 %p1, %r0, 33; @%p1 st.global.u32 [%rd4+16], %r1; .shared .b32 last; bar.sync 0; setp.eq.u32 %p2, %r0, 0;\n";
  const std::string sum = "@%p2 st.shared.u32 [last], %r2; bar.sync 0; ld.shared.u32 %r3, [last]; setp.ne.u32 %p3, %r3, 3; @%p3 bra DONE; @%p2 ld.global.u32 %r4, [%rd2+16]; @%p2 ld.global.u32 %r5, [%rd2+28]; DONE:";
  const setup four{.threads = 64, .grid = 4, .out_words = 16};
  // The counter starts at what run() fills the output with: count by an input word that is zero instead.
  const std::vector<std::uint32_t> zero(64, 0);
  CHECK(found(partial + "@%p2 atom.acq_rel.gpu.global.add.u32 %r2, [%rd1], 1;" + sum, four, zero) == "");
  CHECK(found(partial + "membar.gl; @%p2 atom.global.add.u32 %r2, [%rd1], 1; membar.gl;" + sum, four, zero) == "");
  CHECK(found(partial + "@%p2 atom.relaxed.gpu.global.add.u32 %r2, [%rd1], 1;" + sum, four, zero) == "race");
}

TEST_CASE("a bulk store is read by threads after wait_group, not after its .read form") {
  const std::string store = ".shared .align 16 .b8 x[16]; mov.u32 %r1, x; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.v4.b32 [x], {%r0, %r0, %r0, %r0}; fence.proxy.async.shared::cta;"
                            "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 16; @%p1 cp.async.bulk.commit_group;\n";
  CHECK(found(store + "@%p1 cp.async.bulk.wait_group 0; @%p1 ld.global.u32 %r3, [%rd2];") == "");
  CHECK(found(store + "@%p1 cp.async.bulk.wait_group.read 0; @%p1 ld.global.u32 %r3, [%rd2];") == "race");
  // Shared memory it reads: free for the lane that waited, for the others after a warp barrier.
  CHECK(found(store + "@%p1 cp.async.bulk.wait_group.read 0; @%p1 st.shared.u32 [x], %r0;") == "");
  CHECK(found(store + "@%p1 cp.async.bulk.wait_group.read 0; bar.warp.sync -1; setp.eq.u32 %p2, %r0, 5; @%p2 st.shared.u32 [x], %r0;") == "");
  CHECK(found(store + "@%p1 cp.async.bulk.wait_group.read 0; setp.eq.u32 %p2, %r0, 5; @%p2 st.shared.u32 [x], %r0;") == "race");
}

TEST_CASE("lanes meet again behind a branch with nothing in it") {
  CHECK(run("setp.lt.u32 %p1, %r0, 5; @%p1 bra L; L: bar.warp.sync -1; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], 9;", std::vector<std::uint32_t>(32, 1))[31] == 9);
}

TEST_CASE("names that the PTX gives to barriers and warps are in the report") {
  const std::string notes = "// tlx.ring name=\"ab\" which=full offset=16 bytes=8 stages=3\n// tlx.role name=\"load\" warps=0..0\n// tlx.role name=\"use\" warps=1..3\n";
  const std::string body = "setp.eq.u32 %p1, %r0, 0; mov.u32 %r1, dyn; @%p1 mbarrier.init.shared.b64 [%r1+24], 2; bar.sync 0; @%p1 mbarrier.arrive.shared.b64 _, [%r1+24]; setp.lt.u32 %p2, %r0, 32; @%p2 bra DONE;"
                           "W: mbarrier.try_wait.parity.shared.b64 %p3, [%r1+24], 0; @!%p3 bra W; DONE:";
  setup s{.threads = 64, .dynamic_shared = 64};
  std::string report;
  try {
    run_module(module_text(body, s, notes + ".extern .shared .align 16 .b8 dyn[];\n"), {1}, s);
  } catch (const tlx::error& e) {
    report = e.what();
  }
  CHECK(says(report, "full barrier of slot 1 of ring \"ab\""));
  CHECK(says(report, "role \"use\" wait"));
  CHECK(says(report, "ended: role \"load\""));
  CHECK(says(report, "1 of 2 arrivals"));
  // Comments that only look like notes are comments.
  CHECK(id_of([&] { run_module(module_text("", s, "// tlx.ring name= which offset=x\n// tlx.role\n// tlx.ring name=\"a\" offset=99999999999 bytes=8 stages=1\n"), {1}, s); }) == "");
}

TEST_CASE("a peer's shared memory is touched after something has shown that the peer has started, and stays while it is read") {
  const auto reach = [](const std::string& before, const std::string& access) {
    return ".shared .align 16 .b8 x[64]; .shared .align 16 .b8 y[64]; .shared .align 8 .b64 b; mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r0, 0; mov.u32 %r3, x; mov.u32 %r4, b; mov.u32 %r5, y; @%p1 mbarrier.init.shared.b64 [b], 1; @%p1 fence.mbarrier_init.release.cluster; shl.b32 %r6, %r0, 2; add.u32 %r7, %r3, %r6; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 64;\n" +
           before + "mapa.shared::cluster.u32 %r8, %r3, %r2; mapa.shared::cluster.u32 %r9, %r4, %r2; mapa.shared::cluster.u32 %r10, %r5, %r2;\n" + access;
  };
  const std::string meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n", relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;\n";
  const setup s{.threads = 16, .grid = 2, .cluster = 2};
  const auto fault = [&](const std::string& body) {
    for (setup at = s; at.seed < 32; ++at.seed)
      if (const std::string id = id_of([&] { run(body, {0}, at); }); !id.empty()) return id;
    return std::string();
  };
  const std::string store = "st.shared::cluster.u32 [%r8], 1;\n", adds = "add.u32 %r11, %r8, %r6; red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%r11], 1, [%r9];\nV: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra V;\n";
  const std::string one_store = "@%p1 " + store;
  CHECK(fault(reach(meet, one_store + meet)) == "");
  CHECK(fault(reach(relaxed, one_store + meet)) == "");  // that it has started needs no memory order
  CHECK(fault(reach("", one_store + meet)) == "race");
  const std::string zero = "st.shared.u32 [%r7], 0;\n";
  CHECK(fault(reach(zero + meet, adds + meet)) == "");
  CHECK(fault(reach(zero + relaxed, adds + meet)) == "race");  // what is added to is not ordered before
  const std::string copy = "@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], [%r3], 64, [%r9];\nW: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra W;\n";
  const std::string fence = "fence.proxy.async.shared::cta;\n";
  CHECK(fault(reach(zero + fence + meet, copy + meet)) == "");
  CHECK(fault(reach(zero + fence + meet, copy)) == "race");            // the CTA may end while its memory is read
}
