// Ways in which LLVM or ptxas is known to break or slow down such kernels silently: one test each.
#include <doctest/doctest.h>

#include "tests/codegen/kernels.hpp"
#include "tests/codegen/look.hpp"
#include "tlx/tile/fragments.hpp"

using namespace tlx;
using namespace test;
using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using tile::element;

namespace {
using integers = std::vector<std::int64_t>;
value base(builder& b, std::int64_t offset) { return b.simple(opcode::shared_base, element::u32, {{"offset", offset}}); }

void mma(builder& b, value d, value descriptor) {
  b.make(opcode::tcgen05_mma, {d, descriptor, descriptor, b.boolean(true)}, {}, {{"kind", std::string("f16")}, {"idesc", std::int64_t{135267472}}, {"group", std::int64_t{1}}});
}
value descriptor(builder& b, value slot) { return b.make(opcode::descriptor, {slot}, {type::scalar(element::s64)}, {{"bits", (std::int64_t{1} << 62) | (std::int64_t{64} << 32) | (1 << 16)}}).result(); }
}  // namespace

TEST_CASE("two equal accumulating MMAs stay two") {
  const std::string ptx = compile_body("sm_100a", 4, [](ir::kernel&, builder& b) {
    value d = b.make(opcode::shared_load, {base(b, 0)}, {type::scalar(element::u32)}).result();
    value a = descriptor(b, base(b, 1024));
    mma(b, d, a);
    mma(b, d, a);
  });
  CHECK(count(ptx, "tcgen05.mma.") == 2);
}

TEST_CASE("a store of operand data before an MMA is kept although the place is written again after it") {
  const std::string ptx = compile_body("sm_100a", 4, [](ir::kernel&, builder& b) {
    value d = b.make(opcode::shared_load, {base(b, 0)}, {type::scalar(element::u32)}).result();
    value slot = base(b, 1024);
    b.make(opcode::shared_store, {b.integer(1, element::u32), slot});
    mma(b, d, descriptor(b, slot));
    b.make(opcode::shared_store, {b.integer(2, element::u32), slot});
  });
  CHECK(in_order(ptx, {"st.shared.b32", "tcgen05.mma", "st.shared.b32"}));
}

TEST_CASE("a loop of a known number of MMAs is not unrolled") {
  for (const bool optimise : {true, false}) {
    auto k = make_body("sm_100a", 4, [](ir::kernel&, builder& b) {
      value d = b.make(opcode::shared_load, {base(b, 0)}, {type::scalar(element::u32)}).result();
      value a = descriptor(b, base(b, 1024));
      b.for_each(b.integer(0), b.integer(64), b.integer(1), [&](builder& in, value) { mma(in, d, a); });
    });
    const std::string ptx = compile(*k, {.optimise = optimise});
    CHECK(count(ptx, "tcgen05.mma.") == 1);
    CHECK(contains(ptx, ".pragma \"nounroll\";"));
  }
}

TEST_CASE("C73: setmaxnreg is not ignored: the entry's register count is known") {
  auto k = make_body("sm_90a", 12, [](ir::kernel&, builder& b) {
    value producer = b.compare("lt", b.simple(opcode::warp_id, element::s32), b.integer(4));
    b.when(
        producer, [](builder& p) { p.make(opcode::set_registers, {}, {}, {{"count", std::int64_t{40}}, {"increase", std::int64_t{0}}}); },
        [](builder& c) { c.make(opcode::set_registers, {}, {}, {{"count", std::int64_t{232}}, {"increase", std::int64_t{1}}}); });
  });
  const std::string ptx = compile(*k);
  CHECK(contains(ptx, "setmaxnreg.dec.sync.aligned.u32 40;"));
  CHECK(contains(ptx, "setmaxnreg.inc.sync.aligned.u32 232;"));
  CHECK(contains(ptx, ".minnctapersm 1"));
  if (skip_without_ptxas()) return;
  accepted(*k);
}

