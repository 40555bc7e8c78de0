#include <doctest/doctest.h>

#include "support.hpp"

using namespace sim_test;

namespace {
std::string fault(const std::string& body, setup s = {}) { return id_of([&] { run(body, {1, 2, 3, 4}, s); }); }
std::string refused(const std::string& body, setup s = {}) { return id_of([&] { tlx::sim::open(s.target)->load({.ptx = module_text(body, s), .cubin = {}}); }); }
}  // namespace

TEST_CASE("an access outside every allocation is out of bounds, one inside is not") {
  CHECK(fault("ld.global.u32 %r1, [%rd1+12];") == "");
  CHECK(fault("ld.global.u32 %r1, [%rd1+16];") == "out-of-bounds");
  CHECK(fault("ld.global.u32 %r1, [%rd1+-4];") == "out-of-bounds");
  CHECK(fault("ld.global.v2.u32 {%r1, %r2}, [%rd1+16];") == "out-of-bounds");
  CHECK(fault(".shared .b32 x[4]; mov.u32 %r1, 0; st.shared.u32 [x+16], %r1;") == "out-of-bounds");
  CHECK(fault(".local .b32 x[4]; mov.u32 %r1, 0; st.local.u32 [x+16], %r1;") == "out-of-bounds");
}

TEST_CASE("misaligned accesses are found for each width") {
  CHECK(fault("ld.global.u32 %r1, [%rd1+2];") == "misaligned");
  CHECK(fault("ld.global.v2.u32 {%r1, %r2}, [%rd1+4];") == "misaligned");
  CHECK(fault("ld.global.v2.u32 {%r1, %r2}, [%rd1+8];") == "");
  CHECK(fault(".shared .align 8 .b32 x[4]; mov.u32 %r1, 0; st.shared.u32 [x+2], %r1;") == "misaligned");
}

TEST_CASE("shared memory that nobody wrote is poison") {
  CHECK(fault(".shared .b32 x[4]; ld.shared.u32 %r1, [x];") == "uninitialized");
  CHECK(fault(".shared .b32 x[4]; st.shared.u8 [x], 0; ld.shared.u16 %rs1, [x];") == "uninitialized");
  CHECK(fault(".shared .b32 x[4]; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [x], 0; bar.sync 0; ld.shared.u32 %r1, [x];") == "");
}

TEST_CASE("mbarriers are used as mbarriers") {
  CHECK(fault(".shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 1; @%p1 ld.shared.u64 %rd3, [b];") == "barrier-misuse");
  CHECK(fault(".shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.arrive.shared.b64 %rd3, [b];") == "barrier-misuse");
  CHECK(fault(".shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 1; @%p1 mbarrier.init.shared.b64 [b], 1;") == "barrier-misuse");
  CHECK(fault(".shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 1; @%p1 mbarrier.inval.shared.b64 [b]; @%p1 st.shared.u64 [b], 0;") == "");
}

TEST_CASE("a wait that nobody ends is a deadlock that names the barrier") {
  const std::string body = ".shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 2; bar.sync 0; @%p1 mbarrier.arrive.shared.b64 %rd3, [b]; W: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra W;";
  CHECK(fault(body) == "deadlock");
  try {
    run(body, {1});
  } catch (const tlx::sim_error& e) {
    CHECK(std::string(e.what()).find("shared offset 1024") != std::string::npos);
    CHECK(std::string(e.what()).find("1 of 2 arrivals") != std::string::npos);
  }
  CHECK(fault("setp.lt.u32 %p1, %r0, 32; @%p1 bar.sync 1, 64;", {.threads = 64}) == "deadlock");
  CHECK(fault("bar.sync 1, 64;") == "barrier-misuse");  // the CTA has 32 threads
}

TEST_CASE("time passes for a program that looks at it: a wait may give up after seconds, and one that does not is still a deadlock") {
  const std::string start = ".shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [b], 2; bar.sync 0; mov.u64 %rd3, %globaltimer;";
  const std::string wait = "W: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @%p2 bra D;";
  CHECK(fault(start + wait + "mov.u64 %rd4, %globaltimer; sub.u64 %rd4, %rd4, %rd3; setp.lt.u64 %p2, %rd4, 5000000000; @%p2 bra W; D:") == "");
  CHECK(fault(start + wait + "bra W; D: mov.u64 %rd4, %globaltimer;") == "deadlock");
}

