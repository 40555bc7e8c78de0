#include "slots.hpp"

#include <algorithm>

namespace tlx::pass {

namespace {

// One index for each way to place a row: most registers of a fragment differ in their columns only.
std::vector<int> different_in_rows(const tile::axis_map& m) {
  std::vector<int> found;
  const auto same = [&](int i, int j) { return m.xor_part(i).row == m.xor_part(j).row && m.add_part(i).row == m.add_part(j).row; };
  for (int i = 0; i < m.count(); ++i)
    if (std::none_of(found.begin(), found.end(), [&](int j) { return same(i, j); })) found.push_back(i);
  return found;
}

}  // namespace

namespace {
// What `shared` is some rows of; null: it is a tile of its own.
ir::value whole_of(ir::value shared) {
  const ir::value from = shared->owner->operands[0];
  return from->type.is(ir::type::kind::shared) ? from : nullptr;
}
}  // namespace

ir::value address_of(ir::builder& b, ir::value shared) {
  const ir::value whole = whole_of(shared);
  if (!whole) return shared->owner->operands[0];
  const ir::value first = b.cast(shared->owner->operands[1], tile::element::u32);
  return b.add(address_of(b, whole), b.mul(first, stored_tile_of(whole).chunk_width_bytes()));
}

tile::shared_tile stored_tile_of(ir::value shared) {
  const ir::value whole = whole_of(shared);
  return shared_tile_of(whole ? whole->type : shared->type);
}

bool is_single_shot(ir::kernel& k, const ir::op& ring) {
  if (ring.result()->type.stages != 1) return false;
  int fills = 0, drains = 0;
  for (ir::op* user : users(k, ring.result())) {
    if (in_loop(*user)) return false;
    (user->is(ir::opcode::ring_fill) ? fills : drains)++;
  }
  return fills == 1 && drains == 1;
}

void zero_rows(ir::builder& b, ir::value address, ir::value first, const ir::type& stored, const agent& who) {
  b.make(ir::opcode::shared_zero, {address, first}, {},
         {{"rows", std::int64_t{stored.rows}}, {"cols", std::int64_t{stored.cols}}, {"element_bytes", std::int64_t{tile::bits(stored.element) / 8}}, {"swizzle", std::int64_t{stored.swizzle_bytes}},
          {"warps", std::int64_t{who.warps}}});
}

tile::shared_tile slab_tile_of(const agent& who, const ir::type& stored) { return tile::make_shared_tile(stored.element, stored.rows / who.warps, stored.cols); }

bool stored_through_shared(const ir::kernel&, const agent& who, const ir::op& store) {
  if (store.text("by") == "threads") return false;
  const ir::type& t = store.operands[0]->type;
  if (!t.is_tile() || !t.layout || t.rows % (who.warps * 8) != 0) return false;
  const tile::shared_tile slab = slab_tile_of(who, t);
  if (slab.swizzle_bytes < 32 || slab.chunk_count() != 1 || tile::bits(t.element) < 8) return false;
  const int rows = t.rows / who.warps;
  const std::vector<int> registers = different_in_rows(t.layout->reg);
  for (int w = 0; w < who.warps; ++w) {
    const int first = t.layout->at(0, 0, w).row;
    for (int i = 0; (1 << i) <= w; ++i)
      if (w != 1 << i && w >> i & 1 && first != t.layout->at(0, 0, w ^ 1 << i).row + t.layout->at(0, 0, 1 << i).row) return false;  // no sum over the bits of w
    for (const int r : registers)
      for (int lane = 0; lane < 32; ++lane) {
        const int row = t.layout->at(r, lane, w).row;
        if (row < first || row >= first + rows) return false;
      }
  }
  return true;
}

ir::value first_row_of(ir::builder& b, ir::value warp, const agent& who, const tile::layout& l) {
  const int rows = l.rows / who.warps;
  bool in_order = true;
  for (int w = 0; w < who.warps; ++w) in_order = in_order && l.at(0, 0, w).row == w * rows;
  if (in_order) return b.mul(warp, rows);
  ir::value sum = b.integer(0);
  for (int i = 0; 1 << i < who.warps; ++i)
    sum = b.add(sum, b.mul(b.binary(ir::opcode::bit_and, b.binary(ir::opcode::shr, warp, b.integer(i)), b.integer(1)), l.at(0, 0, 1 << i).row));
  return sum;
}

}  // namespace tlx::pass
