// Memory a kernel names: views of global tensors, boxes of them, shared tiles, accumulators.
#pragma once
#include <array>
#include <optional>

#include "tlx/dsl/tile.hpp"
#include "tlx/tile/scaled_mma.hpp"

namespace tlx {

/// A tile of a view: one coordinate per axis (elements), which two axes are the tile's rows and columns, and, for jagged data, how many rows are valid.
template <class T, int Rank>
struct box_of {
  dsl::context* home;
  ir::value view;
  std::array<ir::value, Rank> at;
  int row_axis = Rank - 2, col_axis = Rank - 1;
  ir::value valid_rows = nullptr;

  box_of axes(int rows, int cols) const {
    box_of b = *this;
    b.row_axis = rows;
    b.col_axis = cols;
    return b;
  }
};

/// What lines_of(), grid_of() and jagged() hand to a body for one tile, in elements.
struct line_box { index first; };
struct grid_box { index row, col; };
struct run_box : grid_box { predicate begins = {}; };  // whether the CTA's tile before this one was of other rows, or there was none
struct batch_box { index batch, row, col; };
struct group_box { index group, row, col, rows; };  // `rows` of the group from `row` on are in the tile; none or fewer: a tile that is not there
struct jagged_box {
  index row, head, rows;  // first token, head, valid tokens of this tile
  index position = {};    // of the first token in its sequence
  index sequence = {};    // its number
  template <int Keys> tile_of<bool, 1, Keys> key_mask() const { return col_index<1, Keys>(row.home()) < rows; }
  jagged_box of_head(const index& other) const { return {row, other, rows, position, sequence}; }
};

/// A global tensor parameter of rank 1 to 5: element strides, innermost stride 1.
template <class T, int Rank>
class view {
 public:
  static constexpr int rank = Rank;
  using element_type = T;
  static_assert(Rank >= 1 && Rank <= 5, "tlx: a view has rank 1 to 5");
  view() = default;
  void bind(dsl::context& home, ir::value v) {
    home_ = &home;
    value_ = v;
  }
  static ir::type type() { return ir::type::view_of(tile::element_of<T>, Rank); }
  dsl::context& home() const { return dsl::bound(home_); }
  ir::value used() const { return home().use(value_, home_); }

  index extent(int axis, location where = location::here()) const {
    home().at(where);
    ir::value v = used();
    return {*home_, home_->at().make(ir::opcode::extent, {v}, {ir::type::scalar(tile::element::s32)}, {{"axis", std::int64_t{axis}}}).result()};
  }

  template <class... Coordinates>
  box_of<T, Rank> at(const Coordinates&... c) const {
    static_assert(sizeof...(Coordinates) == Rank, "tlx: one coordinate per axis of the view");
    return {home_, used(), {coordinate(c)...}};
  }
  box_of<T, Rank> operator[](const line_box& b) const {
    static_assert(Rank == 1, "tlx: a line box is a box of a vector");
    return at(b.first);
  }
  box_of<T, Rank> operator[](const grid_box& b) const {
    static_assert(Rank == 2, "tlx: a grid box is a box of a matrix");
    return at(b.row, b.col);
  }
  box_of<T, Rank> operator[](const batch_box& b) const {
    static_assert(Rank == 3, "tlx: a batch box is a box of a batch of matrices");
    return at(b.batch, b.row, b.col);
  }
  box_of<T, Rank> operator[](const group_box& b) const {
    static_assert(Rank == 2, "tlx: a group box is a box of a matrix");
    box_of<T, Rank> box = at(b.row, b.col);
    box.valid_rows = b.rows.used();
    return box;
  }
  box_of<T, Rank> operator[](const jagged_box& b) const {
    static_assert(Rank == 3, "tlx: a jagged box is a box of a (token, head, column) tensor");
    box_of<T, Rank> box = at(b.row, b.head, 0).axes(0, 2);
    box.valid_rows = b.rows.used();
    return box;
  }

 private:
  ir::value coordinate(const index& i) const { return home_->use(i.raw(), &i.home()); }
  ir::value coordinate(int i) const { return dsl::constant_of<std::int32_t>(*home_, i); }
  dsl::context* home_ = nullptr;
  ir::value value_ = nullptr;
};

/// Kinds of ring parts.
template <class T, int Rows, int Cols>
struct shared_spec {
  using element_type = T;
  static constexpr int rows = Rows, cols = Cols;
  static constexpr int row_bytes = Cols * tile::bits(tile::element_of<T>) / 8;
  // A single row is left plain: there is no second row to keep off its banks.
  static constexpr int swizzle = Rows == 1 ? 0 : row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : row_bytes % 32 == 0 ? 32 : 0;
  static_assert(Rows == 1 ? row_bytes % 16 == 0 : swizzle != 0, "tlx: a row of a shared tile must be a multiple of 32 bytes, of 16 where there is one row");
  static ir::type type() { return ir::type::shared_of(tile::element_of<T>, Rows, Cols, swizzle); }
};
/// Block scales: Count of type S for each of Rows rows of a (columns of b), in units of 128 x 4 (tlx/tile/scaled_mma.hpp), each seen as 32 rows of 16 bytes.
template <class S, int Rows, int Count>
struct scales_spec {
  using element_type = S;
  static constexpr int rows = Rows, count = Count, units_of_rows = Rows / tile::scale_unit_rows, units_of_k = Count / tile::scale_unit_scales;
  static_assert(tile::is_scale(tile::element_of<S>), "tlx: block scales are ue8m0 or ue4m3");
  static_assert(Rows > 0 && Rows % tile::scale_unit_rows == 0 && Count > 0 && Count % tile::scale_unit_scales == 0, "tlx: block scales come in units of 128 rows and 4 scales");
  static ir::type type() { return ir::type::shared_of(tile::element_of<S>, units_of_rows * units_of_k * 32, 16, 0); }
};
template <class T, int Rows, int Cols>
struct accumulator_spec {
  using element_type = T;
  static constexpr int rows = Rows, cols = Cols;
  static ir::type type() { return ir::type::acc_of(tile::element_of<T>, Rows, Cols); }
};
template <class T, int Rows, int Cols> inline constexpr shared_spec<T, Rows, Cols> shared{};
template <class S, int Rows, int Count> inline constexpr scales_spec<S, Rows, Count> scales{};
template <class T, int Rows, int Cols> inline constexpr accumulator_spec<T, Rows, Cols> accumulator{};

/// One part of an open slot, or an accumulator of its own: a handle, not data.
template <class Spec, bool Transposed = false>
struct operand_of {
  using spec = Spec;
  static constexpr bool transposed = Transposed;
  static constexpr int rows = Transposed ? Spec::cols : Spec::rows, cols = Transposed ? Spec::rows : Spec::cols;
  dsl::context* home;
  ir::value value;
};

/// The transposed view of a shared tile as an MMA operand; nothing moves.
template <class Spec, bool T>
operand_of<Spec, !T> transpose(const operand_of<Spec, T>& o) { return {o.home, o.value}; }

}  // namespace tlx
