// Single operations and the instructions they become.
#include <doctest/doctest.h>

#include <thread>

#include "tests/codegen/kernels.hpp"
#include "tests/codegen/look.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/layout_ops.hpp"

using namespace tlx;
using namespace test;
using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using tile::element;

namespace {
using integers = std::vector<std::int64_t>;
using attributes = std::vector<std::pair<std::string, ir::attribute>>;
std::int64_t operator""_i(unsigned long long v) { return static_cast<std::int64_t>(v); }
value base(builder& b, std::int64_t offset) { return b.simple(opcode::shared_base, element::u32, {{"offset", offset}}); }
value descriptor(builder& b, value slot) { return b.make(opcode::descriptor, {slot}, {type::scalar(element::s64)}, {{"bits", (1_i << 62) | (64_i << 32) | (1 << 16)}}).result(); }
void store(builder& b, ir::kernel& k, value v) {
  value out = add_parameter(k, "out", type::view_of(v->type.element, 2));
  b.make(opcode::global_store, {v, out, b.integer(0), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}, {"vector", 2_i}});
}

/// Compiles and, where there is a ptxas, assembles.
std::string good(const std::string& target, int warps, const std::function<void(ir::kernel&, builder&)>& body) {
  auto k = make_body(target, warps, body);
  if (!ptxas().empty()) {
    const assembled a = assemble(compile(*k), target);
    CAPTURE(a.log);
    CHECK(a.ok);
    CHECK(!contains(a.log, "(C75"));
  }
  return compile(*k);
}

struct wgmma_kind {
  const char* operand;
  int k;
  element accumulator;
  const char* text;
};
}  // namespace

TEST_CASE("wgmma has every operand type") {
  for (const wgmma_kind& w : {wgmma_kind{"bf16", 16, element::f32, "m64n32k16.f32.bf16.bf16"}, {"f16", 16, element::f32, "m64n32k16.f32.f16.f16"}, {"tf32", 8, element::f32, "m64n32k8.f32.tf32.tf32"},
                              {"e4m3", 32, element::f32, "m64n32k32.f32.e4m3.e4m3"}, {"e5m2", 32, element::f32, "m64n32k32.f32.e5m2.e5m2"}, {"s8", 32, element::s32, "m64n32k32.s32.s8.s8"}}) {
    CAPTURE(w.text);
    const std::string ptx = good("sm_90a", 4, [&](ir::kernel& k, builder& b) {
      value acc = b.var(type::tile_of(w.accumulator, 64, 32).with_layout(tile::wgmma_accumulator(64, 32, 4)));
      value first = b.compare("gt", add_parameter(k, "n", type::scalar(element::s32)), b.integer(0));
      b.make(opcode::wgmma_fence);
      b.make(opcode::wgmma_mma, {acc, descriptor(b, base(b, 0)), descriptor(b, base(b, 8192)), first}, {}, {{"k", std::int64_t{w.k}}, {"element", std::string(w.operand)}, {"n", 32_i}});
      b.make(opcode::wgmma_commit);
      b.make(opcode::wgmma_wait, {acc}, {}, {{"pending", 0_i}});
      store(b, k, b.get(acc));
    });
    CHECK(contains(ptx, std::string("wgmma.mma_async.sync.aligned.") + w.text));
  }
}

TEST_CASE("transposed wgmma operands are flags, and refused where the hardware has none") {
  const auto body = [](const char* e) {
    return [=](ir::kernel& k, builder& b) {
      value acc = b.var(type::tile_of(element::f32, 64, 64).with_layout(tile::wgmma_accumulator(64, 64, 4)));
      b.make(opcode::wgmma_fence);
      b.make(opcode::wgmma_mma, {acc, descriptor(b, base(b, 0)), descriptor(b, base(b, 8192)), b.boolean(false)}, {},
             {{"k", 16_i}, {"element", std::string(e)}, {"n", 64_i}, {"ta", 1_i}, {"tb", 1_i}});
      b.make(opcode::wgmma_commit);
      b.make(opcode::wgmma_wait, {acc}, {}, {{"pending", 0_i}});
      store(b, k, b.get(acc));
    };
  };
  CHECK(contains(good("sm_90a", 4, body("bf16")), ", p, 1, 1, 1, 1;"));
  CHECK(error_id([&] { compile_body("sm_90a", 4, body("e4m3")); }) == "codegen-invalid");
}

