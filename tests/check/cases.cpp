// Faults that users of other systems met, at the level of the protocol check.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/mutation/operators.hpp"
#include "tests/pass/steps.hpp"
#include "text.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/kernels/gemm.hpp"
#include "tlx/kernels/scaled.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;
using test::check_text;
using test::id_of;
using test::shape;
using test::with;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, x), (view<bf16, 2>, y));
};

// A row of tiles goes through a ring of Stages slots: as many rounds as x has tiles.
template <int Stages>
std::unique_ptr<ir::kernel> pipeline(const std::string& target) {
  auto k = trace<arguments>("pipeline", target, [](block& cta, const arguments& in) {
    auto ring = cta.ring<Stages>("ab", shared<bf16, 64, 64>);
    cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, [&](const grid_box& t) { load(ring.fill(), in.x[t]); }),
              role("use", 4_warps, [&](const grid_box& t) { store(in.y[t], read(ring.drain())); }));
  });
  test::run_passes(*k);
  return k;
}

void is_clean(const ir::kernel& k) {
  const check::verdict v = check::check_protocol(k);
  CHECK_MESSAGE((v.findings.empty() && v.unchecked.empty()), check::to_string(v));
  CHECK(v.scenarios > 3);
}

}  // namespace

TEST_CASE("C25: a pipeline of one round, and of every number of rounds around its stages, ends") {
  for (const char* target : {"sm_90a", "sm_100a", "sm_103a"}) {
    is_clean(*pipeline<1>(target));
    is_clean(*pipeline<2>(target));
    is_clean(*pipeline<3>(target));
    is_clean(*pipeline<4>(target));
  }
}

TEST_CASE("C26: one stage is a single buffer that is handed over, not a hang") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    auto k = trace<kernels::gemm_arguments<bf16>>("one_stage", target, [](block& cta, const kernels::gemm_arguments<bf16>& in) {
      kernels::gemm<bf16, kernels::gemm_plan<64, 64, 64, 1>>(cta, in, kernels::plain_epilogue{});
    });
    test::run_passes(*k);
    is_clean(*k);
    auto attention = trace<kernels::attention_arguments<bf16>>("attention", target, [](block& cta, const kernels::attention_arguments<bf16>& in) { kernels::block_attention<bf16, 64, 64>(cta, in); });
    test::run_passes(*attention);
    is_clean(*attention);
  }
}

// Four mutants of a 3-stage pipeline, at 0 to 7 rounds: the report has the barrier, who waits and how far it is.
TEST_CASE("C31: a removed arrival, a count too high, a phase that never flips and the wrong stage are found before code is generated") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    std::map<std::string, int> found;
    mutation::for_each_mutant(*pipeline<3>(target), 0, 1, [&](mutation::mutant& m) {
      const bool wanted = m.name == "drop-arrive" || m.name == "count-more" || m.name == "keep-phase" || m.name == "wrong-barrier" || m.name == "keep-stage";
      if (!wanted) return;
      const check::verdict v = check::check_protocol(*m.kernel);
      CAPTURE(m.name);
      CAPTURE(m.site);
      REQUIRE(!v.findings.empty());
      const std::string text = to_string(v.findings[0]);
      const bool no_barrier = text.find("an mbarrier at byte") != std::string::npos;  // moved behind the last one: it has no name
      CHECK_MESSAGE((no_barrier || text.find("ring \"ab\"") != std::string::npos), text);
      if (v.findings[0].id == "protocol-deadlock") {
        CHECK_MESSAGE(text.find("waits for phase ") != std::string::npos, text);
        CHECK_MESSAGE(text.find("cases.cpp:") != std::string::npos, text);
      }
      ++found[m.name];
    });
    CHECK(found["drop-arrive"] == 1);
    CHECK(found["count-more"] == 6);
    CHECK(found["keep-phase"] == 2);
    CHECK(found["keep-stage"] == 2);
    CHECK(found["wrong-barrier"] >= 8);
  }
}

