// Exchanges between the lanes of a warp. Lanes that stand elsewhere but are named in the member mask are waited for.
#include <algorithm>
#include <bit>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

struct group { lanes named = 0, together = 0; };

/// The lanes that take part: all named, live lanes must stand at this instruction (in any context). `next` when they do; `retry` when the lanes are blocked
/// until the others come. Lanes that name different masks are groups of their own: the context is cut (`moved`) and each group comes here again.
step gather(engine& e, warp& w, context& c, const instruction& i, lanes active, group& g) {
  const std::uint32_t* const mask = w.slot<std::uint32_t>(i.e);
  const lanes named = mask[std::countr_zero(active)];
  lanes same = 0;
  for (int l = 0; l < 32; ++l) same |= static_cast<lanes>(mask[l] == named) << l;
  same &= active;
  if (same != active) {
    instruction cut = i;
    cut.run = op_branch_table;  // those who stay run the instruction again
    cut.target = c.pc;
    cut.join = c.pc + 1;
    return e.diverge(w, c, cut, same);
  }
  g.named = named;
  if ((named & active) != active) e.fault("barrier_misuse", cat("a lane executes ", std::string(i.opcode), " but is not in its member mask"), &w, &i, active & ~named);
  lanes needed = named & w.live();
  if ((needed & ~active) == 0) { g.together = active; return step::next; }
  // Lanes of other contexts that wait at the same instruction with the same mask.
  const auto waits = [&](const context& k) { return &k != &c && k.pc == c.pc && k.at == context::state::blocked && k.why == block_reason::lane_group && k.key == named; };
  lanes have = active;
  for (context& k : w.contexts) {
    if (waits(k)) {
      lanes p = k.who;
      if (i.guard != no_slot) { const lanes guard = *w.slot<lanes>(i.guard); p &= i.guard_inverted ? ~guard : guard; }
      have |= p;
    }
  }
  if (needed & ~have) {
    c.at = context::state::blocked;
    c.why = block_reason::lane_group;
    c.key = named;
    return step::retry;
  }
  g.together = have;
  // The others have executed it too: let them go on behind it.
  for (context& k : w.contexts)
    if (waits(k)) { k.at = context::state::runnable; k.why = block_reason::none; ++k.pc; }
  e.make_runnable(w);
  return step::next;
}

void put(lanes& d, lanes who, lanes value) { d = (d & ~who) | (value & who); }

}  // namespace

step op_shuffle(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  group g;
  if (const step s = gather(e, w, c, i, active, g); s != step::next) return s;
  [[maybe_unused]] const lanes all = g.together;
  std::uint32_t in[32], out[32];
  std::copy_n(w.slot<std::uint32_t>(i.a), 32, in);
  const std::uint32_t* b = w.slot<std::uint32_t>(i.b);
  const std::uint32_t* k = w.slot<std::uint32_t>(i.c);
  lanes valid = 0;
  for (lanes m = all; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const int bval = static_cast<int>(b[l] & 0x1FU), cval = static_cast<int>(k[l] & 0x1FU), segment = static_cast<int>(k[l] >> 8 & 0x1FU);
    const int maximum = (l & segment) | (cval & ~segment), minimum = l & segment;
    int j = l;
    bool p = false;
    switch (i.sub) {
      case 0: j = l - bval; p = j >= maximum; break;
      case 1: j = l + bval; p = j <= maximum; break;
      case 2: j = l ^ bval; p = j <= maximum; break;
      default: j = minimum | (bval & ~segment); p = j <= maximum; break;
    }
    if (!p) j = l;
    if (!(all >> j & 1U)) e.fault("barrier_misuse", cat("shfl.sync reads lane ", j, ", which does not take part"), &w, &i, 1U << l);
    out[l] = in[j];
    if (p) valid |= 1U << l;
  }
  if (i.d != no_slot) { std::uint32_t* d = w.slot<std::uint32_t>(i.d); for (lanes m = all; m; m &= m - 1) { const int l = std::countr_zero(m); d[l] = out[l]; } }
  if (i.d2 != no_slot) put(*w.slot<lanes>(i.d2), all, valid);
  return step::next;
}