TEST_CASE("an accumulator cast to bf16 is a register operand without a move between threads") {
  const std::string ptx = good("sm_90a", 4, [](ir::kernel& k, builder& b) {
    const tile::layout l = tile::wgmma_accumulator(64, 64, 4);
    const type t = type::tile_of(element::f32, 64, 64).with_layout(l);
    value acc = b.var(t), second = b.var(t);
    const auto mma = [&](value d, value a, std::int64_t step) {
      b.make(opcode::wgmma_mma, {d, a, descriptor(b, base(b, 8192)), b.boolean(step > 0)}, {}, {{"k", 16_i}, {"element", std::string("bf16")}, {"n", 64_i}, {"step", step}});
    };
    b.make(opcode::wgmma_fence);
    mma(acc, descriptor(b, base(b, 0)), 0);
    b.make(opcode::wgmma_commit);
    b.make(opcode::wgmma_wait, {acc}, {}, {{"pending", 0_i}});
    value p = b.cast(b.get(acc), element::bf16);
    b.make(opcode::wgmma_fence);
    for (std::int64_t step = 0; step < 4; ++step) mma(second, p, step);
    b.make(opcode::wgmma_commit);
    b.make(opcode::wgmma_wait, {second}, {}, {{"pending", 0_i}});
    store(b, k, b.get(second));
  });
  CHECK(count(ptx, "cvt.rn.bf16x2.f32") == 16);
  CHECK(!contains(ptx, "prmt"));
  CHECK(!contains(ptx, "shfl.sync.bfly"));
  CHECK(count(ptx, "wgmma.mma_async") == 5);
}

TEST_CASE("a bf16 accumulator tile goes to swizzled shared memory by stmatrix, packed without other instructions") {
  const std::string ptx = good("sm_90a", 4, [](ir::kernel& k, builder& b) {
    const type t = type::tile_of(element::f32, 64, 64).with_layout(tile::wgmma_accumulator(64, 64, 4));
    value in = add_parameter(k, "in", type::view_of(element::f32, 2));
    value v = b.make(opcode::global_load, {in, b.integer(0), b.integer(0)}, {t}, {{"tile_axes", integers{0, 1}}, {"vector", 2_i}}).result();
    b.make(opcode::shared_write, {b.cast(v, element::bf16), base(b, 0)}, {}, {{"swizzle", 128_i}});
  });
  CHECK(count(ptx, "stmatrix.sync.aligned.m8n8.x4.shared.b16") == 4);
  CHECK(count(ptx, "cvt.rn.bf16x2.f32") == 16);
  CHECK(!contains(ptx, "prmt"));
  CHECK(instructions(between(ptx, "stmatrix", "ret;")) <= 3 + 3);  // one xor per further address
}

TEST_CASE("TMA stores, multicast, waits and prefetches") {
  const std::string ptx = good("sm_90a", 4, [](ir::kernel& k, builder& b) {
    k.cluster[0] = 2;
    add_parameter(k, "x", type::view_of(element::bf16, 3));
    const std::int64_t map = k.find_map({.parameter = 0, .box = {64, 1, 64}});
    value zero = b.integer(0);
    b.make(opcode::tma_prefetch, {}, {}, {{"map", map}});
    b.make(opcode::tma_load, {base(b, 0), base(b, 8192), zero, zero, zero}, {}, {{"map", map}, {"multicast", 3_i}, {"hint", 2_i}});
    b.make(opcode::fence_async);
    b.make(opcode::tma_store, {base(b, 0), zero, zero, zero}, {}, {{"map", map}});
    b.make(opcode::tma_commit);
    b.make(opcode::tma_wait, {}, {}, {{"pending", 1_i}, {"read", 1_i}});
    b.make(opcode::tma_wait, {}, {}, {{"pending", 0_i}});
  });
  CHECK(in_order(ptx, {"prefetch.tensormap [", "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [", "fence.proxy.async.shared::cta;",
                       "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [", "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group.read 1;", "cp.async.bulk.wait_group 0;"}));
  CHECK(count(ptx, "prefetch.tensormap") == 1);
}

TEST_CASE("a copy of a pair signals the barrier of the even CTA, in the order of the ISA's qualifiers") {
  const std::string ptx = good("sm_100a", 4, [](ir::kernel& k, builder& b) {
    k.cluster[0] = 2;
    add_parameter(k, "x", type::view_of(element::bf16, 2));
    const std::int64_t map = k.find_map({.parameter = 0, .box = {64, 64}});
    value zero = b.integer(0);
    b.make(opcode::tma_load, {base(b, 0), base(b, 8192), zero, zero}, {}, {{"map", map}, {"group", 2_i}, {"hint", 2_i}});
  });
  CHECK(contains(ptx, "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2.L2::cache_hint ["));
  CHECK(in_order(ptx, {"and.b32", "cp.async.bulk.tensor.2d"}));
}

