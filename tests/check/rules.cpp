// Each rule of the protocol check: the smallest kernel that breaks it is refused, and its twin that keeps it is not.
#include <doctest/doctest.h>

#include <random>

#include "text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using test::check_text;
using test::id_of;
using test::shape;
using test::with;

namespace {

// Warp 0 initialises full[0] and copies into slot 0, both warps wait and read it.
const std::string load = R"(
  if %first.4 [
    %20 = elect : bool
    if %20 [
      mbarrier.init %bar.6 {count = 1} @"k.cpp":10
      fence.init
    ] [
    ]
  ] [
  ]
  barrier.cta {id = 0, threads = 0} @"k.cpp":11
  if %first.4 {role = "load", first_warp = 0} [
    %21 = elect : bool
    if %21 [
      mbarrier.expect %bar.6 {bytes = 8192} @"k.cpp":12
      tma.load %slot.7, %bar.6, %zero.1, %zero.1 {map = 0, hint = 0, multicast = 0} @"k.cpp":13
    ] [
    ]
    barrier.warp
  ] [
  ]
  if %second.5 {role = "use", first_warp = 1} [
    mbarrier.wait %bar.6, %zero.1 @"k.cpp":14
    %22 = shared.load %slot.7 : u32 @"k.cpp":15
  ] [
  ]
)";

// Warp 0 stages a word and copies the slot out.
const std::string store = R"(
  if %first.4 [
    %20 = const {value = 7} : u32
    shared.store %20, %slot.7 @"k.cpp":20
    fence.async @"k.cpp":21
    barrier.warp @"k.cpp":22
    %21 = elect : bool
    if %21 [
      tma.store %slot.7, %zero.1, %zero.1 {map = 0} @"k.cpp":23
      tma.commit
      tma.wait {pending = 0, read = 1} @"k.cpp":24
    ] [
    ]
  ] [
  ]
)";

// Warp 0 allocates, both warps see it, warp 0 frees.
const std::string tensor = R"(
  %20 = shared.base {offset = 40000} : u32
  if %first.4 [
    tmem.alloc %20 {columns = 64} @"k.cpp":30
    tmem.relinquish
  ] [
  ]
  barrier.cta {id = 0, threads = 0}
  %21 = shared.load %20 : u32
  if %first.4 [
    tmem.free %21 {columns = 64} @"k.cpp":31
  ] [
  ]
)";
const shape blackwell{.target = "sm_100a"};

}  // namespace

TEST_CASE("a copy that is waited for is right, and each part of it is needed") {
  CHECK(id_of(load) == "");
  CHECK(id_of(with(load, "mbarrier.wait %bar.6, %zero.1 @\"k.cpp\":14\n", "")) != "");
  CHECK(id_of(with(load, "barrier.cta {id = 0, threads = 0} @\"k.cpp\":11\n", "")) == "protocol-barrier");
  CHECK(id_of(with(load, "mbarrier.init %bar.6 {count = 1} @\"k.cpp\":10\n", "")) == "protocol-barrier");
  CHECK(id_of(with(load, "{bytes = 8192}", "{bytes = 8208}")) == "protocol-deadlock");
  CHECK(id_of(with(load, "{bytes = 8192}", "{bytes = 4096}")) == "protocol-deadlock");
  CHECK(id_of(with(load, "{bytes = 8192}", "{bytes = 4096}").substr(0, load.find("  if %second.5"))) == "protocol-bytes");  // nobody waits for it
  CHECK(id_of(with(load, "{count = 1}", "{count = 2}")) == "protocol-deadlock");
  CHECK(id_of(with(load, "%bar.6, %zero.1 @\"k.cpp\":14", "%bar.6, %one.2 @\"k.cpp\":14")) != "");
}

