// The run-time row and column of each register of a layout, and which registers are neighbours.
#include <algorithm>
#include <set>

#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;

namespace {
int along(tile::coordinate c, int axis) { return axis == 0 ? c.row : c.col; }

/// XOR over the set bits of `index` of each bit's value: bits that all move by the same distance are moved together.
Value* xor_of_bits(emitter& e, Value* index, const tile::axis_map& map, int axis, int& possible) {
  auto& b = e.b;
  std::map<int, unsigned> by_shift;  // distance -> mask of index bits
  Value* sum = nullptr;
  const auto add = [&](Value* v) { sum = sum ? b.CreateXor(sum, v) : v; };
  for (int i = 0; i < map.bit_count; ++i) {
    const int to = along(map.bit[static_cast<unsigned>(i)], axis);
    possible |= to;
    if (to == 0) continue;
    if (tile::detail::is_power_of_two(to)) {
      by_shift[__builtin_ctz(static_cast<unsigned>(to)) - i] |= 1U << i;
    } else {
      Value* bit = b.CreateAnd(b.CreateLShr(index, static_cast<unsigned>(i)), e.const32(1));
      add(b.CreateMul(bit, e.const32(to)));
    }
  }
  for (const auto& [shift, mask] : by_shift) {
    Value* bits = b.CreateAnd(index, e.const32(mask));
    add(shift > 0 ? b.CreateShl(bits, static_cast<unsigned>(shift)) : shift < 0 ? b.CreateLShr(bits, static_cast<unsigned>(-shift)) : bits);
  }
  return sum;
}

Value* sum_of_repeats(emitter& e, Value* index, const tile::axis_map& map, int axis, int& possible) {
  auto& b = e.b;
  Value* sum = nullptr;
  Value* rest = map.bit_count == 0 || map.rep_count == 0 ? index : b.CreateLShr(index, static_cast<unsigned>(map.bit_count));
  for (int i = 0; i < map.rep_count; ++i) {
    const tile::repeat& r = map.rep[static_cast<unsigned>(i)];
    const int step = along(r.step, axis);
    if (step != 0) {
      Value* digit = i + 1 == map.rep_count ? rest : b.CreateURem(rest, e.const32(r.count));
      Value* v = b.CreateMul(digit, e.const32(step));
      sum = sum ? b.CreateAdd(sum, v) : v;
      possible |= -(step & -step);  // a sum may carry into every higher bit
    }
    if (i + 1 < map.rep_count) rest = b.CreateUDiv(rest, e.const32(r.count));
  }
  return sum;
}
}  // namespace

placement::placement(emitter& e, const tile::layout& l, bool without_warp_rows) : e_(&e), layout_(l) {
  auto& b = e.b;
  const bool one_warp = l.warp_count() == 1;
  Value* warp = one_warp ? nullptr : e.layout_warp();
  for (int a = 0; a < 2; ++a) {
    axis& x = axes_[a];
    const bool with_warp = !one_warp && !(without_warp_rows && a == 0);
    x.bits = xor_of_bits(e, e.lane(), l.lane, a, x.possible);
    if (with_warp) {
      Value* w = xor_of_bits(e, warp, l.warp, a, x.possible);
      if (w) x.bits = x.bits ? b.CreateXor(x.bits, w) : w;
    }
    if (!x.bits) x.bits = e.const32(0);
    x.possible_sum = x.possible;
    x.added = sum_of_repeats(e, e.lane(), l.lane, a, x.possible_sum);
    if (with_warp) {
      Value* w = sum_of_repeats(e, warp, l.warp, a, x.possible_sum);
      if (w) x.added = x.added ? b.CreateAdd(x.added, w) : w;
    }
    int reg_bits = 0;
    for (int i = 0; i < l.reg.bit_count; ++i) reg_bits |= along(l.reg.bit[static_cast<unsigned>(i)], a);
    x.separable = (reg_bits & x.possible) == 0;
    x.sum = x.added ? b.CreateAdd(x.bits, x.added) : x.bits;
  }
}