TEST_CASE("barriers, arrivals and fences") {
  const std::string ptx = good("sm_90a", 8, [](ir::kernel& k, builder& b) {
    k.cluster[0] = 2;
    value bar = base(b, 0);
    b.make(opcode::mbarrier_init, {bar}, {}, {{"count", 128_i}});
    b.make(opcode::mbarrier_arrive, {bar});
    b.make(opcode::mbarrier_arrive, {bar}, {}, {{"count", 3_i}});
    b.make(opcode::mbarrier_arrive, {bar}, {}, {{"relaxed", 1_i}});
    b.make(opcode::mbarrier_remote, {bar, b.integer(1)});
    b.make(opcode::barrier_cta, {}, {}, {{"id", 2_i}, {"threads", 128_i}});
    b.make(opcode::cluster_sync);
    b.make(opcode::depend_wait);
    b.make(opcode::depend_launch);
  });
  CHECK(in_order(ptx, {"mbarrier.init.shared::cta.b64 [", "], 128;", "mbarrier.arrive.shared::cta.b64 _, [", "], 3;", "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [",
                       "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]", "bar.sync 2, 128;", "barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;",
                       "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"}));
}

TEST_CASE("tcgen05 in its forms: pairs, multicast commits, A in tensor memory, packed stores, the fragment shape") {
  const std::string pair = good("sm_100a", 4, [](ir::kernel& k, builder& b) {
    k.cluster[0] = 2;
    value d = b.make(opcode::shared_load, {base(b, 0)}, {type::scalar(element::u32)}).result();
    value a = descriptor(b, base(b, 1024));
    value again = b.compare("gt", add_parameter(k, "n", type::scalar(element::s32)), b.integer(0));
    b.make(opcode::tcgen05_mma, {d, a, a, again}, {}, {{"kind", std::string("f8f6f4")}, {"idesc", 270532624_i}, {"group", 2_i}});
    b.make(opcode::tcgen05_commit, {base(b, 8)}, {}, {{"group", 2_i}, {"multicast", 3_i}});
  });
  CHECK(contains(pair, "tcgen05.mma.cta_group::2.kind::f8f6f4 ["));
  CHECK(contains(pair, "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 ["));
  CHECK(!contains(between(pair, "tcgen05.mma", "tcgen05.commit"), "setp"));

  const std::string packed = good("sm_100a", 4, [](ir::kernel& k, builder& b) {
    value at = b.make(opcode::shared_load, {base(b, 0)}, {type::scalar(element::u32)}).result();
    const tile::layout l = tile::tmem_rows_32x32b(128, 64, 4);
    value in = add_parameter(k, "in", type::view_of(element::f32, 2));
    value v = b.make(opcode::global_load, {in, b.integer(0), b.integer(0)}, {type::tile_of(element::f32, 128, 64).with_layout(l)}, {{"tile_axes", integers{0, 1}}, {"vector", 4_i}}).result();
    b.make(opcode::tmem_store, {b.cast(v, element::bf16), at}, {}, {{"shape", std::string("32x32b")}});
    b.make(opcode::tmem_wait_store);
    b.make(opcode::tcgen05_mma, {b.add(at, 64), at, descriptor(b, base(b, 1024)), b.boolean(true)}, {}, {{"kind", std::string("f16")}, {"idesc", 135267472_i}, {"group", 1_i}});
  });
  CHECK(contains(packed, "tcgen05.st.sync.aligned.32x32b.x32.b32 ["));
  CHECK(count(packed, "cvt.rn.bf16x2.f32") == 32);
  CHECK(contains(packed, "tcgen05.wait::st.sync.aligned;"));
  CHECK(contains(packed, "kind::f16 [%r"));
  CHECK(contains(between(packed, "kind::f16 [%r", ";"), ", [%r"));

  const std::string fragment = good("sm_103a", 4, [](ir::kernel& k, builder& b) {
    value at = b.make(opcode::shared_load, {base(b, 0)}, {type::scalar(element::u32)}).result();
    const type t = type::tile_of(element::f32, 128, 64).with_layout(tile::tmem_16x256b(128, 64));
    value v = b.make(opcode::tmem_load, {at}, {t}, {{"shape", std::string("16x256b")}}).result();
    v = b.make(opcode::tmem_wait_load, {v}, {t}).result();
    store(b, k, v);
  });
  CHECK(count(fragment, "tcgen05.ld.sync.aligned.16x256b.x8.b32") == 2);  // lanes 0..15 and 16..31 of each warp
  CHECK(contains(fragment, "1048576"));
}