TEST_CASE("a hang says where every role stands, on which barrier of which ring, stage and phase") {
  const check::verdict v = check_text(with(load, "{bytes = 8192}", "{bytes = 8208}"));
  REQUIRE(v.findings.size() == 1);
  CHECK(to_string(v.findings[0]) ==
        "tlx error [protocol-deadlock]: the kernel hangs: role \"use\" (warp 1) waits for phase 0 (parity 0) of ring \"ab\" full[0], which has 1 of 1 arrival and 8192 of 8208 bytes\n"
        "    role \"load\" (warp 0) has ended\n"
        "    role \"use\" (warp 1) at k.cpp:14: waits for phase 0 (parity 0) of ring \"ab\" full[0], which has 1 of 1 arrival and 8192 of 8208 bytes\n"
        "  at k.cpp:14 in kernel \"k\"\n"
        "  because the expect announced 8208 bytes and 8192 came\n"
        "  fix announce exactly the bytes that the copies bring");
}

TEST_CASE("a race shows both accesses, a missing fence says that only the fence is missing") {
  CHECK(id_of(store) == "");
  const check::verdict v = check_text(with(store, "fence.async @\"k.cpp\":21\n", ""));
  REQUIRE(v.findings.size() == 1);
  CHECK(v.findings[0].id == "protocol-fence");
  CHECK(v.findings[0].what.find("k.cpp:20: shared.store writes slot 0 of ring \"ab\"") != std::string::npos);
  CHECK(v.findings[0].what.find("k.cpp:23: tma.store (bulk copy) reads slot 0 of ring \"ab\"") != std::string::npos);
  CHECK(id_of(with(store, "barrier.warp @\"k.cpp\":22\n", "")) == "protocol-read-early");  // the other lanes' words
  CHECK(id_of(with(store, "tma.wait {pending = 0, read = 1} @\"k.cpp\":24\n", "")) == "protocol-exit");
  CHECK(id_of(with(store, "tma.commit\n", "")) == "protocol-exit");
  const std::string twice = with(store, "tma.wait {pending = 0, read = 1} @\"k.cpp\":24\n    ] [\n    ]\n", "] [\n    ]\n    shared.store %20, %slot.7\n    %23 = elect : bool\n    if %23 [\n tma.wait {pending = 0, read = 1}\n ] [\n ]\n");
  CHECK(id_of(twice) == "protocol-race");
}

TEST_CASE("more arrivals than a barrier counts, or fewer, are found") {
  const std::string body = R"(
  if %first.4 [
    %20 = elect : bool
    if %20 [
      mbarrier.init %bar.6 {count = 32}
    ] [
    ]
  ] [
  ]
  barrier.cta {id = 0, threads = 0}
  if %second.5 {role = "signal", first_warp = 1} [
    mbarrier.arrive %bar.6 {count = 1}
  ] [
  ]
  if %first.4 {role = "await", first_warp = 0} [
    mbarrier.wait %bar.6, %zero.1
  ] [
  ]
)";
  CHECK(id_of(body) == "");
  CHECK(id_of(with(body, "{count = 32}", "{count = 31}")) == "protocol-arrivals");
  CHECK(id_of(with(body, "{count = 32}", "{count = 33}")) == "protocol-deadlock");
  CHECK(id_of(with(body, "%bar.6 {count = 1}", "%bar.6 {count = 2}")) == "protocol-arrivals");
}

TEST_CASE("a barrier that ends in the middle of a phase counts other arrivals than it gets, also where nobody waits for it any more") {
  const std::string body = R"(
  %20 = elect : bool
  if %first.4 [
    if %20 [
      mbarrier.init %bar.6 {count = 2}
    ] [
    ]
  ] [
  ]
  barrier.cta {id = 0, threads = 0}
  if %20 [
    mbarrier.arrive %bar.6 {count = 1} @"k.cpp":70
  ] [
  ]
)";
  CHECK(id_of(body) == "");
  CHECK(id_of(with(body, "{count = 2}", "{count = 1}")) == "");
  const check::verdict v = check_text(with(body, "{count = 2}", "{count = 3}"));
  REQUIRE(v.findings.size() == 1);
  CHECK(v.findings[0].id == "protocol-arrivals");
  CHECK(v.findings[0].what.find("ring \"ab\" full[0] ends with 2 of 3 arrivals in its phase 0") != std::string::npos);
  CHECK(v.findings[0].what.find("at k.cpp:70: mbarrier.arrive arrives there") != std::string::npos);
}