namespace {
/// A k loop of 64 x n x 64 products with waits inside; `keep` groups stay in flight over the back edge.
std::unique_ptr<ir::kernel> wgmma_loop(int rows, int n, std::int64_t keep) {
  return make_body("sm_90a", 4, [=](ir::kernel& k, builder& b) {
    value out = add_parameter(k, "d", type::view_of(element::f32, 2));
    value steps = add_parameter(k, "steps", type::scalar(element::s32));
    const type t = type::tile_of(element::f32, rows, n).with_layout(tile::wgmma_accumulator(rows, n, 4));
    value acc = b.var(t, nullptr, "acc");
    b.for_each(b.integer(0), steps, b.integer(1), [&](builder& in, value i) {
      value bar = in.add(base(in, 65536), in.mul(in.cast(i, element::u32), 8));
      in.make(opcode::mbarrier_wait, {bar, in.integer(0)});
      value offset = in.mul(in.binary(opcode::bit_and, in.cast(i, element::u32), in.integer(1, element::u32)), 32768);
      value da = descriptor(in, in.add(base(in, 0), offset)), db = descriptor(in, in.add(base(in, 16384), offset));
      in.make(opcode::wgmma_fence);
      for (std::int64_t step = 0; step < 4; ++step)
        for (std::int64_t block = 0; block < rows / 64; ++block)
          in.make(opcode::wgmma_mma, {acc, in.add(da, 2 * step + 512 * block), in.add(db, 2 * step), step > 0 ? in.boolean(true) : in.compare("gt", i, in.integer(0))}, {},
                  {{"k", std::int64_t{16}}, {"element", std::string("bf16")}, {"n", std::int64_t{n}}, {"row_block", block}, {"step", step}});
      in.make(opcode::wgmma_commit);
      in.make(opcode::wgmma_wait, {}, {}, {{"pending", keep}});
    });
    b.make(opcode::wgmma_wait, {acc}, {}, {{"pending", std::int64_t{0}}});
    b.make(opcode::global_store, {b.get(acc), out, b.integer(0), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}, {"vector", std::int64_t{2}}});
  });
}
}  // namespace

TEST_CASE("a wgmma loop copies no accumulator register and needs no more than the accumulators and a few") {
  for (const std::int64_t keep : {0, 1}) {
    auto k = wgmma_loop(64, 256, keep);
    const std::string loop = between(compile(*k), "wgmma.fence", "bra");
    CHECK(count(loop, "wgmma.mma_async") == 4);
    CHECK(count(loop, "mov.b32") == 0);
    if (ptxas().empty()) continue;
    CHECK(accepted(*k) <= 168);
  }
}

TEST_CASE("two row blocks of one accumulator are two chains of registers") {
  auto k = wgmma_loop(128, 128, 0);
  const std::string ptx = compile(*k);
  CHECK(count(ptx, "wgmma.mma_async.sync.aligned.m64n128k16") == 8);
  CHECK(register_list(ptx, "wgmma.mma_async", 0) != register_list(ptx, "wgmma.mma_async", 1));
  CHECK(register_list(ptx, "wgmma.mma_async", 0) == register_list(ptx, "wgmma.mma_async", 2));
  CHECK(register_list(ptx, "wgmma.mma_async", 1) == register_list(ptx, "wgmma.mma_async", 7));
  if (skip_without_ptxas()) return;
  accepted(*k);
}