TEST_CASE("a tile whose registers are elsewhere than the instruction wants is refused") {
  CHECK(error_id([] {
          compile_body("sm_100a", 4, [](ir::kernel&, builder& b) {
            const type t = type::tile_of(element::f32, 128, 32).with_layout(tile::blocked(128, 32, 4, 4));
            b.make(opcode::tmem_load, {base(b, 0)}, {t}, {{"shape", std::string("32x32b")}});
          });
        }) == "codegen-layout");
  CHECK(error_id([] {
          compile_body("sm_90a", 4, [](ir::kernel&, builder& b) {
            value acc = b.var(type::tile_of(element::f32, 64, 64).with_layout(tile::blocked(64, 64, 4, 4)));
            b.make(opcode::wgmma_mma, {acc, descriptor(b, base(b, 0)), descriptor(b, base(b, 0)), b.boolean(false)}, {}, {{"k", 16_i}, {"n", 64_i}});
          });
        }) == "codegen-layout");
}

TEST_CASE("a row reduction of an accumulator is two shuffles a row, and spread over warps it is refused") {
  const auto reduce = [](const tile::layout& l, std::int64_t axis) {
    return [=](ir::kernel& k, builder& b) {
      value in = add_parameter(k, "in", type::view_of(element::f32, 2));
      value v = b.make(opcode::global_load, {in, b.integer(0), b.integer(0)}, {type::tile_of(element::f32, l.rows, l.cols).with_layout(l)}, {{"tile_axes", integers{0, 1}}, {"vector", 2_i}}).result();
      const tile::layout to = tile::reduced(l, axis == 1 ? tile::axis::cols : tile::axis::rows);
      store(b, k, b.make(opcode::reduce, {v}, {type::tile_of(element::f32, to.rows, to.cols).with_layout(to)}, {{"op", std::string("max")}, {"axis", axis}}).result());
    };
  };
  const std::string ptx = good("sm_90a", 4, reduce(tile::wgmma_accumulator(64, 64, 4), 1));
  CHECK(count(ptx, "shfl.sync.bfly.b32") == 4);
  CHECK(count(ptx, "max.ftz.f32") == 2 * (15 + 2));
  CHECK(error_id([&] { compile_body("sm_90a", 4, reduce(tile::wgmma_accumulator(64, 64, 4), 0)); }) == "codegen-reduce-across-warps");
}

TEST_CASE("layouts inside a role count warps from the role's first") {
  const auto code = [](std::int64_t first) {
    return compile_body("sm_90a", 8, [=](ir::kernel& k, builder& b) {
      value out = add_parameter(k, "out", type::view_of(element::s32, 2));
      ir::op& role = b.when(b.compare("ge", b.simple(opcode::warp_id, element::s32), b.integer(4)), [&](builder& in) {
        const type t = type::tile_of(element::s32, 64, 64).with_layout(tile::wgmma_accumulator(64, 64, 4));
        in.make(opcode::global_store, {in.make(opcode::iota, {}, {t}, {{"axis", 0_i}}).result(), out, in.integer(0), in.integer(0)}, {}, {{"tile_axes", integers{0, 1}}});
      });
      role.set("first_warp", first);
    });
  };
  CHECK(code(1) != code(0));  // what it computes: the run case of this name
}

TEST_CASE("printing, traps and a user's own PTX") {
  const std::string ptx = good("sm_90a", 1, [](ir::kernel& k, builder& b) {
    value n = add_parameter(k, "n", type::scalar(element::s32)), x = add_parameter(k, "x", type::scalar(element::f32));
    b.make(opcode::print, {n, x}, {}, {{"format", std::string("n %d x %f\n")}});
    value twice = b.make(opcode::inline_ptx, {n}, {type::scalar(element::s32)}, {{"text", std::string("shl.b32 $0, $1, 1;")}, {"constraints", std::string("=r,r")}}).result();
    b.when(b.compare("gt", twice, b.integer(10)), [](builder& in) { in.make(opcode::trap); });
  });
  CHECK(contains(ptx, "vprintf"));
  CHECK(contains(ptx, "shl.b32 %r"));
  CHECK(contains(ptx, "trap;"));
}

TEST_CASE("two kernels compile at the same time as one after the other") {
  const std::string a = codegen::to_ptx(*wgmma_tile()), b = codegen::to_ptx(*tcgen05_tile("sm_100a"));
  std::string c, d;
  std::thread other([&] { c = codegen::to_ptx(*wgmma_tile()); });
  d = codegen::to_ptx(*tcgen05_tile("sm_100a"));
  other.join();
  CHECK(a == c);
  CHECK(b == d);
}
