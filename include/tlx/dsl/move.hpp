// Moving tiles: global to shared (TMA, or threads where rows are not 16-byte aligned), registers to global, global vectors to registers.
#pragma once
#include "tlx/dsl/ring.hpp"

namespace tlx {

enum class hint { none, evict_first, evict_last };

namespace dsl {
template <class T, int Rank>
void append_box(std::vector<ir::value>& operands, const context& c, const box_of<T, Rank>& b) {
  operands.push_back(c.use(b.view, b.home));
  for (ir::value v : b.at) operands.push_back(c.use(v, b.home));
  if (b.valid_rows) operands.push_back(c.use(b.valid_rows, b.home));
}
inline std::vector<std::int64_t> axes(int row, int col) { return {row, col}; }

template <class Spec, class T, int Rank>
ir::op& record_load(const operand_of<Spec>& to, const box_of<T, Rank>& from, hint cache, location where) {
  static_assert(std::is_same_v<typename Spec::element_type, T>, "tlx: the slot and the tensor have different element types");
  context& c = *to.home;
  c.at(where);
  std::vector<ir::value> operands{c.use(to.value, to.home)};
  append_box(operands, c, from);
  ir::op& made = c.at().make(ir::opcode::tile_load, operands, {},
                                  {{"tile_axes", axes(from.row_axis, from.col_axis)}, {"jagged", std::int64_t{from.valid_rows != nullptr}}, {"hint", static_cast<std::int64_t>(cache)}});
  if (c.by_threads) made.set("by", std::string("threads"));
  return made;
}
}  // namespace dsl

/// Fills a part of an open slot with a box of a view: zeros outside the tensor, and in rows at or beyond the box's valid rows.
template <class Spec, class T, int Rank>
void load(const operand_of<Spec>& to, const box_of<T, Rank>& from, hint cache = hint::none, location where = location::here()) { dsl::record_load(to, from, cache, where); }
template <class Spec, class T, int Rank>
void load(const slot_of<Spec>& to, const box_of<T, Rank>& from, hint cache = hint::none, location where = location::here()) { load(to.template part<0>(), from, cache, where); }

/// The same box for every CTA of the cluster, all of which load it at once: each brings its share of the rows to all of them, so that the box is read once.
/// Of a pair that multiplies together (cta.pair) each brings its half and keeps it.
template <class Spec, class T, int Rank>
void load_for_cluster(const operand_of<Spec>& to, const box_of<T, Rank>& from, hint cache = hint::none, location where = location::here()) {
  ir::op& made = dsl::record_load(to, from, cache, where);
  if (const int ctas = to.home->kernel().cluster[0]; ctas > 1 && !to.home->by_threads) made.set("ctas", std::int64_t{ctas});
}
template <class Spec, class T, int Rank>
void load_for_cluster(const slot_of<Spec>& to, const box_of<T, Rank>& from, hint cache = hint::none, location where = location::here()) {
  load_for_cluster(to.template part<0>(), from, cache, where);
}

namespace dsl {
template <class T, int Rank, class Stored, int Rows, int Cols>
ir::op& record_store(const box_of<T, Rank>& to, const tile_of<Stored, Rows, Cols>& what, location where) {
  context& c = *to.home;
  c.at(where);
  std::vector<ir::value> operands{c.use(what.raw(), &what.home())};
  append_box(operands, c, to);
  ir::op& made = c.at().make(ir::opcode::tile_store, operands, {}, {{"tile_axes", axes(to.row_axis, to.col_axis)}, {"jagged", std::int64_t{to.valid_rows != nullptr}}});
  if (c.by_threads || to.col_axis != Rank - 1) made.set("by", std::string("threads"));
  return made;
}
}  // namespace dsl

/// Writes a register tile to a box of a view; elements outside the tensor or at or beyond the valid rows are left alone. Where the tile's columns are not
/// the view's innermost axis the threads store themselves: no bulk copy transposes.
template <class T, int Rank, class Stored, int Rows, int Cols>
void store(const box_of<T, Rank>& to, const tile_of<Stored, Rows, Cols>& what, location where = location::here()) {
  static_assert(std::is_same_v<T, Stored>, "tlx: store(box, tile): the tensor and the tile have different element types; write cast<element>(tile)");
  dsl::record_store(to, what, where);
}

/// Adds a register tile to a box of a view, element by element, without a read: CTAs may add to the same elements, in an order that changes from run to run. Float
/// sums then change in their last bits too. Outside the tensor, and at or beyond the valid rows, nothing is added.
template <class T, int Rank, class Added, int Rows, int Cols>
void add_to(const box_of<T, Rank>& to, const tile_of<Added, Rows, Cols>& what, location where = location::here()) {
  static_assert(std::is_same_v<T, Added>, "tlx: add_to(box, tile): the tensor and the tile have different element types; write cast<element>(tile)");
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::uint32_t>, "tlx: add_to(box, tile) adds float, int32_t or uint32_t");
  dsl::record_store(to, what, where).set("adds", std::int64_t{1});
}

