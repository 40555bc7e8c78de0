// Layouts made from layouts: transposed, sliced by columns, reduced along an axis, multiplied and divided, every other column.
#pragma once
#include "tlx/tile/layout.hpp"

namespace tlx::tile {

namespace detail {

/// Appends `count` copies `step` apart as the slowest digit: as bits where adding and XOR agree, as a repeat otherwise.
constexpr void append(axis_map& a, int count, coordinate step, coordinate& used) {
  while (a.rep_count == 0 && count % 2 == 0 && may_be_bit(step.row, used.row) && may_be_bit(step.col, used.col)) {
    a.add_bit(step);
    used = {used.row | step.row, used.col | step.col};
    count /= 2;
    step = 2 * step;
  }
  if (count == 1) return;
  if (a.rep_count > 0) {
    repeat& last = a.rep[static_cast<unsigned>(a.rep_count - 1)];
    if (step == last.count * last.step) {
      last.count *= count;
      return;
    }
  }
  a.add_repeat(count, step);
}

/// The axis whose index i leads to at(i), for 0 <= i < n; false when no product of digits does.
template <class At>
constexpr bool infer_axis(int n, const At& at, coordinate& used, axis_map& a) {
  if (!(at(0) == coordinate{})) return false;
  for (int stride = 1; stride < n;) {
    const coordinate step = at(stride);
    int reach = 2;
    while (stride * reach < n && at(stride * reach) == reach * step) ++reach;
    while ((n / stride) % reach != 0) --reach;
    if (reach == 1 || (a.rep_count == axis_map::max_repeats)) return false;
    append(a, reach, step, used);
    stride *= reach;
  }
  for (int i = 0; i < n; ++i)
    if (!(a.xor_part(i) + a.add_part(i) == at(i))) return false;
  return true;
}

constexpr axis_map swapped(axis_map a) {
  for (coordinate& c : a.bit) c = {c.col, c.row};
  for (repeat& r : a.rep) r.step = {r.step.col, r.step.row};
  return a;
}

constexpr int next_power_of_two_above(int mask) {
  int p = 1;
  while (p <= mask) p *= 2;
  return p;
}

}  // namespace detail

constexpr layout transposed(const layout& l) {
  return {l.cols, l.rows, detail::swapped(l.reg), detail::swapped(l.lane), detail::swapped(l.warp), detail::swapped(l.block)};
}

/// True when both spread elements over lanes, warps and blocks alike, whatever the registers do.
constexpr bool same_threads(const layout& a, const layout& b) { return a.lane == b.lane && a.warp == b.warp && a.block == b.block; }

/// A chunk of columns as a layout of its own.
struct column_slice {
  static constexpr int max_registers = 512;
  bool ok = false;          // false: the chunk is not the same registers in every thread (or the extents are wrong)
  layout part = {};         // rows x n
  int count = 0;            // == part.register_count()
  std::array<std::int16_t, max_registers> source = {};  // register i of the part is register source[i] of the whole
};

/// Columns [first, first + count). The chunk must cut between the column groups that lanes and warps share: a multiple of
/// 8 columns for accumulators, anything for a layout whose threads own whole rows.
constexpr column_slice slice_columns(const layout& l, int first, int count) {
  column_slice s;
  if (first < 0 || count < 1 || first + count > l.cols || l.register_count() > column_slice::max_registers) return s;
  int thread_bits = 0;
  for (const axis_map* a : {&l.lane, &l.warp, &l.block}) {
    thread_bits |= detail::used_bits(*a).col;
    for (int i = 0; i < a->rep_count; ++i)
      if (a->rep[static_cast<unsigned>(i)].step.col != 0 && count != l.cols) return s;
  }
  const int group = detail::next_power_of_two_above(thread_bits);  // threads move elements inside groups of so many columns
  if (count != l.cols && (first % group != 0 || count % group != 0)) return s;
  for (int i = 0; i < l.reg.rep_count; ++i)
    if (count != l.cols && l.reg.rep[static_cast<unsigned>(i)].step.col % group != 0) return s;
  for (int r = 0; r < l.register_count(); ++r) {
    const int col = (l.reg.xor_part(r) + l.reg.add_part(r)).col;
    if (count == l.cols || (col >= first && col < first + count)) s.source[static_cast<unsigned>(s.count++)] = static_cast<std::int16_t>(r);
  }
  if (s.count == 0) return s;
  if (count == l.cols) {
    s.part = l;
    s.ok = true;
    return s;
  }
  coordinate used;
  for (const axis_map* a : {&l.lane, &l.warp, &l.block}) used = {used.row | detail::used_bits(*a).row, used.col | detail::used_bits(*a).col};
  axis_map reg;
  const auto at = [&](int i) {
    const int r = s.source[static_cast<unsigned>(i)];
    return l.reg.xor_part(r) + l.reg.add_part(r) - coordinate{0, first};
  };
  if (!detail::infer_axis(s.count, at, used, reg)) return s;
  s.part = make_layout_part(l.rows, count, reg, l.lane, l.warp, l.block);
  s.ok = true;
  return s;
}

enum class axis : std::uint8_t { rows, cols };

namespace detail {

constexpr coordinate project(coordinate c, axis gone) { return gone == axis::cols ? coordinate{c.row, 0} : coordinate{0, c.col}; }

constexpr axis_map projected(const axis_map& a, axis gone) {
  axis_map out = a;
  for (coordinate& c : out.bit) c = project(c, gone);
  for (repeat& r : out.rep) r.step = project(r.step, gone);
  return out;
}

}  // namespace detail

/// What a reduction along `gone` leaves in each thread: reduced(l, axis::cols) is the rows x 1 layout of a row sum, with
/// copies in the lanes and warps that shared a row. Registers that held the same row become one.
constexpr layout reduced(const layout& l, axis gone) {
  axis_map reg;
  detail::elimination seen;
  for (int i = 0; i < l.reg.bit_count; ++i) {
    const coordinate c = detail::project(l.reg.bit[static_cast<unsigned>(i)], gone);
    if (seen.add(c)) reg.add_bit(c);
  }
  for (int i = 0; i < l.reg.rep_count; ++i) {
    const repeat r = l.reg.rep[static_cast<unsigned>(i)];
    if (!(detail::project(r.step, gone) == coordinate{})) reg.add_repeat(r.count, detail::project(r.step, gone));
  }
  return make_layout_part(gone == axis::cols ? l.rows : 1, gone == axis::rows ? l.cols : 1, reg, detail::projected(l.lane, gone),
                          detail::projected(l.warp, gone), detail::projected(l.block, gone));
}

/// True when every thread already holds the elements of `vector` (rows x 1 or 1 x cols) that its part of `whole` meets, so
/// that broadcasting moves nothing. find_register(vector, ...) or broadcast_register() says where.
constexpr bool broadcastable(const layout& vector, const layout& whole) {
  const bool column = vector.cols == 1 && vector.rows == whole.rows, row = vector.rows == 1 && vector.cols == whole.cols;
  if (!column && !row) return false;
  const layout need = column ? reduced(whole, axis::cols) : reduced(whole, axis::rows);
  if (!same_threads(vector, need)) return false;
  for (int r = 0; r < need.register_count(); ++r)
    if (find_register(vector, need.at(r, 0), 0) < 0) return false;
  return true;
}

/// Register of `vector` to use with register `reg` of `whole`, the same in every thread; needs broadcastable().
constexpr int broadcast_register(const layout& vector, const layout& whole, int reg) {
  const coordinate c = whole.at(reg, 0);
  return find_register(vector, {vector.rows == 1 ? 0 : c.row, vector.cols == 1 ? 0 : c.col}, 0);
}

/// `inner` placed once for each index of `outer`, whose coordinates count in whole inner tiles; outer digits are slower.
/// The bits of `outer` must each move to coordinates of their own (no XOR between them), as repeats do.
constexpr layout product(const layout& inner, const layout& outer) {
  layout l = inner;
  coordinate used;
  for (const axis_map* a : {&inner.reg, &inner.lane, &inner.warp, &inner.block})
    used = {used.row | detail::used_bits(*a).row, used.col | detail::used_bits(*a).col};
  const auto extend = [&](axis_map& a, const axis_map& by) {
    for (int i = 0; i < by.bit_count; ++i) {
      const coordinate c = by.bit[static_cast<unsigned>(i)];
      detail::append(a, 2, {c.row * inner.rows, c.col * inner.cols}, used);
    }
    for (int i = 0; i < by.rep_count; ++i) {
      const repeat r = by.rep[static_cast<unsigned>(i)];
      detail::append(a, r.count, {r.step.row * inner.rows, r.step.col * inner.cols}, used);
    }
  };
  extend(l.reg, outer.reg);
  extend(l.lane, outer.lane);
  extend(l.warp, outer.warp);
  extend(l.block, outer.block);
  return make_layout_part(inner.rows * outer.rows, inner.cols * outer.cols, l.reg, l.lane, l.warp, l.block);
}

/// The arrangement with product(inner, quotient) == whole: how many instructions of shape `inner` a tile is made of and
/// in which order. Nothing when the tile is not made of them.
constexpr std::optional<layout> quotient(const layout& whole, const layout& inner) {
  if (whole.rows % inner.rows != 0 || whole.cols % inner.cols != 0) return std::nullopt;
  bool ok = true;
  coordinate used;
  const auto divide = [&](const axis_map& a, const axis_map& by) {
    axis_map q;
    if (a.count() % by.count() != 0) ok = false;
    if (!ok) return q;
    const auto at = [&](int i) {
      const int index = i * by.count();
      const coordinate c = a.xor_part(index) + a.add_part(index);
      if (c.row % inner.rows != 0 || c.col % inner.cols != 0) ok = false;
      return coordinate{c.row / inner.rows, c.col / inner.cols};
    };
    ok = detail::infer_axis(a.count() / by.count(), at, used, q) && ok;
    return q;
  };
  const axis_map reg = divide(whole.reg, inner.reg), lane = divide(whole.lane, inner.lane), warp = divide(whole.warp, inner.warp),
                 block = divide(whole.block, inner.block);
  if (!ok) return std::nullopt;
  const layout q = make_layout_part(whole.rows / inner.rows, whole.cols / inner.cols, reg, lane, warp, block);
  if (!(product(inner, q) == whole)) return std::nullopt;
  return q;
}

/// Neighbouring columns in neighbouring registers of one thread, aligned: how wide its memory accesses may be, in elements.
constexpr int contiguous_columns(const layout& l) {
  int n = 1;
  for (int i = 0; i < l.reg.bit_count && l.reg.bit[static_cast<unsigned>(i)] == coordinate{0, n}; ++i) {
    for (const axis_map* a : {&l.reg, &l.lane, &l.warp, &l.block}) {
      for (int j = 0; j < a->bit_count; ++j)
        if (!(a == &l.reg && j == i) && (a->bit[static_cast<unsigned>(j)].col & n) != 0) return n;
      for (int j = 0; j < a->rep_count; ++j)
        if (a->rep[static_cast<unsigned>(j)].step.col % (2 * n) != 0) return n;
    }
    n *= 2;
  }
  return n;
}

namespace detail {

constexpr axis_map columns_times(const axis_map& a, int times, int parts, int first_bit = 0) {
  axis_map out;
  for (int i = first_bit; i < a.bit_count; ++i) out.add_bit({a.bit[static_cast<unsigned>(i)].row, a.bit[static_cast<unsigned>(i)].col * times / parts});
  for (int i = 0; i < a.rep_count; ++i) {
    const repeat& r = a.rep[static_cast<unsigned>(i)];
    out.add_repeat(r.count, {r.step.row, r.step.col * times / parts});
  }
  return out;
}

}  // namespace detail

/// Columns 2i and 2i + 1 lie in registers 2r and 2r + 1 of one thread.
constexpr bool pairs_columns(const layout& l) { return contiguous_columns(l) >= 2; }
/// Every other column of a layout that pairs columns, each left where it is: register r is register 2r (even columns) or 2r + 1 (odd ones) of `l`.
constexpr layout halved_columns(const layout& l) {
  return make_layout_part(l.rows, l.cols / 2, detail::columns_times(l.reg, 1, 2, 1), detail::columns_times(l.lane, 1, 2), detail::columns_times(l.warp, 1, 2),
                          detail::columns_times(l.block, 1, 2));
}
/// The layout that pairs columns whose every other column lies as in `l`.
constexpr layout doubled_columns(const layout& l) {
  axis_map reg = axis_map().add_bit({0, 1});
  const axis_map rest = detail::columns_times(l.reg, 2, 1);
  for (int i = 0; i < rest.bit_count; ++i) reg.add_bit(rest.bit[static_cast<unsigned>(i)]);
  for (int i = 0; i < rest.rep_count; ++i) reg.add_repeat(rest.rep[static_cast<unsigned>(i)].count, rest.rep[static_cast<unsigned>(i)].step);
  return make_layout_part(l.rows, l.cols * 2, reg, detail::columns_times(l.lane, 2, 1), detail::columns_times(l.warp, 2, 1), detail::columns_times(l.block, 2, 1));
}

}  // namespace tlx::tile