TEST_CASE("a read of two pieces of tensor memory shares no register before the wait") {
  auto k = make_body("sm_100a", 4, [](ir::kernel& kernel, builder& b) {
    value out = add_parameter(kernel, "d", type::view_of(element::f32, 2));
    const type t = type::tile_of(element::f32, 128, 32).with_layout(tile::tmem_rows_32x32b(128, 32, 4));
    value at = b.make(opcode::shared_load, {base(b, 0)}, {type::scalar(element::u32)}).result();
    value x = b.make(opcode::tmem_load, {at}, {t}, {{"shape", std::string("32x32b")}}).result();
    value y = b.make(opcode::tmem_load, {b.add(at, 32)}, {t}, {{"shape", std::string("32x32b")}}).result();
    ir::op& wait = b.make(opcode::tmem_wait_load, {x, y}, {t, t});
    b.make(opcode::global_store, {b.add(wait.result(0), wait.result(1)), out, b.integer(0), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}, {"vector", std::int64_t{4}}});
  });
  const std::string ptx = compile(*k);
  CHECK(in_order(ptx, {"tcgen05.ld", "tcgen05.ld", "tcgen05.wait::ld", "add.rn.ftz.f32"}));
  CHECK(!contains(between(ptx, "tcgen05.ld", "tcgen05.wait::ld"), "add.rn"));
  if (skip_without_ptxas()) return;
  accepted(*k);
}

TEST_CASE("a load before a wait for the previous kernel is not merged with the load after it") {
  const std::string ptx = compile_body("sm_90a", 1, [](ir::kernel& k, builder& b) {
    value in = add_parameter(k, "x", type::view_of(element::f32, 1)), out = add_parameter(k, "y", type::view_of(element::f32, 1));
    value zero = b.integer(0);
    const auto load = [&] { return b.make(opcode::global_load, {in, zero}, {type::scalar(element::f32)}).result(); };
    value before = load();
    b.make(opcode::depend_wait);
    b.make(opcode::global_store, {b.add(before, load()), out, zero});
  });
  CHECK(in_order(ptx, {"ld.global.b32", "griddepcontrol.wait", "ld.global.b32"}));
}

TEST_CASE("a remote arrive without a need to release costs no fence of the GPU") {
  const std::string ptx = compile_body("sm_90a", 4, [](ir::kernel& k, builder& b) {
    k.cluster[0] = 2;
    b.make(opcode::mbarrier_remote, {base(b, 0), b.integer(1)}, {}, {{"relaxed", std::int64_t{1}}});
    b.make(opcode::cluster_sync, {}, {}, {{"relaxed", std::int64_t{1}}});
  });
  CHECK(contains(ptx, "mapa.shared::cluster.u32"));
  CHECK(contains(ptx, "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote]"));
  CHECK(in_order(ptx, {"barrier.cluster.arrive.relaxed.aligned", "barrier.cluster.wait"}));
  CHECK(contains(ptx, ".reqnctapercluster 2, 1, 1"));
}

TEST_CASE("a conditional arrive is one predicated instruction") {
  const std::string ptx = compile_body("sm_90a", 4, [](ir::kernel&, builder& b) {
    b.make(opcode::mbarrier_arrive, {base(b, 0), b.compare("eq", b.simple(opcode::lane_id, element::s32), b.integer(0))});
  });
  CHECK(contains(ptx, " mbarrier.arrive.shared::cta.b64 _, ["));
  CHECK(!contains(ptx, "bra"));
}

TEST_CASE("an opaque base keeps its addresses inside the loop") {
  const auto code = [](std::int64_t opaque) {
    return compile_body("sm_90a", 4, [=](ir::kernel& k, builder& b) {
      value n = add_parameter(k, "n", type::scalar(element::s32));
      b.for_each(b.integer(0), n, b.integer(1), [&](builder& in, value) {
        value slot = in.simple(opcode::shared_base, element::u32, {{"offset", std::int64_t{4096}}, {"opaque", opaque}});
        in.make(opcode::shared_store, {in.integer(7, element::u32), in.add(slot, in.mul(in.cast(in.simple(opcode::lane_id, element::s32), element::u32), 12))});
      });
    });
  };
  const std::string loop = between(code(1), "$L__BB0_2", "bra");
  CHECK(contains(loop, "shfl.sync.idx"));
  CHECK(contains(loop, "add.s32"));
  CHECK(!contains(between(code(0), "$L__BB0_2", "bra"), "shfl.sync.idx"));
}