// A barrier of 32 and one elected lane that copies: everybody arrives once, the one with the bytes.
TEST_CASE("C34: whoever takes part in a copy is counted") {
  const std::string body = R"(
  %20 = elect : bool
  if %first.4 [
    if %20 [
      mbarrier.init %bar.6 {count = 32}
    ] [
    ]
    barrier.warp
    if %20 [
      mbarrier.expect %bar.6 {bytes = 8192}
      tma.load %slot.7, %bar.6, %zero.1, %zero.1 {map = 0, hint = 0, multicast = 0}
    ] [
      mbarrier.arrive %bar.6 {count = 1}
    ]
    mbarrier.wait %bar.6, %zero.1
  ] [
  ]
)";
  const shape one_warp{.warps = 1};
  CHECK(id_of(body, one_warp) == "");
  CHECK(id_of(with(body, "    ] [\n      mbarrier.arrive %bar.6 {count = 1}\n    ]\n", "    ] [\n    ]\n"), one_warp) == "protocol-deadlock");              // only the one who copies
  CHECK(id_of(with(body, "    ] [\n      mbarrier.arrive %bar.6 {count = 1}\n    ]\n", "    ] [\n    ]\n    mbarrier.arrive %bar.6 {count = 1}\n"), one_warp) == "protocol-arrivals");  // and everybody once more
}

TEST_CASE("C36: two loops one after the other in twelve warps have barriers of their own for the whole kernel") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    auto k = trace<arguments>("two_loops", target, [](block& cta, const arguments& in) {
      auto one = cta.ring<2>("one", shared<bf16, 64, 64>);
      auto two = cta.ring<4>("two", shared<bf16, 64, 64>);
      const auto rounds = [&] { return ceil_div(in.x.extent(1), 64); };
      cta.roles(cta.persistent(grid_of<64, 64>(in.y)), role("load", 4_warps, [&](const grid_box& t) {
                  for_each(rounds(), [&](tlx::index i) { load(one.fill(), in.x.at(t.row, i * 64)); });
                  for_each(rounds(), [&](tlx::index i) { load(two.fill(), in.x.at(t.row, i * 64)); });
                }),
                role("work", 8_warps, [&](const grid_box& t) {
                  for_each(rounds(), [&](tlx::index i) { store(in.y.at(t.row, i * 64), read(one.drain())); });
                  for_each(rounds(), [&](tlx::index i) { store(in.y.at(t.row, i * 64), read(two.drain())); });
                }));
    });
    test::run_passes(*k);
    CHECK(k->warps == 12);
    is_clean(*k);
    std::set<std::int64_t> taken;
    for (const ir::place& p : k->places)
      if (p.is_barrier())
        for (int s = 0; s < p.stages; ++s) CHECK(taken.insert(p.offset + 8 * s).second);
    CHECK(taken.size() == 2 * (2 + 4));
  }
}

TEST_CASE("C37: a pair of CTAs that allocates tensor memory together meets before one of them frees it") {
  const std::string body = R"(
  %20 = shared.base {offset = 40000} : u32
  if %first.4 [
    tmem.alloc %20 {columns = 64, group = 2}
    tmem.relinquish
  ] [
  ]
  cluster.sync {relaxed = 0}
  %21 = shared.load %20 : u32
  if %first.4 [
    tmem.free %21 {columns = 64, group = 2}
  ] [
  ]
)";
  const shape pair{.target = "sm_100a", .cluster = 2};
  CHECK(id_of(body, pair) == "");
  const check::verdict v = check_text(with(body, "cluster.sync {relaxed = 0}", "barrier.cta {id = 0, threads = 0}"), pair);
  REQUIRE(v.findings.size() == 1);
  CHECK(v.findings[0].id == "protocol-tensor-memory");
  CHECK(v.findings[0].what.find("CTA 0 frees tensor memory of a pair, and CTA 1 may not have allocated it yet") == 0);
}