spot placement::at(int reg, int a) const {
  const axis& x = axes_[a];
  const int flip = along(layout_.reg.xor_part(reg), a), add = along(layout_.reg.add_part(reg), a);
  if (x.separable) return {x.sum, flip + add, x.possible_sum};
  auto& b = e_->b;
  Value* v = flip == 0 ? x.bits : b.CreateXor(x.bits, e_->const32(flip));
  if (x.added) v = b.CreateAdd(v, x.added);
  return {v, add, -1};
}

Value* emitter::owner_of(const tile::layout& l) {
  const int warps = l.warp_count(), n = l.register_count();
  if (warps * 32 * n <= l.rows * l.cols) return nullptr;
  // Threads that hold the same elements, in whichever registers, are known by the set of them.
  std::set<std::vector<int>> seen;
  std::vector<unsigned> owners(static_cast<size_t>(warps), 0);
  unsigned some = 0, every = ~0U, warps_with_owners = 0;
  for (int warp = 0; warp < warps; ++warp) {
    unsigned& mine = owners[static_cast<size_t>(warp)];
    for (int lane = 0; lane < 32; ++lane) {
      std::vector<int> held;
      for (int r = 0; r < n; ++r) held.push_back(l.at(r, lane, warp).row * l.cols + l.at(r, lane, warp).col);
      std::sort(held.begin(), held.end());
      if (seen.insert(held).second) mine |= 1U << lane;
    }
    some |= mine;
    if (mine) every &= mine, warps_with_owners |= 1U << warp;
  }
  if (every == ~0U && warps_with_owners == (warps == 32 ? ~0U : (1U << warps) - 1)) return nullptr;
  const auto bit = [&](Value* word, Value* index) { return b.CreateICmpNE(b.CreateAnd(b.CreateLShr(word, index), const32(1)), const32(0)); };
  if (some == every) {
    Value* yes = some == ~0U ? nullptr : bit(const32(static_cast<int>(some)), lane_);
    if (warps_with_owners != (warps == 32 ? ~0U : (1U << warps) - 1)) {
      Value* mine = bit(const32(static_cast<int>(warps_with_owners)), layout_warp());
      yes = yes ? b.CreateAnd(yes, mine) : mine;
    }
    return yes;
  }
  Value* word = const32(static_cast<int>(owners.back()));
  for (int warp = warps - 1; warp-- > 0;) word = b.CreateSelect(b.CreateICmpEQ(layout_warp(), const32(warp)), const32(static_cast<int>(owners[static_cast<size_t>(warp)])), word);
  return bit(word, lane_);
}

std::vector<run> find_runs(const tile::layout& l, int length) {
  const int n = l.register_count();
  std::vector<run> out;
  // The columns of lane and warp must not disturb the low bits, and the register's own must be theirs alone.
  bool aligned = length > 1 && l.cols % length == 0;
  const auto check = [&](const tile::axis_map& m) {
    for (int i = 0; i < m.bit_count; ++i) aligned = aligned && m.bit[static_cast<unsigned>(i)].col % length == 0;
    for (int i = 0; i < m.rep_count; ++i) aligned = aligned && m.rep[static_cast<unsigned>(i)].step.col % length == 0;
  };
  check(l.lane);
  check(l.warp);
  std::map<std::pair<int, int>, int> by_place;
  if (aligned)
    for (int r = n; r-- > 0;) by_place[{l.at(r, 0).row, l.at(r, 0).col}] = r;
  std::vector<bool> taken(static_cast<size_t>(n), false);
  for (int r = 0; r < n; ++r) {
    if (taken[static_cast<size_t>(r)]) continue;
    run piece{{r}};
    const tile::coordinate c = l.at(r, 0);
    if (aligned && c.col % length == 0) {
      for (int j = 1; j < length; ++j) {
        auto it = by_place.find({c.row, c.col + j});
        if (it == by_place.end() || taken[static_cast<size_t>(it->second)]) break;
        piece.regs.push_back(it->second);
      }
      if (static_cast<int>(piece.regs.size()) != length) piece.regs.resize(1);
    }
    for (int p : piece.regs) taken[static_cast<size_t>(p)] = true;
    out.push_back(piece);
  }
  return out;
}

}  // namespace tlx::codegen
