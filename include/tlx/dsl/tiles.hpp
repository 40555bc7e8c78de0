// Lists of tiles: which box of the problem a CTA works on. One list is walked by every role of a kernel.
#pragma once
#include <string>

#include "tlx/dsl/flow.hpp"
#include "tlx/dsl/move.hpp"

namespace tlx {

/// The tiles of a vector, Length elements each; the last may be shorter.
template <int Length>
class line_tiles {
 public:
  using box = line_box;
  template <class T>
  explicit line_tiles(const view<T, 1>& v) : count_(ceil_div(v.extent(0), Length)), count_formula_("(ceil_div " + v.used()->name + ".0 " + std::to_string(Length) + ")") {}
  index count() const { return count_; }
  const std::string& count_formula() const { return count_formula_; }

  template <class Body>
  void visit(const index& tile, Body&& body) const { body(line_box{tile * Length}); }

 private:
  index count_;
  std::string count_formula_;
};
template <int Length, class T>
line_tiles<Length> lines_of(const view<T, 1>& v) { return line_tiles<Length>(v); }

/// The tiles of a matrix, Rows x Cols each, `group` tile rows at a time: down the rows of a group, then across, so that both operands stay in L2.
/// `row_axis` and `col_axis`: which axes of the view the tiles' rows and columns are.
template <int Rows, int Cols>
class grid_tiles {
 public:
  using box = grid_box;
  template <class T, int Rank>
  grid_tiles(const view<T, Rank>& c, int group, int row_axis = Rank - 2, int col_axis = Rank - 1)
      : home_(&c.home()), rows_(ceil_div(c.extent(row_axis), Rows)), cols_(ceil_div(c.extent(col_axis), Cols)), group_(group) {
    const std::string name = c.used()->name + ".";
    count_formula_ = "(mul (ceil_div " + name + std::to_string(row_axis) + " " + std::to_string(Rows) + ") (ceil_div " + name + std::to_string(col_axis) + " " + std::to_string(Cols) + "))";
  }
  index count() const { return rows_ * cols_; }
  const std::string& count_formula() const { return count_formula_; }
  dsl::context& home() const { return *home_; }

  template <class Body>
  void visit(const index& tile, Body&& body) const {
    dsl::context& c = *home_;
    const index group = constant(c, group_);
    const index width = group * cols_;
    const index first = tile / width * group;
    const index height = min(rows_ - first, group);
    const index inside = tile % width;
    body(grid_box{(first + inside % height) * Rows, inside / height * Cols});
  }

 private:
  dsl::context* home_;
  index rows_, cols_;
  int group_;
  std::string count_formula_;
};
template <int Rows, int Cols, class T>
grid_tiles<Rows, Cols> grid_of(const view<T, 2>& c, int group = 16) { return {c, group}; }

/// The same for a batch of matrices (batch, row, column), matrix after matrix.
template <int Rows, int Cols>
class batch_tiles {
 public:
  using box = batch_box;
  template <class T>
  batch_tiles(const view<T, 3>& c, int group, int row_axis = 1, int col_axis = 2)
      : one_(c, group, row_axis, col_axis), batch_(c.extent(0)), count_formula_("(mul " + c.used()->name + ".0 " + one_.count_formula() + ")") {}
  index count() const { return batch_ * one_.count(); }
  const std::string& count_formula() const { return count_formula_; }
  dsl::context& home() const { return one_.home(); }

  template <class Body>
  void visit(const index& tile, Body&& body) const {
    const index each = one_.count(), batch = tile / each;
    one_.visit(tile % each, [&](const grid_box& t) { body(batch_box{batch, t.row, t.col}); });
  }