TEST_CASE("a wait that tells nothing new is known as implied, where it tells that in every run") {
  const std::string again = "    mbarrier.wait %bar.6, %zero.1 @\"k.cpp\":16\n";
  const auto k = ir::parse(test::kernel_text(with(load, "    %22 = shared.load", again + "    %22 = shared.load")));
  const check::verdict v = check::check_protocol(*k);
  CHECK(v.findings.empty());
  REQUIRE(v.implied.size() == 1);
  CHECK(to_string(v.implied[0]->where) == "k.cpp:16");
}

TEST_CASE("a barrier that may get two phases past a waiter is found although this run has no hang") {
  const std::string body = R"(
  if %first.4 [
    %20 = elect : bool
    if %20 [
      mbarrier.init %bar.6 {count = 1}
    ] [
    ]
  ] [
  ]
  barrier.cta {id = 0, threads = 0}
  if %first.4 {role = "signal", first_warp = 0} [
    %21 = elect : bool
    if %21 [
      mbarrier.arrive %bar.6 {count = 1}
    ] [
    ]
    barrier.warp
  ] [
  ]
  if %second.5 {role = "await", first_warp = 1} [
    mbarrier.wait %bar.6, %zero.1
  ] [
  ]
  barrier.cta {id = 0, threads = 0}
  if %first.4 {role = "signal", first_warp = 0} [
    %22 = elect : bool
    if %22 [
      mbarrier.arrive %bar.6 {count = 1}
    ] [
    ]
    barrier.warp
  ] [
  ]
)";
  CHECK(id_of(body) == "");
  const size_t second = body.rfind("  barrier.cta {id = 0, threads = 0}\n");
  std::string apart = body;
  apart.erase(second, std::string("  barrier.cta {id = 0, threads = 0}\n").size());
  const std::string id = id_of(apart);
  CHECK_MESSAGE((id == "protocol-phase" || id == "protocol-deadlock"), id);
}

TEST_CASE("a waiter that nobody waits for is named, with the phase that it may miss") {
  const std::string body = R"(
  if %first.4 [
    %20 = elect : bool
    if %20 [
      mbarrier.init %bar.6 {count = 1}
    ] [
    ]
  ] [
  ]
  barrier.cta {id = 0, threads = 0}
  if %second.5 {role = "late", first_warp = 1} [
    mbarrier.wait %bar.6, %one.2 @"k.cpp":60
  ] [
  ]
  barrier.cta {id = 0, threads = 0} @"k.cpp":61
  if %first.4 {role = "early", first_warp = 0} [
    %21 = elect : bool
    if %21 [
      mbarrier.arrive %bar.6 {count = 1} @"k.cpp":62
    ] [
    ]
  ] [
  ]
)";
  CHECK(id_of(body) == "");
  const check::verdict v = check_text(with(body, "  barrier.cta {id = 0, threads = 0} @\"k.cpp\":61\n", ""));
  REQUIRE(v.findings.size() == 1);
  CHECK(v.findings[0].id == "protocol-phase");
  CHECK(v.findings[0].what.find("role \"late\" (warp 1) at k.cpp:60: waits for phase -1") != std::string::npos);
  CHECK(v.findings[0].what.find("mbarrier.arrive at k.cpp:62: completes phase 0") != std::string::npos);
}

TEST_CASE("collective instructions under a branch on lanes are refused") {
  CHECK(id_of("  %20 = elect : bool\n  if %20 [\n    barrier.cta {id = 0, threads = 0}\n  ] [\n  ]\n") == "protocol-divergent");
  CHECK(id_of("  if %first.4 [\n    barrier.warp\n  ] [\n  ]\n") == "");
}

TEST_CASE("warps meet at a named barrier in the number that it waits for") {
  CHECK(id_of("  barrier.cta {id = 1, threads = 64}\n") == "");
  CHECK(id_of("  barrier.cta {id = 1, threads = 96}\n") == "protocol-arrivals");
  CHECK(id_of("  if %first.4 [\n    barrier.cta {id = 1, threads = 64}\n  ] [\n  ]\n") == "protocol-deadlock");
  CHECK(id_of("  if %first.4 [\n    barrier.cta {id = 1, threads = 64}\n  ] [\n    barrier.cta {id = 1, threads = 32}\n  ]\n") == "protocol-arrivals");
}

