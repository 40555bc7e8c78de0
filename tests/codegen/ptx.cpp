// The PTX of complete kernels and of single operations: its key instructions, and ptxas as a judge where there is one.
#include "tlx/codegen/to_ptx.hpp"

#include <doctest/doctest.h>

#include "tests/codegen/assemble.hpp"
#include "tests/codegen/kernels.hpp"
#include "tests/codegen/look.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/support/error.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/layout_ops.hpp"

using namespace tlx;
using namespace test;
using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using tile::element;

TEST_CASE("the code generator is LLVM 22") { CHECK(codegen::llvm_version().substr(0, 3) == "22."); }

TEST_CASE("the elementwise kernel has masked vector accesses and its line numbers") {
  auto k = add_views("sm_90a", 4);
  const std::string ptx = compile(*k);
  CHECK(contains(ptx, ".version 9.0"));
  CHECK(contains(ptx, ".target sm_90a\n"));
  CHECK(contains(ptx, ".visible .entry add_views("));
  CHECK(contains(ptx, ".reqntid 128, 1, 1"));
  CHECK(contains(ptx, ".minnctapersm 1"));
  CHECK(count(ptx, "ld.global.v4.b32") == 8);
  CHECK(count(ptx, "st.global.v4.b32") == 4);
  CHECK(count(ptx, "add.rn.ftz.f32") == 16);
  CHECK(count(ptx, "\n\t@%p") == 12);  // every access is predicated, nothing branches
  CHECK(contains(ptx, ".loc\t1 "));
  CHECK(contains(ptx, "kernels.cpp"));
  CHECK(!contains(compile(*k, {.line_info = false}), ".loc"));
}

TEST_CASE("the vector attribute decides the width of an access") {
  CHECK(count(compile(*add_views("sm_90a", 1)), "ld.global.b32") == 32);
  CHECK(count(compile(*add_views("sm_90a", 2)), "ld.global.v2.b32") == 16);
}

TEST_CASE("parameters lie as the host expects them: maps, then address, extents and strides of each view, scalars as themselves") {
  auto k = copy_by_tma("sm_90a");
  add_parameter(*k, "flag", type::scalar(element::boolean));
  add_parameter(*k, "wide", type::scalar(element::s64));
  add_parameter(*k, "half", type::scalar(element::f16));
  const std::string ptx = compile(*k);
  const char* expected[] = {".align 128 .b8 copy_by_tma_param_0[128]", ".u64 .ptr .global .align 2 copy_by_tma_param_1", ".u32 copy_by_tma_param_2", ".u32 copy_by_tma_param_3",
                            ".u64 copy_by_tma_param_4",               ".u64 .ptr .global .align 2 copy_by_tma_param_5",   ".u32 copy_by_tma_param_6", ".u32 copy_by_tma_param_7",
                            ".u64 copy_by_tma_param_8",               ".u32 copy_by_tma_param_9",                          ".u32 copy_by_tma_param_10", ".u8 copy_by_tma_param_11",
                            ".u64 copy_by_tma_param_12",              ".u16 copy_by_tma_param_13"};
  size_t at = 0;
  for (const std::string line : expected) {
    CAPTURE(line);
    at = ptx.find(line, at);
    REQUIRE(at != std::string::npos);
  }
}

TEST_CASE("a tensor map is used where it lies, never copied to local memory") {
  for (const char* target : targets) {
    const std::string ptx = compile(*copy_by_tma(target));
    CHECK(contains(ptx, "cvta.param.u64"));
    CHECK(!contains(ptx, ".local"));
    CHECK(!contains(ptx, "ld.param.b8"));
    CHECK(contains(ptx, "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint ["));
    CHECK(contains(ptx, "mbarrier.arrive.expect_tx.shared::cta.b64 _, ["));
    CHECK(contains(ptx, "mbarrier.try_wait.parity"));
    CHECK(count(ptx, "ld.shared.v4.b32") == 4);
  }
}