TEST_CASE("C38: an accumulator without an allocation is an error, and every way out of the kernel frees") {
  const std::string use = "  %20 = const {value = 0} : u32\n  %21 = const {value = 0} : s64\n  %22 = const {value = 0} : bool\n  %23 = elect : bool\n"
                          "  if %first.4 [\n    if %23 [\n      tma.load %slot.7, %bar.6, %zero.1, %zero.1 {map = 0}\n      tcgen05.mma %20, %21, %21, %22 {kind = \"f16\", idesc = 68158608, group = 1}\n    ] [\n    ]\n  ] [\n  ]\n";
  const std::string alone = with(use, "      tma.load %slot.7, %bar.6, %zero.1, %zero.1 {map = 0}\n", "");
  const check::verdict v = check_text("  if %first.4 [\n    shared.store %bar.6, %slot.7\n    fence.async\n    barrier.warp\n  ] [\n  ]\n" + alone, {.target = "sm_100a"});
  REQUIRE(v.findings.size() == 1);
  CHECK(v.findings[0].id == "protocol-tensor-memory");
  CHECK(v.findings[0].what.find("which is not allocated") != std::string::npos);
  const std::string leak = "  %20 = shared.base {offset = 40000} : u32\n  if %first.4 [\n    tmem.alloc %20 {columns = 64}\n  ] [\n  ]\n  barrier.cta {id = 0, threads = 0}\n  %21 = shared.load %20 : u32\n"
                           "  %22 = extent %a.0 {axis = 0} : s32\n  %23 = const {value = 64} : s32\n  %24 = cmp %22, %23 {is = \"gt\"} : bool\n  %25 = and %24, %first.4 : bool\n"
                           "  if %25 [\n    tmem.free %21 {columns = 64}\n  ] [\n  ]\n";
  CHECK(id_of(leak, {.target = "sm_100a"}) == "protocol-tensor-memory");  // where the extent is small, nobody frees
}

TEST_CASE("a remote arrival needs the barrier's initialisation seen by the cluster, and its CTA still there") {
  const std::string body = R"(
  %rank.20 = cluster_rank : s32
  %21 = elect : bool
  if %first.4 [
    if %21 [
      mbarrier.init %bar.6 {count = 1}
      fence.init
    ] [
    ]
  ] [
  ]
  cluster.sync {relaxed = 1}
  if %first.4 {role = "tell", first_warp = 0} [
    %22 = sub %one.2, %rank.20 : s32
    if %21 [
      mbarrier.remote %bar.6, %22
    ] [
    ]
    mbarrier.wait %bar.6, %zero.1
  ] [
  ]
  cluster.sync {relaxed = 0}
)";
  const shape pair{.cluster = 2};
  CHECK(id_of(body, pair) == "");
  CHECK(id_of(with(body, "      fence.init\n", ""), pair) == "protocol-barrier");
  CHECK(id_of(with(body, "  cluster.sync {relaxed = 1}\n", "  barrier.cta {id = 0, threads = 0}\n"), pair) == "protocol-barrier");
  CHECK(id_of(with(body, "    mbarrier.wait %bar.6, %zero.1\n", ""), pair) == "");
  CHECK(id_of(with(with(body, "    mbarrier.wait %bar.6, %zero.1\n", ""), "  cluster.sync {relaxed = 0}\n", ""), pair) == "protocol-exit");
}

TEST_CASE("C29: a copy into every CTA of a cluster needs all of them to agree on it, their barriers to be there, and the CTAs to stay") {
  const std::string body = R"(
  %rank.20 = cluster_rank : s32
  %21 = elect : bool
  if %first.4 [
    if %21 [
      mbarrier.init %bar.6 {count = 1}
      fence.init
    ] [
    ]
  ] [
  ]
  cluster.sync {relaxed = 1}
  if %first.4 {role = "load", first_warp = 0} [
    %22 = cmp %rank.20, %zero.1 {is = "eq"} : bool
    if %21 [
      mbarrier.expect %bar.6 {bytes = 8192}
      if %22 [
        tma.load %slot.7, %bar.6, %zero.1, %zero.1 {map = 0, hint = 0, multicast = 3}
      ] [
      ]
    ] [
    ]
    barrier.warp
  ] [
  ]
  if %second.5 {role = "use", first_warp = 1} [
    mbarrier.wait %bar.6, %zero.1
    %23 = shared.load %slot.7 : u32
  ] [
  ]
)";
  const shape pair{.cluster = 2};
  CHECK(id_of(body, pair) == "");
  CHECK(id_of(with(body, "multicast = 3", "multicast = 1"), pair) == "protocol-deadlock");  // CTA 1 waits for bytes that nobody sends
  CHECK(id_of(with(body, "  cluster.sync {relaxed = 1}\n", "  barrier.cta {id = 0, threads = 0}\n"), pair) == "protocol-barrier");
  CHECK(id_of(with(body, "    mbarrier.wait %bar.6, %zero.1\n    %23 = shared.load %slot.7 : u32\n", ""), pair) == "protocol-exit");
}