TEST_CASE("register budgets are legal, go the way they say, and fit together") {
  const shape two_groups{.warps = 8};  // 65,536 / 256 threads: 248 registers each
  const auto budgets = [&](int low, int high, int dec = 0, int inc = 1) {
    return id_of(cat("  %20 = const {value = 4} : s32\n  %21 = cmp %warp.3, %20 {is = \"lt\"} : bool\n  if %21 [\n    set_registers {count = ", low, ", increase = ", dec,
                     "}\n  ] [\n    set_registers {count = ", high, ", increase = ", inc, "}\n  ]\n"),
                 two_groups);
  };
  CHECK(budgets(240, 256) == "");
  CHECK(budgets(244, 248) == "protocol-registers");   // no multiple of 8
  CHECK(budgets(16, 256) == "protocol-registers");    // below 24
  CHECK(budgets(240, 264) == "protocol-registers");   // above 256
  CHECK(budgets(40, 240) == "protocol-registers");    // inc from 248 to 240
  CHECK(budgets(248, 256) == "protocol-registers");   // nobody gave any back: waits for ever
  // Roles that wait for one that waits for registers: the report says where the registers are.
  const check::verdict v = check_text("  %20 = const {value = 4} : s32\n  %21 = cmp %warp.3, %20 {is = \"lt\"} : bool\n  if %21 [\n    set_registers {count = 248, increase = 0} @\"k.cpp\":20\n    barrier.cta {id = 1, threads = 256}\n"
                                      "  ] [\n    set_registers {count = 256, increase = 1} @\"k.cpp\":21\n    barrier.cta {id = 1, threads = 256}\n  ]\n",
                                      two_groups);
  REQUIRE(v.findings.size() == 1);
  CHECK(v.findings[0].id == "protocol-registers");
  CHECK(v.findings[0].what.find("k.cpp:20") != std::string::npos);
}

TEST_CASE("budgets of the CTA and of the SM") {
  CHECK(id_of("", {.shared_bytes = 232449}) == "protocol-budget");
  CHECK(id_of("", {.shared_bytes = 232448}) == "");
  CHECK(id_of("", {.warps = 33}) == "protocol-budget");
  CHECK(id_of("", {.cluster = 16}) == "");
  CHECK(id_of("", {.cluster = 17}) == "protocol-budget");
  CHECK(id_of(with(with(tensor, "{columns = 64}", "{columns = 256}"), "{columns = 64}", "{columns = 256}"), {.target = "sm_100a", .blocks = 2}) == "");
  CHECK(id_of(with(with(tensor, "{columns = 64}", "{columns = 256}"), "{columns = 64}", "{columns = 256}"), {.target = "sm_100a", .blocks = 3}) == "protocol-budget");
  CHECK(id_of(tensor, {.target = "sm_90a"}) == "protocol-budget");
}

TEST_CASE("shared memory is used inside of what the kernel asked for") {
  CHECK(id_of("  %20 = shared.base {offset = 65532} : u32\n  if %first.4 [\n    shared.store %20, %20\n  ] [\n  ]\n") == "");
  const check::verdict outside = check_text("  %20 = shared.base {offset = 65536} : u32\n  if %first.4 {role = \"far\", first_warp = 0} [\n    shared.store %20, %20\n  ] [\n  ]\n");
  CHECK(id_of(outside) == "protocol-shared-memory");
  CHECK(to_string(outside.findings.at(0)).find("role \"far\" (warp 0)") != std::string::npos);
  CHECK(id_of(with(load, "tma.load %slot.7", "%30 = shared.base {offset = 16} : u32\n tma.load %30")) == "protocol-shared-memory");
}

TEST_CASE("words written by one warp and read by another need a barrier between them") {
  const std::string body = "  if %first.4 [\n    shared.store %bar.6, %slot.7 @\"k.cpp\":40\n  ] [\n  ]\n  barrier.cta {id = 0, threads = 0}\n"
                           "  if %second.5 [\n    %20 = shared.load %slot.7 : u32 @\"k.cpp\":41\n  ] [\n  ]\n";
  CHECK(id_of(body) == "");
  CHECK(id_of(with(body, "  barrier.cta {id = 0, threads = 0}\n", "")) == "protocol-read-early");
  const std::string again = body + "  if %first.4 [\n    shared.store %bar.6, %slot.7\n  ] [\n  ]\n";
  CHECK(id_of(again) == "protocol-race");
}