 private:
  grid_tiles<Rows, Cols> one_;
  index batch_;
  std::string count_formula_;
};
template <int Rows, int Cols, class T>
batch_tiles<Rows, Cols> grid_of(const view<T, 3>& c, int group = 16) { return {c, group}; }

/// Which of the sequences that `offsets` (one more than there are, ascending, on the device) divides into tiles of Rows the slot belongs to. Sequence s gets the
/// slots from offsets[s] / Rows + s on: never fewer than it has tiles, so a slot finds its sequence by search and no table is needed; spare slots have no rows.
struct found_rows {
  index sequence, first, rows, position;  // `rows` from row `first` on, at most Rows, none or fewer where the slot is spare; `position`: of `first` in its sequence
};
template <int Rows>
found_rows find_rows(const view<std::int32_t, 1>& offsets, const index& slot) {
  dsl::context& c = slot.home();
  cell<std::int32_t> low(c, constant(c, 0)), high(c, offsets.extent(0) - 1);  // the sequence is in [low, high)
  // Each lane of a warp tries one pivot: three rounds of one load for 32768 sequences.
  constexpr int parts = 32;
  const index part = lane(c) + 1;
  repeat_while(
      c, [&] { return high.get() - low.get() > 1; },
      [&] {
        const index from = low.get(), to = high.get();
        const index step = ceil_div(to - from, parts);
        const index pivot = from + step * part;
        const predicate reached = pivot < to && element(offsets.at(min(pivot, to))) / Rows + pivot <= slot;
        const index found = from + step * warp_sum(where(reached, constant(c, 1), constant(c, 0)));
        low.set(found);
        high.set(min(found + step, to));
      });
  const index sequence = low.get();
  const index begin = element(offsets.at(sequence)), end = element(offsets.at(sequence + 1));
  const index position = (slot - begin / Rows - sequence) * Rows;
  const index first = begin + position;
  return {sequence, first, min(end - first, Rows), position};
}

/// The Rows-token tiles of jagged sequences, heads fastest. offsets: batch + 1 ascending token numbers on the device.
template <int Rows>
class jagged_tiles {
 public:
  using box = jagged_box;
  template <class T>
  jagged_tiles(const view<std::int32_t, 1>& offsets, const view<T, 3>& tokens) : offsets_(offsets), heads_(tokens.extent(1)), tokens_(tokens.extent(0)) {
    const std::string& o = offsets.used()->name;
    const std::string& t = tokens.used()->name;
    count_formula_ = "(mul " + t + ".1 (add (div " + t + ".0 " + std::to_string(Rows) + ") (sub " + o + ".0 1)))";
  }
  index count() const { return heads_ * (tokens_ / Rows + offsets_.extent(0) - 1); }
  const std::string& count_formula() const { return count_formula_; }
  dsl::context& home() const { return heads_.home(); }

  template <class Body>
  void visit(const index& tile, Body&& body) const {
    const index head = tile % heads_, slot = tile / heads_;
    const found_rows found = find_rows<Rows>(offsets_, slot);
    when(found.rows > 0, [&] { body(jagged_box{found.first, head, found.rows, found.position, found.sequence}); });
  }

 private:
  view<std::int32_t, 1> offsets_;
  index heads_, tokens_;
  std::string count_formula_;
};
template <int Rows, class T>
jagged_tiles<Rows> jagged(const view<std::int32_t, 1>& offsets, const view<T, 3>& tokens) { return {offsets, tokens}; }

/// The Rows x Cols tiles of a matrix whose rows are divided into groups by `offsets` (as above): no tile has rows of two groups. The body runs for spare slots too,
/// whose box has no rows: every role of a kernel has the same tiles, and stores nothing there.
template <int Rows, int Cols>
class grouped_tiles {
 public:
  using box = group_box;
  template <class T>
  grouped_tiles(const view<std::int32_t, 1>& offsets, const view<T, 2>& c) : offsets_(offsets), rows_(c.extent(0)), cols_(ceil_div(c.extent(1), Cols)) {
    const std::string& o = offsets.used()->name;
    const std::string& m = c.used()->name;
    count_formula_ = "(mul (ceil_div " + m + ".1 " + std::to_string(Cols) + ") (add (div " + m + ".0 " + std::to_string(Rows) + ") (sub " + o + ".0 1)))";
  }
  index count() const { return cols_ * (rows_ / Rows + offsets_.extent(0) - 1); }
  const std::string& count_formula() const { return count_formula_; }
  dsl::context& home() const { return rows_.home(); }

  template <class Body>
  void visit(const index& tile, Body&& body) const {
    const found_rows found = find_rows<Rows>(offsets_, tile / cols_);
    body(group_box{found.sequence, found.first, tile % cols_ * Cols, found.rows});
  }

 private:
  view<std::int32_t, 1> offsets_;
  index rows_, cols_;
  std::string count_formula_;
};
template <int Rows, int Cols, class T>
grouped_tiles<Rows, Cols> grouped(const view<std::int32_t, 1>& offsets, const view<T, 2>& c) { return {offsets, c}; }

}  // namespace tlx