TEST_CASE("roles that take their bounds and conditions from two views of one size are right") {
  auto k = trace<arguments>("two_views", "sm_90a", [](block& cta, const arguments& in) {
    auto ring = cta.ring<3>("ab", shared<bf16, 64, 64>);
    cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, [&](const grid_box& t) {
                for_each(ceil_div(in.x.extent(1), 64), [&](tlx::index i) { load(ring.fill(), in.x.at(t.row, i * 64)); });
                when(in.x.extent(0) > 100, [&] { load(ring.fill(), in.x.at(t.row, 0)); });
              }),
              role("use", 4_warps, [&](const grid_box& t) {
                for_each(ceil_div(in.y.extent(1), 64), [&](tlx::index i) { store(in.y.at(t.row, i * 64), read(ring.drain())); });
                when(in.y.extent(0) > 100, [&] { store(in.y.at(t.row, 0), read(ring.drain())); });
              }));
  });
  test::run_passes(*k);
  const check::verdict v = check::check_protocol(*k);
  CHECK_MESSAGE(v.findings.empty(), check::to_string(v));
}

namespace {

// Operators and sites of the mutants by these operators in which the check finds nothing.
std::set<std::string> not_found(const ir::kernel& k, const std::set<std::string>& operators) {
  std::set<std::string> found;
  mutation::for_each_mutant(k, 0, 1, [&](mutation::mutant& m) {
    if (operators.count(m.name) && check::check_protocol(*m.kernel).findings.empty()) found.insert(m.name + " at " + m.site);
  });
  return found;
}

struct jagged_arguments {
  TLX_ARGUMENTS(jagged_arguments, (view<bf16, 3>, x), (view<bf16, 3>, y), (view<std::int32_t, 1>, offsets));
};

}  // namespace

TEST_CASE("sequences of a jagged kernel have as many blocks as a ring has slots, and more, and several tiles") {
  const auto trace_for = [](const std::string& target) {
    auto k = trace<jagged_arguments>("sequences", target, [](block& cta, const jagged_arguments& in) {
      auto outer = cta.ring<1>("outer", shared<bf16, 64, 64>);
      auto inner = cta.ring<3>("inner", shared<bf16, 64, 64>);
      const auto blocks = [&](const jagged_box& t) { return ceil_div(element(in.offsets.at(t.sequence + 1)) - element(in.offsets.at(t.sequence)), 64); };
      const auto first = [&](const jagged_box& t) { return element(in.offsets.at(t.sequence)); };
      cta.roles(cta.persistent(jagged<64>(in.offsets, in.x)), role("load", 1_warp, [&](const jagged_box& t) {
                  load(outer.fill(), in.x.at(t.row, t.head, 0).axes(0, 2));
                  for_each(blocks(t), [&](tlx::index i) { load(inner.fill(), in.x.at(first(t) + i * 64, t.head, 0).axes(0, 2)); });
                }),
                role("add", 4_warps, [&](const jagged_box& t) {
                  auto sum = cta.carry(cast<float>(read(outer.drain())));
                  for_each(blocks(t), [&](tlx::index) { sum.set(sum.get() + cast<float>(read(inner.drain()))); });
                  store(in.y.at(t.row, t.head, 0).axes(0, 2), cast<bf16>(sum.get()));
                }));
    });
    test::run_passes(*k);
    return k;
  };
  for (const char* target : {"sm_90a", "sm_100a"}) {
    const auto k = trace_for(target);
    const check::verdict v = check::check_protocol(*k);
    CHECK_MESSAGE(v.findings.empty(), check::to_string(v));
    for (const std::string& each : not_found(*k, {"drop-arrive", "drop-init", "drop-wait", "count-more", "count-less", "arrive-twice", "keep-phase", "keep-stage", "wrong-phase"})) FAIL_CHECK(std::string(target), ": ", each);
  }
}