TEST_CASE("a chain of wgmma keeps its accumulator in place") {
  const std::string ptx = compile(*wgmma_tile());
  CHECK(count(ptx, "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16") == 4);
  CHECK(count(ptx, "setp.ne.b32 p, 0, 0; wgmma") == 1);  // the first one does not read it
  CHECK(count(ptx, "setp.ne.b32 p, 1, 0; wgmma") == 3);
  const std::string chain = between(ptx, "wgmma.mma_async", "wgmma.wait_group");
  CHECK(!contains(chain, "mov."));
  CHECK(register_list(ptx, "wgmma.mma_async", 0) == register_list(ptx, "wgmma.mma_async", 3));
}

TEST_CASE("the tcgen05 kernel has all its parts in order") {
  for (const char* target : {"sm_100a", "sm_103a"}) {
    const std::string ptx = compile(*tcgen05_tile(target));
    CHECK(in_order(ptx, {"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", "tcgen05.relinquish_alloc_permit", "bar.sync 0", "cp.async.bulk.tensor", "tcgen05.mma.cta_group::1.kind::f16",
                         "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64", "tcgen05.fence::after_thread_sync", "tcgen05.ld.sync.aligned.32x32b.x64.b32",
                         "tcgen05.wait::ld.sync.aligned", "st.global.v4.b32", "tcgen05.dealloc.cta_group::1.sync.aligned.b32"}));
    CHECK(count(ptx, "tcgen05.mma.") == 4);
    // Nothing may read a register of the load before the wait.
    CHECK(instructions(between(ptx, "tcgen05.ld.sync", "tcgen05.wait::ld")) == 0);
  }
}

TEST_CASE("ptxas accepts the complete kernels for every target, without advisories or spills") {
  if (skip_without_ptxas()) return;
  for (const char* target : targets) {
    CAPTURE(target);
    accepted(*add_views(target, 4));
    accepted(*add_views(target, 1));
    accepted(*copy_by_tma(target));
  }
  accepted(*wgmma_tile());
  accepted(*tcgen05_tile("sm_100a"));
  accepted(*tcgen05_tile("sm_103a"));
}

TEST_CASE("the text form of a kernel gives the same PTX as the kernel") {
  for (const auto& k : {add_views("sm_90a", 4), copy_by_tma("sm_90a"), wgmma_tile(), tcgen05_tile("sm_100a")})
    CHECK(codegen::to_ptx(*ir::parse(ir::print(*k))) == codegen::to_ptx(*k));
}

TEST_CASE("code without optimisation is accepted too") {
  const std::string ptx = compile(*wgmma_tile(), {.optimise = false});
  CHECK(count(ptx, "wgmma.mma_async") == 4);
  CHECK(!contains(ptx, ".local"));
  if (skip_without_ptxas()) return;
  CHECK(assemble(ptx, "sm_90a").ok);
}

TEST_CASE("the LLVM text names its target and holds the kernel") {
  const std::string text = codegen::to_llvm(*wgmma_tile());
  CHECK(contains(text, "target triple = \"nvptx64-nvidia-cuda\""));
  CHECK(contains(text, "define ptx_kernel void @wgmma_tile("));
  CHECK(contains(text, "p3:32:32"));
  CHECK(contains(text, "nvvm.grid_constant"));
}

TEST_CASE("an operation that a pass should have replaced is an error that names it") {
  auto k = new_kernel("raw", "sm_90a", 4);
  builder b(*k, k->body);
  b.make(opcode::ring_make, {}, {type::ring_of(2, {type::shared_of(element::bf16, 64, 64, 128)})});
  CHECK(error_id([&] { codegen::to_ptx(*k); }) == "codegen-unlowered");
}

TEST_CASE("a tile without a layout is an error") {
  auto k = new_kernel("raw", "sm_90a", 4);
  builder b(*k, k->body);
  b.splat(1, type::tile_of(element::f32, 64, 64));
  CHECK(error_id([&] { codegen::to_ptx(*k); }) == "codegen-layout");
}

TEST_CASE("a target nobody knows is a user error") {
  auto k = new_kernel("raw", "sm_80", 4);
  CHECK(error_id([&] { codegen::to_ptx(*k); }) == "target-unknown");
}
