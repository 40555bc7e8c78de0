// The rules that prove mutants equal: each on the smallest kernel where it holds, and on its neighbour where it does not.
#include <doctest/doctest.h>

#include "proofs.hpp"
#include "tests/check/text.hpp"
#include "tlx/check/protocol.hpp"
#include "tlx/ir/text.hpp"

using namespace tlx;
using test::with;

namespace {

// Whether a rule proves that the `n`-th op of that kind does nothing that `operator_name` takes away.
bool proves(const std::string& operator_name, ir::opcode code, int n, const std::string& body, const test::shape& s = {}) {
  // Two rings of one slot, at 0 and 8192.
  const auto k = ir::parse(with(test::kernel_text(body, s), "offset = 0, bytes = 8192, stages = 3}", "offset = 0, bytes = 8192, stages = 1}\n  place {ring = \"cd\", part = \"slots\", offset = 8192, bytes = 8192, stages = 1}"));
  const ir::op* at = nullptr;
  ir::walk(k->body, [&](const ir::op& o) {
    if (o.is(code) && n-- == 0) at = &o;
  });
  REQUIRE(at);
  return !mutation::proof_by_rule(operator_name, *k, *at, check::check_protocol(*k).implied).empty();
}

const std::string zeros = R"(
  %20 = shared.base {offset = 8192} : u32
  shared.store %one.2, %slot.7
  fence.async
  barrier.cta {id = 0, threads = 0}
  shared.store %one.2, %20
  fence.async
  barrier.cta {id = 0, threads = 0}
  %21 = elect : bool
  if %21 [
    tma.store %slot.7, %zero.1, %zero.1 {map = 0}
    tma.commit
    tma.store %20, %zero.1, %zero.1 {map = 0}
    tma.commit
    tma.wait {pending = 0, read = 1}
  ] [
  ]
)";

const std::string products = R"(
  %20 = const {value = 1} : s64
  %21 = const {value = 0} : bool
  %acc.22 = var.new : var<tile<f32 64x64>>
  wgmma.fence
  wgmma.mma %acc.22, %20, %20, %21 {k = 16, element = "bf16", element_b = "bf16", ta = 0, tb = 0, row_block = 0, n = 64}
  wgmma.commit
  wgmma.fence
  wgmma.mma %acc.22, %20, %20, %21 {k = 16, element = "bf16", element_b = "bf16", ta = 0, tb = 0, row_block = 0, n = 64}
  wgmma.commit
  wgmma.wait {pending = 0}
  wgmma.wait %acc.22 {pending = 0}
)";

const std::string cell = R"(
  %c_parity.20 = var.new %zero.1 : var<s32>
  for %zero.1, %one.2, %one.2 [
    (%i.21 : s32)
    %22 = var.get %c_parity.20 : s32
    mbarrier.wait %bar.6, %22
    var.set %c_parity.20, %one.2
  ]
  var.set %c_parity.20, %zero.1
)";

}  // namespace

TEST_CASE("a fence and a barrier are covered by those behind the next write, not where something asynchronous comes between") {
  CHECK(proves("drop-proxy-fence", ir::opcode::fence_async, 0, zeros));
  CHECK_FALSE(proves("drop-proxy-fence", ir::opcode::fence_async, 1, zeros));
  const std::string one_barrier = with(zeros, "barrier.cta {id = 0, threads = 0}\n  %21", "%21");
  CHECK(proves("drop-proxy-fence", ir::opcode::fence_async, 0, one_barrier));  // all meet, and whoever copies runs the second fence behind that
  CHECK_FALSE(proves("drop-proxy-fence", ir::opcode::fence_async, 0, with(one_barrier, "  barrier.cta {id = 0, threads = 0}\n", "")));
  CHECK_FALSE(proves("drop-proxy-fence", ir::opcode::fence_async, 0, with(zeros, "  shared.store %one.2, %20\n", "  tma.store %slot.7, %zero.1, %zero.1 {map = 0}\n  shared.store %one.2, %20\n")));
  CHECK(proves("drop-cta-barrier", ir::opcode::barrier_cta, 0, zeros));
  CHECK_FALSE(proves("drop-cta-barrier", ir::opcode::barrier_cta, 1, zeros));
  CHECK_FALSE(proves("drop-cta-barrier", ir::opcode::barrier_cta, 0, with(zeros, "shared.store %one.2, %20", "shared.store %one.2, %slot.7")));
}

