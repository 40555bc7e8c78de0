#include "jit/watch.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/support/error.hpp"

namespace tlx::jit {

namespace {

device::map_element map_element_of(tile::element e) {
  using m = device::map_element;
  switch (e) {
    case tile::element::f64: return m::f64;
    case tile::element::f32: return m::f32;
    case tile::element::tf32: return m::tf32;
    case tile::element::f16: return m::f16;
    case tile::element::bf16: return m::bf16;
    case tile::element::s32: return m::s32;
    case tile::element::u32: return m::u32;
    case tile::element::s64: return m::s64;
    case tile::element::u64: return m::u64;
    case tile::element::s16:
    case tile::element::u16: return m::u16;
    default: return m::u8;  // 8-bit floats, 8-bit integers and bool move as bytes
  }
}

}  // namespace

device::kernel describe(const ir::kernel& lowered) {
  device::kernel k;
  k.name = k.entry = lowered.name;
  k.target = lowered.target;
  for (const auto& p : lowered.parameters()) {
    device::parameter made;
    made.name = p->name;
    made.element = std::string(tile::name(p->type.element));
    made.element_bits = tile::bits(p->type.element);
    if (p->type.is(ir::type::kind::view)) {
      made.what = device::parameter::kind::view;
      made.rank = p->type.rank;
      made.align_bytes = std::max(1, made.element_bits / 8);
    }
    k.parameters.push_back(made);
  }
  for (const ir::tensor_map_use& m : lowered.maps) {
    device::map_rule rule;
    rule.parameter_index = m.parameter;
    rule.element = map_element_of(lowered.parameters()[static_cast<size_t>(m.parameter)]->type.element);
    for (std::int64_t b : m.box) rule.box.push_back(static_cast<std::uint32_t>(b));
    rule.swizzle_bytes = m.swizzle_bytes;
    rule.l2_promotion_bytes = m.l2_promotion_bytes;
    k.maps.push_back(rule);
    k.parameters[static_cast<size_t>(m.parameter)].align_bytes = 16;
  }
  ir::walk(lowered.body, [&](const ir::op& o) {
    if (o.is(ir::opcode::tma_store)) k.maps[static_cast<size_t>(o.integer("map"))].stored = true;
  });
  k.grid_x = lowered.grid[0];
  k.grid_y = lowered.grid[1];
  k.grid_z = lowered.grid[2];
  k.block = {static_cast<std::uint32_t>(lowered.warps) * 32, 1, 1};
  k.cluster = {static_cast<std::uint32_t>(lowered.cluster[0]), static_cast<std::uint32_t>(lowered.cluster[1]), static_cast<std::uint32_t>(lowered.cluster[2])};
  k.dynamic_shared_bytes = static_cast<std::uint32_t>(lowered.shared_bytes);
  k.blocks_per_processor = lowered.blocks_per_processor;
  ir::walk(lowered.body, [&](const ir::op& o) { k.dependent = k.dependent || o.is(ir::opcode::depend_wait); });
  k.code.watch = watch_table_of(lowered);
  return k;
}

}  // namespace tlx::jit
