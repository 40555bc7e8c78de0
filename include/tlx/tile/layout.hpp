// Where each element of a 2-D tile lives among registers, lanes, warps and CTAs: a map from (register, lane, warp, block)
// to (row, column). Index bits are linear over GF(2) (XOR); extents that are no powers of two are integer repeats.
//
//   index of one axis = [ digits of the repeats | bits ]        the first repeat turns fastest among the repeats
//   coordinate        = XOR over set bits of all axes  +  sum over repeats of digit * step
//
// Two layouts that place every element alike are equal as values: make_layout() normalises.
#pragma once
#include <array>
#include <cstdint>
#include <iosfwd>  // declares std::string
#include <optional>
#include <string_view>

namespace tlx::tile {

inline constexpr int warp_lanes = 32;

struct coordinate {
  int row = 0, col = 0;
  friend constexpr bool operator==(const coordinate&, const coordinate&) = default;
  friend constexpr coordinate operator+(coordinate a, coordinate b) { return {a.row + b.row, a.col + b.col}; }
  friend constexpr coordinate operator-(coordinate a, coordinate b) { return {a.row - b.row, a.col - b.col}; }
  friend constexpr coordinate operator^(coordinate a, coordinate b) { return {a.row ^ b.row, a.col ^ b.col}; }
  friend constexpr coordinate operator*(int n, coordinate a) { return {n * a.row, n * a.col}; }
};

/// `count` copies, each `step` further: the part of an extent that is no power of two.
struct repeat {
  int count = 1;
  coordinate step = {};
  friend constexpr bool operator==(const repeat&, const repeat&) = default;
};

namespace detail {
// Not constexpr on purpose: calling it in a constant expression stops the compiler at the line of the broken rule.
// At run time it raises user_error [id]; `a` and `b` are the numbers that disagree.
[[noreturn]] void layout_error(const char* id, const char* what, int a, int b);
}  // namespace detail

/// What one index (register, lane, warp or block) adds to the coordinate.
struct axis_map {
  static constexpr int max_bits = 12, max_repeats = 4;
  std::array<coordinate, max_bits> bit = {};
  std::array<repeat, max_repeats> rep = {};
  int bit_count = 0, rep_count = 0;

  constexpr axis_map& add_bit(coordinate to) {
    if (bit_count == max_bits) detail::layout_error("layout-too-large", "an index of a layout has more bits than its table holds", bit_count + 1, max_bits);
    bit[static_cast<unsigned>(bit_count++)] = to;
    return *this;
  }
  constexpr axis_map& add_repeat(int count, coordinate step) {
    if (count < 1) detail::layout_error("layout-extent-invalid", "a repeat needs a count of at least 1", count, 1);
    if (count == 1) return *this;
    if (rep_count == max_repeats) detail::layout_error("layout-too-large", "an index of a layout has more repeats than its table holds", rep_count + 1, max_repeats);
    rep[static_cast<unsigned>(rep_count++)] = {count, step};
    return *this;
  }
  constexpr int count() const { return (1 << bit_count) * repeats(); }
  constexpr int repeats() const {
    int n = 1;
    for (int i = 0; i < rep_count; ++i) n *= rep[static_cast<unsigned>(i)].count;
    return n;
  }
  constexpr coordinate xor_part(int index) const {
    coordinate c;
    for (int i = 0; i < bit_count; ++i)
      if ((index >> i) & 1) c = c ^ bit[static_cast<unsigned>(i)];
    return c;
  }
  /// `index` is the full index; its bits part is ignored.
  constexpr coordinate add_part(int index) const {
    coordinate c;
    int rest = index >> bit_count;
    for (int i = 0; i < rep_count; ++i) {
      const repeat& r = rep[static_cast<unsigned>(i)];
      c = c + (rest % r.count) * r.step;
      rest /= r.count;
    }
    return c;
  }
  friend constexpr bool operator==(const axis_map&, const axis_map&) = default;
};

/// Who holds an element.
struct owner {
  int reg = 0, lane = 0, warp = 0, block = 0;
  friend constexpr bool operator==(const owner&, const owner&) = default;
  constexpr bool before(const owner& o) const {
    return block != o.block ? block < o.block : warp != o.warp ? warp < o.warp : lane != o.lane ? lane < o.lane : reg < o.reg;
  }
};

struct layout {
  int rows = 0, cols = 0;
  axis_map reg = {}, lane = {}, warp = {}, block = {};

