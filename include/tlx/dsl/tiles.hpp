// Lists of tiles: which box of the problem a CTA works on. One list is walked by every role of a kernel.
#pragma once
#include <algorithm>
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

/// CTAs that divide each tile of a list among them; a list that does not say gives every CTA tiles of its own.
template <class List>
int ctas_of(const List& l) {
  if constexpr (requires { l.ctas(); }) return l.ctas();
  else return 1;
}

/// How the tiles of a cluster's CTAs lie: below each other (they need the same columns) or beside each other (the same rows).
enum class neighbour { below, beside };

/// The tiles of a matrix, Rows x Cols each, `group` tile rows at a time: down the rows of a group, then across, so that both operands stay in L2.
/// `row_axis` and `col_axis`: which axes of the view the tiles' rows and columns are. In a kernel of clusters a tile of the list is that of all its CTAs,
/// which divide it among them: all have one number, and those that got nothing of the last one still take part.
template <int Rows, int Cols>
class grid_tiles {
 public:
  using box = grid_box;
  template <class T, int Rank>
  grid_tiles(const view<T, Rank>& c, int group, int row_axis = Rank - 2, int col_axis = Rank - 1, neighbour lie = neighbour::below)
      : home_(&c.home()), ctas_(home_->kernel().cluster[0]), lie_(lie), rows_(tiles_of(c.extent(row_axis), Rows, down())), cols_(tiles_of(c.extent(col_axis), Cols, across())), group_(std::max(1, group / down())) {
    const std::string name = c.used()->name + ".";
    count_formula_ =
        "(mul (ceil_div " + name + std::to_string(row_axis) + " " + std::to_string(Rows * down()) + ") (ceil_div " + name + std::to_string(col_axis) + " " + std::to_string(Cols * across()) + "))";
  }
  index count() const { return rows_ * cols_; }
  const std::string& count_formula() const { return count_formula_; }
  dsl::context& home() const { return *home_; }
  int ctas() const { return ctas_; }

  template <class Body>
  void visit(const index& tile, Body&& body) const {
    dsl::context& c = *home_;
    const index group = constant(c, group_);
    const index width = group * cols_;
    const index first = tile / width * group;
    const index height = min(rows_ - first, group);
    const index inside = tile % width;
    const index row = first + inside % height, col = inside / height;
    if (ctas_ == 1) return body(grid_box{row * Rows, col * Cols});
    const index mine(c, c.at().simple(ir::opcode::cluster_rank, tile::element::s32));
    if (lie_ == neighbour::below) return body(grid_box{(row * constant(c, ctas_) + mine) * Rows, col * Cols});
    body(grid_box{row * Rows, (col * constant(c, ctas_) + mine) * Cols});
  }

 private:
  int down() const { return lie_ == neighbour::below ? ctas_ : 1; }
  int across() const { return lie_ == neighbour::beside ? ctas_ : 1; }
  index tiles_of(const index& extent, int each, int ctas) const { return {*home_, home_->at().ceil_div(extent.used(), each * ctas)}; }

  dsl::context* home_;
  int ctas_;
  neighbour lie_;
  index rows_, cols_;
  int group_;
  std::string count_formula_;
};
template <int Rows, int Cols, class T>
grid_tiles<Rows, Cols> grid_of(const view<T, 2>& c, int group = 16) { return {c, group}; }
/// In a kernel of clusters: how the tiles of one cluster lie.
template <int Rows, int Cols, class T>
grid_tiles<Rows, Cols> grid_of(const view<T, 2>& c, neighbour lie, int group = 16) { return {c, group, 0, 1, lie}; }

/// The same for a batch of matrices (batch, row, column), matrix after matrix.
template <int Rows, int Cols>
class batch_tiles {
 public:
  using box = batch_box;
  template <class T>
  batch_tiles(const view<T, 3>& c, int group, int row_axis = 1, int col_axis = 2, neighbour lie = neighbour::below)
      : one_(c, group, row_axis, col_axis, lie), batch_(c.extent(0)), count_formula_("(mul " + c.used()->name + ".0 " + one_.count_formula() + ")") {}
  index count() const { return batch_ * one_.count(); }
  const std::string& count_formula() const { return count_formula_; }
  dsl::context& home() const { return one_.home(); }
  int ctas() const { return one_.ctas(); }

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

/// The tiles of a matrix, Rows x Cols each, one row of tiles after the other. Each CTA gets a run of tiles that follow each other, so what it found out about the rows
/// of one serves the next ones. All CTAs read all columns of the second operand at once: it should fit into L2. Walked by cta.roles only.
template <int Rows, int Cols>
class run_tiles {
 public:
  using box = run_box;
  template <class T>
  explicit run_tiles(const view<T, 2>& c)
      : cols_(ceil_div(c.extent(1), Cols)), count_(ceil_div(c.extent(0), Rows) * cols_),
        count_formula_("(mul (ceil_div " + c.used()->name + ".0 " + std::to_string(Rows) + ") (ceil_div " + c.used()->name + ".1 " + std::to_string(Cols) + "))") {}
  index count() const { return count_; }
  const std::string& count_formula() const { return count_formula_; }

  template <class Body>
  void visit(const index& tile, Body&& body) const {
    dsl::context& c = tile.home();
    const index ctas(c, c.at().simple(ir::opcode::grid_size, tile::element::s32, {{"axis", std::int64_t{0}}}));
    const index cta = tile % ctas, round = tile / ctas;  // the first CTAs have one tile more, if not all have the same number
    const index number = cta * (count_ / ctas) + min(cta, count_ % ctas) + round;
    const index row = number / cols_, col = number % cols_;
    body(run_box{{row * Rows, col * Cols}, round == 0 || col == 0});
  }

 private:
  index cols_, count_;
  std::string count_formula_;
};
template <int Rows, int Cols, class T>
run_tiles<Rows, Cols> runs_of(const view<T, 2>& c) { return run_tiles<Rows, Cols>(c); }

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
