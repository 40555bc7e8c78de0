// Exchanges between the lanes of a warp. Lanes that stand elsewhere but are named in the member mask are waited for.
#include <algorithm>
#include <bit>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

/// The lanes that take part: all named, live lanes must stand at this instruction (in any context). Empty optional: blocked until they come.
bool gather(engine& e, warp& w, context& c, const instruction& i, lanes active, lanes named, lanes& together) {
  if ((named & active) != active) e.fault("barrier_misuse", cat("a lane executes ", std::string(i.opcode), " but is not in its member mask"), &w, &i, active & ~named);
  lanes needed = named & w.live();
  if ((needed & ~active) == 0) { together = active; return true; }
  // Lanes of other contexts that wait at the same instruction.
  lanes have = active;
  for (context& k : w.contexts) {
    if (&k == &c || k.pc != c.pc) continue;
    if (k.at == context::state::blocked && k.why == block_reason::lane_group) {
      lanes p = k.who;
      if (i.guard != no_slot) { const lanes g = *w.slot<lanes>(i.guard); p &= i.guard_inverted ? ~g : g; }
      have |= p;
    }
  }
  if (needed & ~have) {
    c.at = context::state::blocked;
    c.why = block_reason::lane_group;
    c.key = w.index;
    return false;
  }
  together = have;
  // The others have executed it too: let them go on behind it.
  for (context& k : w.contexts)
    if (&k != &c && k.pc == c.pc && k.at == context::state::blocked && k.why == block_reason::lane_group) { k.at = context::state::runnable; k.why = block_reason::none; ++k.pc; }
  e.make_runnable(w);
  return true;
}

lanes mask_operand(engine& e, warp& w, const instruction& i, lanes active) {
  const std::uint32_t* m = w.slot<std::uint32_t>(i.e);
  const int first = std::countr_zero(active);
  for (lanes k = active; k; k &= k - 1) if (m[std::countr_zero(k)] != m[first]) {
    // Different masks: disjoint groups. Only equal masks are handled together.
    e.fault("barrier_misuse", "lanes at one instruction have different member masks", &w, &i, active);
  }
  return m[first];
}

void put(lanes& d, lanes who, lanes value) { d = (d & ~who) | (value & who); }

}  // namespace

step op_shuffle(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  lanes all = 0;
  if (!gather(e, w, c, i, active, mask_operand(e, w, i, active), all)) return step::retry;
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
  lanes all = 0;
  if (!gather(e, w, c, i, active, mask_operand(e, w, i, active), all)) return step::retry;
  const lanes p = (*w.slot<lanes>(i.a) ^ (i.mode.invert_c ? all_lanes : 0U)) & all;
  if (i.sub == 3) { std::uint32_t* d = w.slot<std::uint32_t>(i.d); for (lanes m = all; m; m &= m - 1) d[std::countr_zero(m)] = p; return step::next; }
  const bool v = i.sub == 0 ? p == all : i.sub == 1 ? p != 0 : p == 0 || p == all;
  put(*w.slot<lanes>(i.d), all, v ? all_lanes : 0U);
  return step::next;
}

step op_match(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  lanes all = 0;
  if (!gather(e, w, c, i, active, mask_operand(e, w, i, active), all)) return step::retry;
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
  lanes all = 0;
  if (!gather(e, w, c, i, active, mask_operand(e, w, i, active), all)) return step::retry;
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
  lanes all = 0;
  const lanes named = mask_operand(e, w, i, active);
  if (!gather(e, w, c, i, active, named, all)) return step::retry;
  // Which lane is not said, only that it is the same for the same mask. An odd third of the seeds takes the highest.
  const lanes from = named & all;
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
  lanes all = 0;
  if (!gather(e, w, c, i, active, mask_operand(e, w, i, active), all)) return step::retry;
  e.synchronise_warp(w);
  return step::next;
}

}  // namespace tlx::sim
