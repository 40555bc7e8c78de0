#include "tests/codegen/kernels.hpp"

#include "tlx/tile/fragments.hpp"

namespace test {

using namespace tlx;
using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using tile::element;

std::unique_ptr<ir::kernel> new_kernel(const std::string& name, const std::string& target, int warps) {
  auto k = std::make_unique<ir::kernel>();
  k->name = name;
  k->target = target;
  k->warps = warps;
  k->where = location::here();
  return k;
}

value add_parameter(ir::kernel& k, const std::string& name, type t) {
  k.body.arguments.push_back(std::make_unique<ir::value_def>(ir::value_def{.type = t, .owner = nullptr, .scope = &k.body, .name = name}));
  return k.body.arguments.back().get();
}

namespace {
using axes = std::vector<std::int64_t>;

value base(builder& b, std::int64_t offset) { return b.simple(opcode::shared_base, element::u32, {{"offset", offset}}); }

/// Barrier at `bar` ready for one arrival, seen by all.
void open_barriers(builder& b, const std::vector<value>& bars) {
  b.when(b.compare("eq", b.simple(opcode::warp_id, element::s32), b.integer(0)), [&](builder& w) {
    w.when(w.simple(opcode::elect, element::boolean), [&](builder& e) {
      for (value bar : bars) e.make(opcode::mbarrier_init, {bar}, {}, {{"count", std::int64_t{1}}});
      e.make(opcode::fence_init);
    });
    w.make(opcode::barrier_warp);
  });
  b.make(opcode::barrier_cta, {}, {}, {{"id", std::int64_t{0}}, {"threads", std::int64_t{0}}});
}

template <class Body>
void one_lane_of_warp_0(builder& b, Body&& body) {
  b.when(b.compare("eq", b.simple(opcode::warp_id, element::s32), b.integer(0)), [&](builder& w) {
    w.when(w.simple(opcode::elect, element::boolean), [&](builder& e) { body(e); });
    w.make(opcode::barrier_warp);
  });
}

std::int64_t map_of(ir::kernel& k, int parameter, std::int64_t rows) {
  return k.find_map({.parameter = parameter, .box = {64, rows}, .swizzle_bytes = 128, .l2_promotion_bytes = 256});
}
}  // namespace

std::unique_ptr<ir::kernel> add_views(const std::string& target, int vector) {
  auto k = new_kernel("add_views", target, 4);
  value in_a = add_parameter(*k, "a", type::view_of(element::f32, 2)), in_b = add_parameter(*k, "b", type::view_of(element::f32, 2));
  value out = add_parameter(*k, "c", type::view_of(element::f32, 2));
  k->grid[0] = "(ceil_div c.1 64)";
  k->grid[1] = "(ceil_div c.0 32)";
  builder b(*k, k->body);
  b.locate(location::here());
  const type t = type::tile_of(element::f32, 32, 64).with_layout(tile::blocked(32, 64, 4, 4));
  value row = b.mul(b.simple(opcode::cta_id, element::s32, {{"axis", std::int64_t{1}}}), 32), col = b.mul(b.simple(opcode::cta_id, element::s32, {{"axis", std::int64_t{0}}}), 64);
  const auto load = [&](value v) { return b.make(opcode::global_load, {v, row, col}, {t}, {{"tile_axes", axes{0, 1}}, {"vector", std::int64_t{vector}}}).result(); };
  value x = load(in_a), y = load(in_b);
  b.make(opcode::global_store, {b.add(x, y), out, row, col}, {}, {{"tile_axes", axes{0, 1}}, {"vector", std::int64_t{vector}}});
  return k;
}

std::unique_ptr<ir::kernel> copy_by_tma(const std::string& target) {
  auto k = new_kernel("copy_by_tma", target, 4);
  k->shared_bytes = 8192 + 8;
  add_parameter(*k, "in", type::view_of(element::bf16, 2));
  value out = add_parameter(*k, "out", type::view_of(element::bf16, 2));
  value row = add_parameter(*k, "row", type::scalar(element::s32)), col = add_parameter(*k, "col", type::scalar(element::s32));
  const auto map = map_of(*k, 0, 64);
  builder b(*k, k->body);
  b.locate(location::here());
  value slot = base(b, 0), bar = base(b, 8192);
  open_barriers(b, {bar});
  one_lane_of_warp_0(b, [&](builder& e) {
    e.make(opcode::mbarrier_expect, {bar}, {}, {{"bytes", std::int64_t{8192}}});
    e.make(opcode::tma_load, {slot, bar, col, row}, {}, {{"map", map}, {"hint", std::int64_t{1}}});
  });
  b.make(opcode::mbarrier_wait, {bar, b.integer(0)});
  const type t = type::tile_of(element::bf16, 64, 64).with_layout(tile::blocked(64, 64, 4, 8));
  value v = b.make(opcode::shared_read, {slot}, {t}, {{"swizzle", std::int64_t{128}}}).result();
  b.make(opcode::global_store, {v, out, row, col}, {}, {{"tile_axes", axes{0, 1}}, {"vector", std::int64_t{8}}});
  return k;
}

std::unique_ptr<ir::kernel> wgmma_tile() {
  auto k = new_kernel("wgmma_tile", "sm_90a", 4);
  k->shared_bytes = 16384 + 8;
  add_parameter(*k, "a", type::view_of(element::bf16, 2));
  add_parameter(*k, "b", type::view_of(element::bf16, 2));
  value out = add_parameter(*k, "d", type::view_of(element::f32, 2));
  const auto map_a = map_of(*k, 0, 64), map_b = map_of(*k, 1, 64);
  builder b(*k, k->body);
  b.locate(location::here());
  value slot_a = base(b, 0), slot_b = base(b, 8192), bar = base(b, 16384);
  open_barriers(b, {bar});
  value zero = b.integer(0);
  one_lane_of_warp_0(b, [&](builder& e) {
    e.make(opcode::mbarrier_expect, {bar}, {}, {{"bytes", std::int64_t{16384}}});
    e.make(opcode::tma_load, {slot_a, bar, zero, zero}, {}, {{"map", map_a}});
    e.make(opcode::tma_load, {slot_b, bar, zero, zero}, {}, {{"map", map_b}});
  });
  b.make(opcode::mbarrier_wait, {bar, zero});
  const type t = type::tile_of(element::f32, 64, 64).with_layout(tile::wgmma_accumulator(64, 64, 4));
  value acc = b.var(t, nullptr, "acc");
  const std::int64_t bits = (std::int64_t{1} << 62) | (std::int64_t{64} << 32) | (1 << 16);
  const auto descriptor = [&](value slot) { return b.make(opcode::descriptor, {slot}, {type::scalar(element::s64)}, {{"bits", bits}}).result(); };
  value da = descriptor(slot_a), db = descriptor(slot_b);
  b.make(opcode::wgmma_fence);
  for (std::int64_t step = 0; step < 4; ++step)
    b.make(opcode::wgmma_mma, {acc, b.add(da, 2 * step), b.add(db, 2 * step), b.boolean(step > 0)}, {},
           {{"k", std::int64_t{16}}, {"element", std::string("bf16")}, {"n", std::int64_t{64}}, {"row_block", std::int64_t{0}}, {"step", step}});
  b.make(opcode::wgmma_commit);
  b.make(opcode::wgmma_wait, {acc}, {}, {{"pending", std::int64_t{0}}});
  b.make(opcode::global_store, {b.get(acc), out, zero, zero}, {}, {{"tile_axes", axes{0, 1}}, {"vector", std::int64_t{2}}});
  return k;
}

std::unique_ptr<ir::kernel> tcgen05_tile(const std::string& target, int warps) {
  auto k = new_kernel("tcgen05_tile", target, warps);
  k->shared_bytes = 24576 + 32;
  add_parameter(*k, "a", type::view_of(element::bf16, 2));
  add_parameter(*k, "b", type::view_of(element::bf16, 2));
  value out = add_parameter(*k, "d", type::view_of(element::f32, 2));
  const auto map_a = map_of(*k, 0, 128), map_b = map_of(*k, 1, 64);
  builder b(*k, k->body);
  b.locate(location::here());
  value slot_a = base(b, 0), slot_b = base(b, 16384), full = base(b, 24576), done = base(b, 24584), place = base(b, 24592);
  b.when(b.compare("eq", b.simple(opcode::warp_id, element::s32), b.integer(0)), [&](builder& w) {
    w.make(opcode::tmem_alloc, {place}, {}, {{"columns", std::int64_t{64}}});
    w.make(opcode::tmem_relinquish);
  });
  b.make(opcode::tmem_fence, {}, {}, {{"before", std::int64_t{1}}});
  open_barriers(b, {full, done});
  b.make(opcode::tmem_fence);
  value memory = b.make(opcode::shared_load, {place}, {type::scalar(element::u32)}).result();
  value zero = b.integer(0);
  one_lane_of_warp_0(b, [&](builder& e) {
    e.make(opcode::mbarrier_expect, {full}, {}, {{"bytes", std::int64_t{24576}}});
    e.make(opcode::tma_load, {slot_a, full, zero, zero}, {}, {{"map", map_a}});
    e.make(opcode::tma_load, {slot_b, full, zero, zero}, {}, {{"map", map_b}});
    e.make(opcode::mbarrier_wait, {full, zero});
    e.make(opcode::tmem_fence);
    const std::int64_t bits = (std::int64_t{2} << 61) | (std::int64_t{1} << 46) | (std::int64_t{64} << 32) | (1 << 16);
    const auto descriptor = [&](value slot) { return e.make(opcode::descriptor, {slot}, {type::scalar(element::s64)}, {{"bits", bits}}).result(); };
    value da = descriptor(slot_a), db = descriptor(slot_b);
    const std::int64_t idesc = (1 << 4) | (1 << 7) | (1 << 10) | (64 / 8 << 17) | (128 / 16 << 24);
    for (std::int64_t step = 0; step < 4; ++step)
      e.make(opcode::tcgen05_mma, {memory, e.add(da, 2 * step), e.add(db, 2 * step), e.boolean(step > 0)}, {}, {{"kind", std::string("f16")}, {"idesc", idesc}, {"group", std::int64_t{1}}});
    e.make(opcode::tcgen05_commit, {done}, {}, {{"group", std::int64_t{1}}});
  });
  b.make(opcode::mbarrier_wait, {done, zero});
  b.make(opcode::tmem_fence);
  const type t = type::tile_of(element::f32, 128, 64).with_layout(tile::tmem_rows_32x32b(128, 64, warps));
  value warp = b.simple(opcode::warp_id, element::s32);
  value lanes = b.binary(opcode::shl, b.cast(b.binary(opcode::bit_and, warp, b.integer(3)), element::u32), b.integer(21, element::u32));
  value raw = b.make(opcode::tmem_load, {b.add(memory, lanes)}, {t}, {{"shape", std::string("32x32b")}}).result();
  value v = b.make(opcode::tmem_wait_load, {raw}, {t}).result();
  b.make(opcode::global_store, {v, out, zero, zero}, {}, {{"tile_axes", axes{0, 1}}, {"vector", std::int64_t{4}}});
  b.make(opcode::tmem_fence, {}, {}, {{"before", std::int64_t{1}}});
  b.make(opcode::barrier_cta, {}, {}, {{"id", std::int64_t{0}}, {"threads", std::int64_t{0}}});
  b.when(b.compare("eq", warp, zero), [&](builder& w) { w.make(opcode::tmem_free, {memory}, {}, {{"columns", std::int64_t{64}}}); });
  return k;
}

}  // namespace test