TEST_CASE("a commit is covered by the next where the first wait is for all groups") {
  CHECK(proves("drop-store-commit", ir::opcode::tma_commit, 0, zeros));
  CHECK_FALSE(proves("drop-store-commit", ir::opcode::tma_commit, 1, zeros));
  CHECK_FALSE(proves("drop-store-commit", ir::opcode::tma_commit, 0, with(zeros, "pending = 0", "pending = 1")));
  CHECK(proves("drop-wgmma-commit", ir::opcode::wgmma_commit, 0, products));
  CHECK_FALSE(proves("drop-wgmma-commit", ir::opcode::wgmma_commit, 1, products));
}

TEST_CASE("a wait for stores does nothing where no more are under way") {
  CHECK_FALSE(proves("drop-store-wait", ir::opcode::tma_wait, 0, zeros));
  CHECK(proves("drop-store-wait", ir::opcode::tma_wait, 0, with(zeros, "pending = 0", "pending = 2")));
  CHECK_FALSE(proves("drop-store-wait", ir::opcode::tma_wait, 0, with(zeros, "pending = 0", "pending = 1")));
}

TEST_CASE("a wait for products does nothing behind one for as many, a fence nothing behind one since which only products ran") {
  CHECK_FALSE(proves("wgmma-wait-more", ir::opcode::wgmma_wait, 0, with(products, "  wgmma.wait {pending = 0}\n", "  wgmma.wait {pending = 0}\n  mbarrier.arrive %bar.6 {count = 1}\n")));
  CHECK(proves("drop-wgmma-wait", ir::opcode::wgmma_wait, 0, products));  // the next one comes before anything else
  CHECK(proves("wgmma-wait-more", ir::opcode::wgmma_wait, 1, products));
  CHECK_FALSE(proves("wgmma-wait-more", ir::opcode::wgmma_wait, 0, with(products, "  wgmma.wait {pending = 0}\n", "")));
  CHECK_FALSE(proves("drop-wgmma-fence", ir::opcode::wgmma_fence, 0, products));
  CHECK(proves("drop-wgmma-fence", ir::opcode::wgmma_fence, 1, products));
  CHECK_FALSE(proves("drop-wgmma-fence", ir::opcode::wgmma_fence, 1, with(products, "  wgmma.commit\n  wgmma.fence", "  wgmma.commit\n  %30 = var.get %acc.22 : tile<f32 64x64>\n  wgmma.fence")));
}

TEST_CASE("a cell that no path reads again need not be set, one that the next round reads must") {
  CHECK_FALSE(proves("keep-phase", ir::opcode::var_set, 0, cell));
  CHECK(proves("keep-phase", ir::opcode::var_set, 1, cell));
}

TEST_CASE("a barrier of a warp is nothing where its lanes have nothing to hand on") {
  const std::string body = "  shared.store %one.2, %slot.7\n  barrier.warp\n  %20 = add %one.2, %one.2 : s32\n  barrier.warp\n  %21 = shared.load %slot.7 : u32\n  barrier.warp\n";
  CHECK(proves("drop-warp-barrier", ir::opcode::barrier_warp, 0, body));  // the second does it
  CHECK(proves("drop-warp-barrier", ir::opcode::barrier_warp, 1, body));
  CHECK(proves("drop-warp-barrier", ir::opcode::barrier_warp, 2, body));  // the end
  CHECK_FALSE(proves("drop-warp-barrier", ir::opcode::barrier_warp, 0, with(body, "  barrier.warp\n  %20", "  %20")));
}

TEST_CASE("a wait is nothing behind another for the same phase") {
  const std::string body = R"(
  if %first.4 [
    %20 = elect : bool
    if %20 [
      mbarrier.init %bar.6 {count = 2}
    ] [
    ]
  ] [
  ]
  barrier.cta {id = 0, threads = 0}
  %21 = elect : bool
  if %21 [
    mbarrier.arrive %bar.6 {count = 1}
  ] [
  ]
  mbarrier.wait %bar.6, %zero.1
  mbarrier.wait %bar.6, %zero.1
  %22 = shared.load %slot.7 : u32
)";
  const std::string written = with(body, "  barrier.cta", "  shared.store %one.2, %slot.7\n  barrier.cta");
  CHECK_FALSE(proves("drop-wait", ir::opcode::mbarrier_wait, 0, written));
  CHECK(proves("drop-wait", ir::opcode::mbarrier_wait, 1, written));
  CHECK(proves("drop-wait", ir::opcode::mbarrier_wait, 0, with(written, "  mbarrier.wait %bar.6, %zero.1\n  mbarrier.wait %bar.6, %zero.1\n", "  mbarrier.wait %bar.6, %zero.1\n  barrier.cta {id = 0, threads = 0}\n")));
}