TEST_CASE("tensor memory is allocated in sizes that exist, and freed as it was allocated") {
  CHECK(id_of(tensor, blackwell) == "");
  CHECK(id_of(with(tensor, "tmem.free %21 {columns = 64} @\"k.cpp\":31\n", ""), blackwell) == "protocol-tensor-memory");
  CHECK(id_of(with(tensor, "tmem.free %21 {columns = 64}", "tmem.free %21 {columns = 32}"), blackwell) == "protocol-tensor-memory");
  CHECK(id_of(with(with(tensor, "{columns = 64}", "{columns = 48}"), "{columns = 64}", "{columns = 48}"), blackwell) == "protocol-tensor-memory");
  CHECK(id_of(with(tensor, "  barrier.cta {id = 0, threads = 0}\n", ""), blackwell) != "");
}

TEST_CASE("an mbarrier is not initialised twice, and data does not lie over it") {
  CHECK(id_of(with(load, "fence.init\n", "mbarrier.init %bar.6 {count = 1}\n")) == "protocol-barrier");
  CHECK(id_of(with(load, "barrier.warp\n", "shared.store %bar.6, %bar.6\n    barrier.warp\n")) == "protocol-race");
}

TEST_CASE("inline PTX that touches barriers is said to be unchecked; what only computes is not") {
  const check::verdict touches = check_text(load + "  inline_ptx {text = \"fence.proxy.async;\", constraints = \"\"} @\"k.cpp\":50\n");
  CHECK(touches.findings.empty());
  REQUIRE(touches.unchecked.size() == 1);
  CHECK(touches.unchecked[0] == "inline PTX \"fence.proxy.async;\" at k.cpp:50 is not followed");
  const check::verdict computes = check_text(load + "  %50 = inline_ptx %one.2 {text = \"brev.b32 $0, $1;\", constraints = \"=r,r\"} : s32\n");
  CHECK(computes.unchecked.empty());
  CHECK(to_string(computes).rfind("protocol check: nothing found in ", 0) == 0);
}

TEST_CASE("a branch on a value that is not followed goes both ways") {
  const std::string body = "  %20 = inline_ptx %one.2 {text = \"brev.b32 $0, $1;\", constraints = \"=r,r\"} : s32\n  %21 = cmp %20, %zero.1 {is = \"gt\"} : bool\n"
                           "  if %21 [\n    barrier.cta {id = 1, threads = 96}\n  ] [\n  ]\n";
  CHECK(id_of(body) == "protocol-arrivals");
}

TEST_CASE("changed text of a lowered kernel gives a verdict, never a crash") {
  std::mt19937 bits(5);
  const std::string alphabet = "%{}[]:,=0123456789exnab \n";
  int judged = 0;
  for (int round = 0; round < 3000; ++round) {
    const shape s{.target = round % 2 ? "sm_100a" : "sm_90a"};
    std::string text = test::kernel_text(round % 3 == 0 ? load : round % 3 == 1 ? store : tensor, s);
    for (auto changes = 1 + bits() % 3; changes > 0; --changes) {
      const size_t at = bits() % text.size();
      switch (bits() % 4) {
        case 0: text[at] = alphabet[bits() % alphabet.size()]; break;
        case 1: text.erase(at, 1 + bits() % 6); break;
        case 2: {  // another operation of the same text
          const size_t from = text.find("\n", bits() % text.size()), to = from == std::string::npos ? from : text.find("\n", from + 1);
          if (to != std::string::npos) text.insert(to, text.substr(from, to - from));
          break;
        }
        default: text.insert(at, text.substr(bits() % text.size(), bits() % 12)); break;
      }
    }
    CAPTURE(text);
    try {
      const auto k = ir::parse(text);
      if (!ir::verify(*k).empty()) continue;
      check::check_protocol(*k);
      ++judged;
    } catch (const user_error& e) {
      CHECK(e.id() == "ir-malformed");
    }
  }
  CHECK(judged > 200);
}