/// A (Rows x Cols) box straight into registers; 0 outside the tensor. Rows = 1 or Cols = 1: a vector along the other axis.
template <int Rows, int Cols, class T, int Rank>
tile_of<T, Rows, Cols> fetch(const box_of<T, Rank>& from, location where = location::here()) {
  dsl::context& c = *from.home;
  c.at(where);
  std::vector<ir::value> operands;
  dsl::append_box(operands, c, from);
  const int row_axis = Rank == 1 ? (Cols == 1 ? 0 : -1) : from.row_axis, col_axis = Rank == 1 ? (Cols == 1 ? -1 : 0) : from.col_axis;
  return {c, c.at()
                 .make(ir::opcode::global_load, operands, {ir::type::tile_of(tile::element_of<T>, Rows, Cols)},
                       {{"tile_axes", dsl::axes(row_axis, col_axis)}, {"jagged", std::int64_t{from.valid_rows != nullptr}}})
                 .result()};
}

/// A shared tile into registers.
template <class T, int R, int C>
tile_of<T, R, C> read(const operand_of<shared_spec<T, R, C>>& from, location where = location::here()) {
  dsl::context& c = *from.home;
  c.at(where);
  ir::value v = c.use(from.value, from.home);
  return {c, c.at().make(ir::opcode::tile_read, {v}, {ir::type::tile_of(tile::element_of<T>, R, C)}).result()};
}
template <class T, int R, int C>
tile_of<T, R, C> read(const slot_of<shared_spec<T, R, C>>& from, location where = location::here()) { return read(from.template part<0>(), where); }

/// Registers into an open slot of a ring: the role's threads fill it.
template <class T, int R, int C>
void write(const operand_of<shared_spec<T, R, C>>& to, const tile_of<T, R, C>& what, location where = location::here()) {
  dsl::context& c = *to.home;
  c.at(where);
  ir::value v = c.use(what.raw(), &what.home()), place = c.use(to.value, to.home);
  c.at().make(ir::opcode::tile_write, {v, place});
}
template <class T, int R, int C>
void write(const slot_of<shared_spec<T, R, C>>& to, const tile_of<T, R, C>& what, location where = location::here()) { write(to.template part<0>(), what, where); }

/// Zeros from row `first` on in a drained slot, by the role's threads, before its products: rows that belong to somebody else. At or beyond the last: nothing.
template <class T, int R, int C>
void clear_from(const operand_of<shared_spec<T, R, C>>& slot, const index& first, location where = location::here()) {
  dsl::context& c = *slot.home;
  c.at(where);
  ir::value v = c.use(slot.value, slot.home), row = c.use(first.raw(), &first.home());
  c.at().make(ir::opcode::tile_clear, {v, row});
}
template <class T, int R, int C>
void clear_from(const slot_of<shared_spec<T, R, C>>& slot, const index& first, location where = location::here()) { clear_from(slot.template part<0>(), first, where); }

/// One element of a view; the coordinate must be inside.
template <class T, int Rank>
scalar<T> element(const box_of<T, Rank>& from, location where = location::here()) {
  dsl::context& c = *from.home;
  c.at(where);
  std::vector<ir::value> operands;
  dsl::append_box(operands, c, from);
  return {c, c.at().make(ir::opcode::global_load, operands, {ir::type::scalar(tile::element_of<T>)}).result()};
}

}  // namespace tlx