TEST_CASE("a ring of many slots is left at each of them") {
  auto k = trace<kernels::gemm_arguments<bf16>>("eight", "sm_100a", [](block& cta, const kernels::gemm_arguments<bf16>& in) {
    kernels::gemm<bf16, kernels::gemm_plan<64, 64, 64, 8>>(cta, in, kernels::plain_epilogue{});
  });
  test::run_passes(*k);
  is_clean(*k);
  // The cells that the last wait of all has read.
  CHECK(not_found(*k, {"keep-phase", "keep-stage"}) == std::set<std::string>{"keep-phase at var.set in load, ab_parity #8", "keep-stage at var.set in load, ab_stage #8"});
}

TEST_CASE("block scales are in tensor memory before the products that read them, each unit, and nowhere else") {
  const auto made = [] {
    auto k = trace<kernels::scaled_arguments<e2m1x2, e2m1x2, ue4m3, bf16>>("scaled", "sm_100a", [](block& cta, const auto& in) {
      kernels::scaled_gemm<kernels::scaled_plan<256, 2>>(cta, in, kernels::plain_epilogue{});
    });
    test::run_passes(*k);
    return k;
  };
  const auto list = [](const ir::kernel& k, ir::opcode code) {
    std::vector<ir::op*> found;
    ir::walk(const_cast<ir::kernel&>(k).body, [&](const ir::op& o) {
      if (o.is(code)) found.push_back(const_cast<ir::op*>(&o));
    });
    return found;
  };
  const auto first_finding = [](const ir::kernel& k) {
    const check::verdict v = check::check_protocol(k);
    return v.findings.empty() ? std::string() : v.findings[0].id;
  };
  const auto whole = made();
  is_clean(*whole);
  const size_t copies = list(*whole, ir::opcode::tcgen05_copy).size();
  CHECK(copies == 4 + 2 * 4);
  CHECK(list(*whole, ir::opcode::tcgen05_scaled).size() == 4);
  for (size_t i = 0; i < copies; ++i) {  // one unit that is not copied
    auto k = made();
    ir::erase(*list(*k, ir::opcode::tcgen05_copy)[i]);
    CAPTURE(i);
    CHECK(first_finding(*k) == "protocol-read-early");
  }
  auto late = made();  // all copies behind the products
  ir::region& r = *list(*late, ir::opcode::tcgen05_copy)[0]->parent;
  std::stable_partition(r.ops.begin(), r.ops.end(), [](const auto& o) { return !o->is(ir::opcode::tcgen05_copy); });
  CHECK(first_finding(*late) == "protocol-read-early");
  auto over = made();  // sums where the scales are
  const ir::value scales_at = list(*over, ir::opcode::tcgen05_scaled)[0]->operands[3];
  for (ir::op* o : list(*over, ir::opcode::tcgen05_scaled)) o->operands[0] = scales_at;
  CHECK(first_finding(*over) == "protocol-race");
}

TEST_CASE("a loop that only two sizes together make run is run") {
  auto k = trace<arguments>("two_sizes", "sm_90a", [](block& cta, const arguments& in) {
    auto ring = cta.ring<2>("ab", shared<bf16, 64, 64>);
    const auto rounds = [&] { return min(in.x.extent(1), in.y.extent(1)) / 128; };
    cta.roles(cta.persistent(grid_of<64, 4096>(in.x)), role("load", 1_warp, [&](const grid_box& t) { for_each(rounds(), [&](tlx::index i) { load(ring.fill(), in.x.at(t.row, i * 64)); }); }),
              role("use", 4_warps, [&](const grid_box& t) { for_each(rounds(), [&](tlx::index i) { store(in.y.at(t.row, i * 64), read(ring.drain())); }); }));
  });
  test::run_passes(*k);
  is_clean(*k);
  CHECK(not_found(*k, {"drop-arrive", "drop-expect", "drop-load"}).empty());
}

// Blocks that end in their first half go another way, and the loop over tiles makes an even number of rounds whatever the size is.
TEST_CASE("both ways of a tile are run, each several times in a row and one after the other") {
  auto k = trace<kernels::attention_arguments<bf16>>("halves", "sm_90a", [](block& cta, const kernels::attention_arguments<bf16>& in) { kernels::block_attention_by_halves<bf16, 256, 64>(cta, in); });
  test::run_passes(*k);
  is_clean(*k);
  CHECK(not_found(*k, {"drop-arrive", "count-less", "arrive-twice", "wrong-phase", "keep-phase", "keep-stage", "wrong-barrier", "wrong-slot"}).empty());
}