  constexpr coordinate at(int r, int l, int w = 0, int b = 0) const {
    return (reg.xor_part(r) ^ lane.xor_part(l) ^ warp.xor_part(w) ^ block.xor_part(b)) + reg.add_part(r) + lane.add_part(l) + warp.add_part(w) +
           block.add_part(b);
  }
  constexpr coordinate at(owner o) const { return at(o.reg, o.lane, o.warp, o.block); }
  constexpr int register_count() const { return reg.count(); }  // elements per thread
  constexpr int warp_count() const { return warp.count(); }
  constexpr int block_count() const { return block.count(); }
  constexpr int thread_count() const { return warp.count() * warp_lanes; }
  /// How many owners an element has on average; exactly that many when the layout covers its tile evenly.
  constexpr int replication() const {
    return static_cast<int>(static_cast<std::int64_t>(register_count()) * warp_lanes * warp_count() * block_count() / (static_cast<std::int64_t>(rows) * cols));
  }
  constexpr bool is_replicated_over_lanes() const;  // two lanes of one warp hold the same element
  constexpr bool is_replicated_over_warps() const;  // two warps of one block hold the same element
  constexpr bool is_replicated_over_blocks() const;
  constexpr int owners(int row, int col) const;     // exact number of (register, lane, warp, block) that hold it
  friend constexpr bool operator==(const layout&, const layout&) = default;
};

namespace detail {

constexpr bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }
constexpr int power_of_two_part(int n) { return n & -n; }
constexpr int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }
constexpr int smaller(int a, int b) { return a < b ? a : b; }

constexpr coordinate used_bits(const axis_map& a) {
  coordinate mask;
  for (int i = 0; i < a.bit_count; ++i) mask = {mask.row | a.bit[static_cast<unsigned>(i)].row, mask.col | a.bit[static_cast<unsigned>(i)].col};
  return mask;
}

constexpr bool may_be_bit(int step, int used) { return step == 0 || (is_power_of_two(step) && (step & used) == 0); }

/// Merges neighbouring repeats, then turns their factors of two into bits where adding and XOR agree.
constexpr void normalise(axis_map& a, coordinate& used) {
  axis_map out;
  for (int i = 0; i < a.bit_count; ++i) out.add_bit(a.bit[static_cast<unsigned>(i)]);
  std::array<repeat, axis_map::max_repeats> merged = {};
  int n = 0;
  for (int i = 0; i < a.rep_count; ++i) {
    const repeat r = a.rep[static_cast<unsigned>(i)];
    if (r.count == 1) continue;
    if (n > 0 && r.step == merged[static_cast<unsigned>(n - 1)].count * merged[static_cast<unsigned>(n - 1)].step)
      merged[static_cast<unsigned>(n - 1)].count *= r.count;
    else
      merged[static_cast<unsigned>(n++)] = r;
  }
  bool open = true;  // a bit may follow only while no repeat stands below it
  for (int i = 0; i < n; ++i) {
    repeat r = merged[static_cast<unsigned>(i)];
    while (open && r.count % 2 == 0 && may_be_bit(r.step.row, used.row) && may_be_bit(r.step.col, used.col)) {
      out.add_bit(r.step);
      used = {used.row | r.step.row, used.col | r.step.col};
      r = {r.count / 2, 2 * r.step};
    }
    if (r.count > 1) {
      open = false;
      out.add_repeat(r.count, r.step);
    }
  }
  a = out;
}

/// Gaussian elimination over GF(2). Vectors are added from the least significant index bit up, so a solution never uses a
/// bit that smaller ones can replace: solve() gives the smallest index.
struct elimination {
  std::array<std::uint32_t, 32> vector = {};
  std::array<std::uint64_t, 32> source = {};
  int added = 0, rank = 0;