step op_vote(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  group g;
  if (const step s = gather(e, w, c, i, active, g); s != step::next) return s;
  [[maybe_unused]] const lanes all = g.together;
  const lanes p = (*w.slot<lanes>(i.a) ^ (i.mode.invert_c ? all_lanes : 0U)) & all;
  if (i.sub == 3) { std::uint32_t* d = w.slot<std::uint32_t>(i.d); for (lanes m = all; m; m &= m - 1) d[std::countr_zero(m)] = p; return step::next; }
  const bool v = i.sub == 0 ? p == all : i.sub == 1 ? p != 0 : p == 0 || p == all;
  put(*w.slot<lanes>(i.d), all, v ? all_lanes : 0U);
  return step::next;
}

step op_match(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  group g;
  if (const step s = gather(e, w, c, i, active, g); s != step::next) return s;
  [[maybe_unused]] const lanes all = g.together;
  const auto value = [&](int l) { return i.wide ? w.slot<std::uint64_t>(i.a)[l] : w.slot<std::uint32_t>(i.a)[l]; };
  lanes out[32] = {};
  lanes equal = 0;
  for (lanes m = all; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    for (lanes n = all; n; n &= n - 1) if (value(std::countr_zero(n)) == value(l)) out[l] |= 1U << std::countr_zero(n);
    if (out[l] == all) equal |= 1U << l;
  }
  for (lanes m = all; m; m &= m - 1) { const int l = std::countr_zero(m); if (i.d != no_slot) w.slot<std::uint32_t>(i.d)[l] = i.sub == 0 ? out[l] : equal == all ? all : 0U; }
  if (i.d2 != no_slot) put(*w.slot<lanes>(i.d2), all, equal == all ? all_lanes : 0U);
  return step::next;
}

step op_redux(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  group g;
  if (const step s = gather(e, w, c, i, active, g); s != step::next) return s;
  [[maybe_unused]] const lanes all = g.together;
  const std::uint32_t* a = w.slot<std::uint32_t>(i.a);
  bool first = true;
  std::uint32_t r = 0;
  float f = 0;
  const extreme_mode mode{i.mode.nan, false, false};
  for (lanes m = all; m; m &= m - 1) {
    const std::uint32_t x = a[std::countr_zero(m)];
    if (i.mode.from == scalar::f32) {
      float y = std::bit_cast<float>(x);
      if (i.mode.absolute) y = std::fabs(y);
      f = first ? y : i.sub == 1 ? min_f32(f, y, mode) : max_f32(f, y, mode);
    } else if (first) r = x;
    else {
      const bool s = is_signed(i.mode.from);
      switch (i.sub) {
        case 0: r += x; break;
        case 1: r = s ? static_cast<std::uint32_t>(std::min(static_cast<std::int32_t>(r), static_cast<std::int32_t>(x))) : std::min(r, x); break;
        case 2: r = s ? static_cast<std::uint32_t>(std::max(static_cast<std::int32_t>(r), static_cast<std::int32_t>(x))) : std::max(r, x); break;
        case 3: r &= x; break;
        case 4: r |= x; break;
        default: r ^= x; break;
      }
    }
    first = false;
  }
  if (i.mode.from == scalar::f32) r = f != f ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(f);
  for (lanes m = all; m; m &= m - 1) w.slot<std::uint32_t>(i.d)[std::countr_zero(m)] = r;
  return step::next;
}

step op_elect(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  group g;
  if (const step s = gather(e, w, c, i, active, g); s != step::next) return s;
  const lanes all = g.together;
  // Which lane is not said, only that it is the same for the same mask. An odd third of the seeds takes the highest.
  const lanes from = g.named & all;
  const int leader = e.how.seed % 3 == 2 ? 31 - std::countl_zero(from) : std::countr_zero(from);
  if (i.d != no_slot) for (lanes m = all; m; m &= m - 1) w.slot<std::uint32_t>(i.d)[std::countr_zero(m)] = static_cast<std::uint32_t>(leader);
  if (i.d2 != no_slot) put(*w.slot<lanes>(i.d2), all, 1U << leader);
  return step::next;
}

step op_active_mask(engine&, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) w.slot<std::uint32_t>(i.d)[std::countr_zero(m)] = active;
  return step::next;
}

step op_warp_barrier(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  group g;
  if (const step s = gather(e, w, c, i, active, g); s != step::next) return s;
  [[maybe_unused]] const lanes all = g.together;
  e.synchronise_warp(w);
  return step::next;
}

}  // namespace tlx::sim