TEST_CASE("a barrier phase passes when its arrivals and bytes are there") {
  const std::string body = R"(.shared .align 16 .b8 x[16]; .shared .align 8 .b64 b; setp.eq.u32 %p1, %r0, 0; mov.u32 %r1, x; mov.u32 %r2, b;
    @%p1 mbarrier.init.shared.b64 [b], 1; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], 16;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];
    W: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra W;
    ld.shared.u32 %r3, [x+12]; @%p1 st.global.u32 [%rd2], %r3;)";
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    setup s;
    s.seed = seed;
    CHECK(run(body, {1, 2, 3, 4}, s)[0] == 4);
  }
}

TEST_CASE("trap ends the run with the line and the thread") { CHECK(fault("setp.eq.u32 %p1, %r0, 3; @%p1 trap;") == "trap"); }

TEST_CASE("what is not modelled or not PTX is refused when it is loaded, by name and line") {
  CHECK(refused("frobnicate.b32 %r1, %r2;") == "ptx-unsupported");
  CHECK(refused("add.sideways.s32 %r1, %r2, %r3;") == "ptx-unsupported");
  CHECK(refused("add.s32 %r1, %r2;") == "ptx-malformed");
  CHECK(refused("add.s32 %rd1, %r2, %r3;") == "ptx-malformed");
  CHECK(refused("add.s32 %unknown, %r2, %r3;") == "ptx-malformed");
  CHECK(refused("bra NOWHERE;") == "ptx-malformed");
  CHECK(refused("add.s32 %r1, %r2, %r3") == "ptx-malformed");
  CHECK(refused("tcgen05.wait::ld.sync.aligned;") == "ptx-unsupported");  // sm_90a has no tensor memory
  try {
    tlx::sim::open("sm_90a")->load({.ptx = module_text("\n\nfrobnicate.b32 %r1, %r2;"), .cubin = {}});
  } catch (const tlx::user_error& e) {
    CHECK(std::string(e.what()).find("frobnicate") != std::string::npos);
    CHECK(std::string(e.what()).find("ptx line 10") != std::string::npos);
  }
}

TEST_CASE("code for another chip and launches that cannot be are refused") {
  CHECK(id_of([] { tlx::sim::open("sm_90a")->load({.ptx = module_text("", {.target = "sm_100a"}), .cubin = {}}); }) == "ptx-wrong-target");
  CHECK(id_of([] { tlx::sim::open("sm_103a")->load({.ptx = module_text("", {.target = "sm_100f"}), .cubin = {}}); }) == "");
  CHECK(id_of([] { tlx::sim::open("sm_75"); }) == "target-unknown");
  CHECK(id_of([] { tlx::sim::open("sim:sm_75"); }) == "target-unknown");
  CHECK(tlx::sim::open("sim:sm_100a")->about().target == "sm_100a");
  CHECK(id_of([] { run("", {1}, {.threads = 2048}); }) == "launch-refused");
  CHECK(id_of([] { run("", {1}, {.grid = 3, .cluster = 2}); }) == "launch-refused");
}

TEST_CASE("a CTA may not end while a bulk store still reads its memory") {
  const std::string body = ".shared .align 16 .b8 x[16]; mov.u32 %r1, x; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.v4.b32 [x], {%r0, %r0, %r0, %r0}; fence.proxy.async.shared::cta; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 16; @%p1 cp.async.bulk.commit_group;";
  CHECK(fault(body) == "race");
  CHECK(fault(body + "@%p1 cp.async.bulk.wait_group.read 0;") == "");
}

TEST_CASE("memory that was freed is named when a kernel reaches it") {
  auto m = tlx::sim::open("sm_90a");
  const auto a = m->allocate(64), b = m->allocate(64);
  m->name(a, "old");
  m->release(a);
  auto code = m->load({.ptx = module_text("ld.global.u32 %r1, [%rd1+8];"), .cubin = {}});
  tlx::device::launch l;
  l.block = {32, 1, 1};
  l.arguments = {tlx::device::scalar<std::uint64_t>(a), tlx::device::scalar<std::uint64_t>(b)};
  try {
    m->run(*code, "k", l);
    FAIL("freed memory was read");
  } catch (const tlx::sim_error& e) {
    CHECK(e.id() == "out-of-bounds");
    CHECK(std::string(e.what()).find("byte 8 of \"old\" (64 bytes), which was freed") != std::string::npos);
  }
}