  static constexpr std::uint32_t key(coordinate c) { return (static_cast<std::uint32_t>(c.row) << 16) | static_cast<std::uint32_t>(c.col); }
  constexpr void reduce(std::uint32_t& v, std::uint64_t& from) const {
    for (int p = 31; p >= 0 && v != 0; --p)
      if (((v >> p) & 1U) != 0 && vector[static_cast<unsigned>(p)] != 0) {
        v ^= vector[static_cast<unsigned>(p)];
        from ^= source[static_cast<unsigned>(p)];
      }
  }
  /// False when the vector depends on those before it.
  constexpr bool add(coordinate c) {
    std::uint32_t v = key(c);
    std::uint64_t from = 1ULL << added++;
    reduce(v, from);
    if (v == 0) return false;
    int p = 31;
    while (((v >> p) & 1U) == 0) --p;
    vector[static_cast<unsigned>(p)] = v;
    source[static_cast<unsigned>(p)] = from;
    ++rank;
    return true;
  }
  constexpr void add(const axis_map& a) {
    for (int i = 0; i < a.bit_count; ++i) add(a.bit[static_cast<unsigned>(i)]);
  }
  constexpr bool solve(coordinate c, std::uint64_t& from) const {
    if (c.row < 0 || c.col < 0) return false;
    std::uint32_t v = key(c);
    from = 0;
    reduce(v, from);
    return v == 0;
  }
};

constexpr bool has_idle_repeat(const axis_map& a) {
  for (int i = 0; i < a.rep_count; ++i)
    if (a.rep[static_cast<unsigned>(i)].step == coordinate{}) return true;
  return false;
}

constexpr bool adds_nothing_new(elimination& e, const axis_map& a) {
  const int before = e.rank;
  e.add(a);
  return e.rank < before + a.bit_count || has_idle_repeat(a);
}

}  // namespace detail

/// As make_layout, for building blocks of product(): any number of lanes.
constexpr layout make_layout_part(int rows, int cols, axis_map reg, axis_map lane, axis_map warp = {}, axis_map block = {}) {
  if (rows < 1 || cols < 1 || rows > 0x7fff || cols > 0x7fff)
    detail::layout_error("layout-extent-invalid", "a layout needs extents from 1 to 32767", rows, cols);
  coordinate used;
  for (const axis_map* a : {&reg, &lane, &warp, &block}) {
    const coordinate u = detail::used_bits(*a);
    used = {used.row | u.row, used.col | u.col};
  }
  for (axis_map* a : {&reg, &lane, &warp, &block}) detail::normalise(*a, used);
  return {rows, cols, reg, lane, warp, block};
}

/// The way to make a layout: checks the lane axis and normalises. Repeats must not overlap what the bits reach.
constexpr layout make_layout(int rows, int cols, axis_map reg, axis_map lane, axis_map warp = {}, axis_map block = {}) {
  if (lane.count() != warp_lanes) detail::layout_error("layout-extent-invalid", "the lanes of a layout must number 32", lane.count(), warp_lanes);
  return make_layout_part(rows, cols, reg, lane, warp, block);
}

constexpr bool layout::is_replicated_over_lanes() const {
  detail::elimination e;
  e.add(reg);
  return detail::adds_nothing_new(e, lane);
}
constexpr bool layout::is_replicated_over_warps() const {
  detail::elimination e;
  e.add(reg);
  e.add(lane);
  return detail::adds_nothing_new(e, warp);
}
constexpr bool layout::is_replicated_over_blocks() const {
  detail::elimination e;
  e.add(reg);
  e.add(lane);
  e.add(warp);
  return detail::adds_nothing_new(e, block);
}

namespace detail {

/// Solves for the indices of some axes of a layout. Factors of two of the repeats join the elimination where adding and XOR
/// agree; only the odd rest is tried one by one.
struct index_solver {
  struct digit {
    int axis = 0, weight = 1, count = 1;  // weight: what one more adds to the index
    coordinate step = {};
  };
  using indices = std::array<int, 4>;

