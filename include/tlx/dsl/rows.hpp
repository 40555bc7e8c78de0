// Parts of what lies in shared memory: some rows of a tile as an operand, and numbers that threads write by rows and read along the columns.
#pragma once
#include "tlx/dsl/mma.hpp"

namespace tlx {

/// Some rows of a shared tile: an operand of products, nothing else.
template <class Spec, int Rows>
struct rows_spec {
  using element_type = typename Spec::element_type;
  static constexpr int rows = Rows, cols = Spec::cols;
  static_assert(Rows % 8 == 0 && Rows <= Spec::rows, "tlx: rows_of<N>(slot, first): N is a multiple of 8 and not more than the tile has");
  static ir::type type() { return ir::type::shared_of(tile::element_of<element_type>, Rows, cols, Spec::swizzle); }
};

/// N numbers side by side. A column of a role's tile goes in, a row comes out.
template <class T, int N>
struct numbers_spec {
  using element_type = T;
  static constexpr int rows = N, cols = 1;
  static ir::type type() { return ir::type::shared_of(tile::element_of<T>, N, 1, 0); }
};
template <class T, int N> inline constexpr numbers_spec<T, N> numbers{};

namespace dsl {
template <class Spec>
ir::value part_of(const operand_of<Spec>& o, const index& first, const ir::type& part, location where) {
  context& c = *o.home;
  c.at(where);
  ir::value whole = c.use(o.value, o.home), from = c.use(first.raw(), &first.home());
  return c.at().make(ir::opcode::shared_view, {whole, from}, {part}).result();
}
}  // namespace dsl

/// Rows first, first + 1, ... of an open slot's tile as an operand; first is a multiple of 8. Nothing moves.
template <int Rows, class T, int R, int C>
operand_of<rows_spec<shared_spec<T, R, C>, Rows>> rows_of(const operand_of<shared_spec<T, R, C>>& o, const index& first, location where = location::here()) {
  return {o.home, dsl::part_of(o, first, rows_spec<shared_spec<T, R, C>, Rows>::type(), where)};
}

/// A column of numbers into an open slot, from number `first` on.
template <class T, int N, int R>
void write(const operand_of<numbers_spec<T, N>>& to, const index& first, const tile_of<T, R, 1>& what, location where = location::here()) {
  const ir::value place = dsl::part_of(to, first, numbers_spec<T, R>::type(), where);
  dsl::context& c = *to.home;
  c.at().make(ir::opcode::tile_write, {c.use(what.raw(), &what.home()), place});
}
/// Numbers first, first + 1, ... of a drained slot along the columns.
template <int Cols, class T, int N>
tile_of<T, 1, Cols> read_along(const operand_of<numbers_spec<T, N>>& from, const index& first, location where = location::here()) {
  const ir::value place = dsl::part_of(from, first, numbers_spec<T, Cols>::type(), where);
  dsl::context& c = *from.home;
  return {c, c.at().make(ir::opcode::tile_read, {place}, {ir::type::tile_of(tile::element_of<T>, 1, Cols)}).result()};
}

}  // namespace tlx