  elimination bits = {};
  std::array<std::int8_t, 64> bit_axis = {};
  std::array<std::int32_t, 64> bit_weight = {};
  std::array<digit, 4 * axis_map::max_repeats> digits = {};
  int digit_count = 0, combinations = 1;

  constexpr void add_bit(int axis, int weight, coordinate to) {
    bit_axis[static_cast<unsigned>(bits.added)] = static_cast<std::int8_t>(axis);
    bit_weight[static_cast<unsigned>(bits.added)] = weight;
    bits.add(to);
  }
  /// Axes are added from the least significant up; `used` holds the coordinate bits of all axes of the layout.
  constexpr void add_axis(int axis, const axis_map& a, coordinate& used) {
    int weight = 1;
    for (int i = 0; i < a.bit_count; ++i, weight *= 2) add_bit(axis, weight, a.bit[static_cast<unsigned>(i)]);
    for (int i = 0; i < a.rep_count; ++i) {
      repeat r = a.rep[static_cast<unsigned>(i)];
      for (; r.count % 2 == 0 && may_be_bit(r.step.row, used.row) && may_be_bit(r.step.col, used.col); weight *= 2) {
        add_bit(axis, weight, r.step);
        used = {used.row | r.step.row, used.col | r.step.col};
        r = {r.count / 2, 2 * r.step};
      }
      if (r.count > 1) {
        digits[static_cast<unsigned>(digit_count++)] = {axis, weight, r.count, r.step};
        combinations *= r.count;
        weight *= r.count;
      }
    }
  }
  /// The indices of combination `i` of the digits; returns what they add to the coordinate.
  constexpr coordinate digits_of(int i, indices& at) const {
    coordinate c;
    for (int d = 0; d < digit_count; ++d) {
      const digit& g = digits[static_cast<unsigned>(d)];
      at[static_cast<unsigned>(g.axis)] += i % g.count * g.weight;
      c = c + i % g.count * g.step;
      i /= g.count;
    }
    return c;
  }
  constexpr bool solve(int combination, coordinate target, coordinate fixed, indices& at) const {
    at = {};
    const coordinate rest = target - digits_of(combination, at);
    std::uint64_t from = 0;
    if (rest.row < 0 || rest.col < 0 || !bits.solve(rest ^ fixed, from)) return false;
    for (int i = 0; from != 0; ++i, from >>= 1)
      if ((from & 1U) != 0) at[static_cast<unsigned>(bit_axis[static_cast<unsigned>(i)])] += bit_weight[static_cast<unsigned>(i)];
    return true;
  }
  /// The smallest solution, the last axis counting most. `fixed` is XORed to what the solved axes reach.
  constexpr bool find(coordinate target, coordinate fixed, indices& result) const {
    bool found = false;
    for (int i = 0; i < combinations; ++i) {
      indices at = {};
      if (!solve(i, target, fixed, at)) continue;
      bool smaller = !found;
      for (int a = 3; a >= 0 && !smaller; --a) {
        if (at[static_cast<unsigned>(a)] > result[static_cast<unsigned>(a)]) break;
        smaller = at[static_cast<unsigned>(a)] < result[static_cast<unsigned>(a)];
      }
      if (smaller) result = at;
      found = true;
    }
    return found;
  }
};

constexpr coordinate all_used_bits(const layout& l) {
  coordinate used;
  for (const axis_map* a : {&l.reg, &l.lane, &l.warp, &l.block}) used = {used.row | used_bits(*a).row, used.col | used_bits(*a).col};
  return used;
}

}  // namespace detail

/// Coordinate -> owner. Keeps the eliminated matrix, so asking is cheap.
struct inverse_layout {
  layout of = {};
  detail::index_solver solver = {};

  /// The smallest owner in the order block, warp, lane, register; false when nobody holds the coordinate.
  constexpr bool find(coordinate c, owner& result) const {
    detail::index_solver::indices at = {};
    if (!solver.find(c, {}, at)) return false;
    result = {at[0], at[1], at[2], at[3]};
    return true;
  }
  constexpr owner operator()(coordinate c) const {
    owner o;
    if (!find(c, o)) detail::layout_error("layout-has-no-owner", "no thread of the layout holds this coordinate", c.row, c.col);
    return o;
  }
  constexpr int count(coordinate c) const {
    int n = 0;
    for (int i = 0; i < solver.combinations; ++i) {
      detail::index_solver::indices at = {};
      if (solver.solve(i, c, {}, at)) n += 1 << (solver.bits.added - solver.bits.rank);
    }
    return n;
  }
};

constexpr inverse_layout inverse(const layout& l) {
  inverse_layout inv;
  inv.of = l;
  coordinate used = detail::all_used_bits(l);
  inv.solver.add_axis(0, l.reg, used);
  inv.solver.add_axis(1, l.lane, used);
  inv.solver.add_axis(2, l.warp, used);
  inv.solver.add_axis(3, l.block, used);
  return inv;
}

constexpr int layout::owners(int row, int col) const { return inverse(*this).count({row, col}); }

/// Owner in one layout -> owner of the same element in another: what a conversion has to move.
struct transfer {
  layout from = {};
  inverse_layout to = {};
  constexpr owner operator()(owner o) const { return to(from.at(o)); }
};
constexpr transfer compose(const inverse_layout& to, const layout& from) { return {from, to}; }

/// Looks up what one thread or one warp holds, with the eliminations made once.
struct local_inverse {
  layout of = {};
  detail::index_solver thread = {}, within_warp = {};  // over the registers; over registers and lanes

  /// The register in which this very thread holds the coordinate, the smallest if several; -1 when it does not hold it.
  constexpr int find_register(coordinate c, int lane, int warp = 0, int block = 0) const {
    detail::index_solver::indices at = {};
    const coordinate base = c - of.lane.add_part(lane) - of.warp.add_part(warp) - of.block.add_part(block);
    return thread.find(base, of.lane.xor_part(lane) ^ of.warp.xor_part(warp) ^ of.block.xor_part(block), at) ? at[0] : -1;
  }
  /// A lane of this warp that holds the coordinate, the smallest, and its register; false when no lane does.
  constexpr bool find_lane(coordinate c, int warp, int block, int& reg, int& lane) const {
    detail::index_solver::indices at = {};
    if (!within_warp.find(c - of.warp.add_part(warp) - of.block.add_part(block), of.warp.xor_part(warp) ^ of.block.xor_part(block), at)) return false;
    reg = at[0];
    lane = at[1];
    return true;
  }
};

constexpr local_inverse make_local_inverse(const layout& l) {
  local_inverse inv;
  inv.of = l;
  coordinate used = detail::all_used_bits(l), used_again = used;
  inv.thread.add_axis(0, l.reg, used);
  inv.within_warp.add_axis(0, l.reg, used_again);
  inv.within_warp.add_axis(1, l.lane, used_again);
  return inv;
}

/// As local_inverse::find_register, for a single question.
constexpr int find_register(const layout& l, coordinate c, int lane, int warp = 0, int block = 0) {
  return make_local_inverse(l).find_register(c, lane, warp, block);
}

/// Every element has an owner and no thread holds anything outside the tile. Walks the tile: for tests and assertions.
constexpr bool covers(const layout& l) {
  const inverse_layout inv = inverse(l);
  std::int64_t total = 0;
  for (int r = 0; r < l.rows; ++r)
    for (int c = 0; c < l.cols; ++c) {
      const int n = inv.count({r, c});
      if (n == 0) return false;
      total += n;
    }
  return total == static_cast<std::int64_t>(l.register_count()) * warp_lanes * l.warp_count() * l.block_count();
}

/// One line: `layout<64x96 reg[(0,1),(8,0),(0,8),(0,16),3*(0,32)] lane[(0,2),(0,4),(1,0),(2,0),(4,0)] warp[(16,0),(32,0)]>`.
/// Bits least significant first, then repeats fastest first as count*step; warp and block are left out when empty.
std::string to_text(const layout& l);

/// Reads what to_text() writes (blanks between the parts are free); nothing when it is no well-formed layout.
std::optional<layout> parse_layout(std::string_view text);

}  // namespace tlx::tile
