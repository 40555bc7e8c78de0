// CTA barriers, cluster barriers, mbarriers, register reallocation, and the report when nobody can go on.
#include <algorithm>
#include <bit>
#include <utility>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

// ---- faults
std::string engine::where(const warp& w, lanes who) const {
  const cta& c = *w.home;
  std::string s = cat("CTA (", c.id.x, ",", c.id.y, ",", c.id.z, ") warp ", w.index);
  if (const std::string role = role_name(w); !role.empty()) s += cat(" (", role, ")");
  if (who) {
    const int first = std::countr_zero(who), n = std::popcount(who);
    s += n == 1 ? cat(" lane ", first) : n == 32 ? "" : cat(" lanes ", first, "..", 31 - std::countl_zero(who));
  }
  return s;
}

std::string engine::place_name(std::uint32_t offset, bool data) const {
  std::string all;  // rings may take turns at the same bytes
  for (const ring_note& r : code.text->rings) {
    const std::uint32_t first = code.dynamic_shared_start + r.offset;
    if (r.which == "columns" || (r.which == "slots") != data || offset < first || (offset - first) / r.bytes >= r.stages) continue;
    const std::string slot = cat("slot ", (offset - first) / r.bytes, " of ring \"", r.name, "\"");
    if (!data) return cat(r.which, " barrier of ", r.stages > 1 || r.which == "full" || r.which == "empty" ? slot : cat("\"", r.name, "\""));
    all += cat(all.empty() ? "" : ", ", slot);
  }
  return all;
}

static std::string listed(const engine& e, const std::map<std::uint32_t, std::vector<int>>& of, std::uint32_t offset, const char* words) {
  const auto found = of.find(offset);
  if (found == of.end() || found->second.empty()) return {};
  std::string text = words;
  for (std::size_t k = 0; k < found->second.size(); ++k) text += cat(k ? ", " : "", e.place_of_index(found->second[k]));
  return text;
}

std::string engine::arrivals_text(const cta& c, std::uint32_t offset) const { return listed(*this, c.arrivals, offset, ", in this phase signalled at "); }
std::string engine::signals_text(const cta& c, std::uint32_t offset) const { return listed(*this, c.signalled, offset, ", whose latest phase was signalled at "); }

std::string engine::byte_text(std::uint32_t offset) const {
  const std::string name = place_name(offset, true);
  return cat("shared memory byte ", offset, name.empty() ? std::string() : cat(" (", name, ")"));
}

std::string engine::column_name(int column) const {
  for (const ring_note& r : code.text->rings)
    if (r.which == "columns" && column >= static_cast<int>(r.offset) && (static_cast<std::uint32_t>(column) - r.offset) / r.bytes < r.stages)
      return cat(" (slot ", (static_cast<std::uint32_t>(column) - r.offset) / r.bytes, " of ring \"", r.name, "\")");
  return {};
}

std::string engine::column_text(int column) const { return cat("tensor memory column ", column, column_name(column)); }

std::string engine::barrier_text(std::uint32_t offset) const {
  const std::string name = place_name(offset, false);
  return cat("mbarrier at shared offset ", offset, name.empty() ? std::string() : cat(" (", name, ")"));
}

std::string engine::role_name(const warp& w) const {
  for (const role_note& r : code.text->roles) if (w.index >= r.first && w.index <= r.last) return cat("role \"", r.name, "\"");
  return {};
}

fault_report engine::report_of(const char* kind, const std::string& message, const warp* w, const instruction* i, lanes who) const {
  fault_report r;
  r.kind = kind;
  r.message = message;
  if (i) {
    r.ptx_line = i->line;
    r.opcode = std::string(i->opcode);
    if (i->from.line) {
      const auto found = code.text->files.find(i->from.file);
      r.source_file = found == code.text->files.end() ? "" : found->second;
      r.source_line = static_cast<int>(i->from.line);
    }
  }
  if (w) r.threads = where(*w, who);
  return r;
}

// A warp that runs into what it should have waited for has usually waited for something: whoever has signalled that may have done so too early.
void engine::fault(const char* kind, const std::string& message, const warp* w, const instruction* i, lanes who) {
  const bool unordered = std::string_view(kind) == "race" && w && w->waited_in;
  throw fault_found{report_of(kind, unordered ? cat(message, "; warp ", w->index, " has last waited for the ", barrier_text(w->waited_for), signals_text(*w->waited_in, w->waited_for)) : message, w, i, who)};
}

void engine::note_uninitialized(const std::string& message, const warp* w, const instruction* i, lanes who) {
  if (!how.detect_races) fault("uninitialized", message, w, i, who);
  if (uninitialized) return;
  uninitialized = report_of("uninitialized", message, w, i, who);
  uninitialized_at = warp_instructions;
}

void engine::check(const complaint& c, const warp* w, const instruction* i, lanes who) {
  if (c) fault(to_string(c.kind), c.text, w, i, who);
}

void engine::lint(const std::string& what, const instruction* i) {
  const std::string line = i ? cat(what, " (ptx line ", i->line, ", ", std::string(i->opcode), ")") : what;
  if (std::find(lints.begin(), lints.end(), line) != lints.end() || lints.size() >= 100) return;
  lints.push_back(line);
  lint_cluster.push_back(memory.cluster);
}

void engine::report_deadlock() {
  std::string text = "nothing can go on";
  const instruction* first = nullptr;
  const warp* who = nullptr;
  int listed = 0, more = 0;
  for (const auto& k : resident)
    for (const auto& c : k->ctas) {
      // One line per place where warps of a CTA wait.
      std::map<std::string, std::pair<int, const warp*>> places;
      for (const auto& w : c->warps)
        for (const context& x : w->contexts) {
          if (x.at != context::state::blocked) continue;
          const instruction& i = code.code[x.pc < code.code.size() ? x.pc : 0];
          std::string line;
          switch (x.why) {
            case block_reason::cta_barrier: {
              const cta_barrier& b = c->named[x.key];
              line = cat(role_name(*w), role_name(*w).empty() ? "" : " ", "wait at CTA barrier ", x.key, ": ", b.arrived, " of ", b.expected ? b.expected : [&] { std::uint32_t n = 0; for (const auto& y : c->warps) n += static_cast<std::uint32_t>(std::popcount(y->live())); return n; }(), " threads arrived");
              break;
            }
            case block_reason::cluster_barrier: line = cat("wait at the cluster barrier: ", k->barrier_arrived, " threads arrived"); break;
            case block_reason::mbarrier: {
              const auto found = c->barriers.find(x.key);
              line = cat(role_name(*w), role_name(*w).empty() ? "" : " ", "wait (", place_of(i), ") for phase ", x.phase - 1, " of the ", barrier_text(x.key));
              if (found != c->barriers.end()) line += cat(": ", describe(found->second), arrivals_text(*c, x.key));
              break;
            }
            case block_reason::lane_group: line = cat("wait (ptx line ", i.line, ") for other lanes of the warp"); break;
            case block_reason::tensor_alloc: line = cat("wait (ptx line ", i.line, ") for free tensor memory"); break;
            case block_reason::registers: line = cat("wait (ptx line ", i.line, ") for registers (setmaxnreg)"); break;
            default: continue;
          }
          auto& entry = places[line];
          ++entry.first;
          if (!entry.second) entry.second = w.get();
          if (!first || x.why == block_reason::mbarrier) { first = &i; who = w.get(); }
        }
      for (const auto& [line, n] : places) {
        if (++listed > 12) { ++more; continue; }
        text += cat("\n    CTA (", c->id.x, ",", c->id.y, ",", c->id.z, "): ", n.first, n.first == 1 ? " warp (" : " warps (first: ", n.second->index, ") ", line);
      }
    }
  if (more) text += cat("\n    and ", more, " more places");
  // Who has left, and where, cannot signal any more; lanes that have left their warp are missed where it gathers.
  std::set<std::string> gone;
  for (const auto& k : resident)
    for (const auto& c : k->ctas)
      for (const auto& w : c->warps) {
        const std::string place = w->ended_at < code.code.size() ? cat(" (", place_of(code.code[w->ended_at]), ")") : std::string();
        if (w->done && !role_name(*w).empty()) gone.insert(cat(role_name(*w), place));
        if (!w->done && w->exited & w->launched) gone.insert(cat(where(*w, w->exited & w->launched), place));
      }
  if (!gone.empty()) {
    text += "\n    ended: ";
    bool first_name = true;
    for (const std::string& name : gone) { text += cat(first_name ? "" : ", ", name); first_name = false; }
  }
  fault("deadlock", text, who, first);
}

// ---- CTA barriers
void engine::finish_named(cta& c, std::uint32_t number) {
  cta_barrier& b = c.named[number];
  b.last_count = b.red_count;
  b.last_and = b.red_and;
  b.last_or = b.red_or;
  const std::uint64_t round = b.round + 1;
  b = cta_barrier{.round = round, .last_count = b.last_count, .last_and = b.last_and, .last_or = b.last_or};
  note_event();
  synchronise_named(c, number);
  wake(c, block_reason::cta_barrier, number);
}

void engine::check_barriers(cta& c) {
  std::uint32_t live = 0;
  for (const auto& w : c.warps) live += static_cast<std::uint32_t>(std::popcount(w->live()));
  for (std::uint32_t n = 0; n < 16; ++n) {
    const cta_barrier& b = c.named[n];
    if (b.arrived && !b.expected && b.arrived >= live) finish_named(c, n);
  }
}

step op_cta_barrier(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  cta& home = *w.home;
  const int first = std::countr_zero(active);
  const std::uint32_t number = w.slot<std::uint32_t>(i.a)[first];
  if (number > 15) e.fault("barrier_misuse", cat("CTA barrier ", number, " does not exist (0..15)"), &w, &i, active);
  cta_barrier& b = home.named[number];
  std::uint32_t count = 0;
  if (i.b != no_slot) {
    count = w.slot<std::uint32_t>(i.b)[first];
    if (count % 32) e.fault("barrier_misuse", cat("thread count ", count, " of CTA barrier ", number, " is not a multiple of 32"), &w, &i, active);
    if (count == 0) e.fault("barrier_misuse", cat("thread count 0 of CTA barrier ", number), &w, &i, active);
    if (count > e.shape.block.x * e.shape.block.y * e.shape.block.z + 31) e.fault("barrier_misuse", cat("CTA barrier ", number, " waits for ", count, " threads of a CTA that has ", e.shape.block.x * e.shape.block.y * e.shape.block.z), &w, &i, active);
  }
  // Second execution of a reduction: the round is over, read the result.
  if (i.sub == 2 && c.phase) {
    c.phase = 0;
    for (lanes m = active; m; m &= m - 1) {
      const int l = std::countr_zero(m);
      if (i.wide) { lanes& d = *w.slot<lanes>(i.d); const bool v = i.flags == 2 ? b.last_and : b.last_or; d = (d & ~(1U << l)) | (v ? 1U << l : 0U); }
      else w.slot<std::uint32_t>(i.d)[l] = b.last_count;
    }
    return step::next;
  }
  lanes& arrived = b.arrived_lanes[w.index];
  if (arrived & active) e.fault("barrier_misuse", cat("a warp arrives twice at CTA barrier ", number, " in one round"), &w, &i, active);
  if (b.arrived && b.expected != count) e.fault("barrier_misuse", cat("CTA barrier ", number, " is used with thread counts ", b.expected, " and ", count, " in one round"), &w, &i, active);
  if (b.arrived && b.reducing != (i.sub == 2)) e.fault("barrier_misuse", cat("CTA barrier ", number, " mixes a reduction and a plain barrier in one round"), &w, &i, active);
  b.expected = count;
  b.reducing = i.sub == 2;
  arrived |= active;
  b.arrived += static_cast<std::uint32_t>(std::popcount(active));
  if (count && (arrived | w.exited) == w.launched) b.arrived += 32U - static_cast<std::uint32_t>(std::popcount(w.launched));  // lanes that never existed count with their warp
  if (i.sub == 2) {
    const lanes p = *w.slot<lanes>(i.c) ^ (i.mode.invert_c ? all_lanes : 0U);
    b.red_count += static_cast<std::uint32_t>(std::popcount(p & active));
    b.red_and = b.red_and && (p & active) == active;
    b.red_or = b.red_or || (p & active);
  }
  e.arrive_named(w, home, number, i.sub != 1);
  std::uint32_t needed = count;
  if (!needed) for (const auto& x : home.warps) needed += static_cast<std::uint32_t>(std::popcount(x->live()));
  if (b.arrived > needed) e.fault("barrier_misuse", cat(b.arrived, " threads arrived at CTA barrier ", number, ", which waits for ", needed), &w, &i, active);
  const bool complete = b.arrived == needed;
  if (i.sub == 1) {
    if (complete) e.finish_named(home, number);
    return step::next;
  }
  if (i.sub == 2) c.phase = 1;
  if (complete) {
    // This context is not blocked, so finishing wakes only the others.
    e.finish_named(home, number);
    e.acquire_named(w, home, number);
    if (i.sub == 2) return step::moved;  // run the instruction again to read the result
    return step::next;
  }
  if (i.sub != 2) ++c.pc;
  c.at = context::state::blocked;
  c.why = block_reason::cta_barrier;
  c.key = number;
  return i.sub == 2 ? step::retry : step::moved;
}

// ---- cluster barrier
void engine::check_cluster_barrier(cluster& k) {
  if (!k.barrier_arrived) return;
  std::uint32_t live = 0, arrived = 0;
  for (const auto& c : k.ctas)
    for (const auto& w : c->warps) {
      live += static_cast<std::uint32_t>(std::popcount(w->live()));
      if (const auto found = k.arrived_lanes.find(w.get()); found != k.arrived_lanes.end()) arrived += static_cast<std::uint32_t>(std::popcount(found->second & w->live()));
    }
  if (arrived < live) return;
  k.barrier_arrived = 0;
  k.arrived_lanes.clear();
  ++k.barrier_round;
  note_event();
  synchronise_cluster(k);
  for (const auto& c : k.ctas) wake(*c, block_reason::cluster_barrier, 0);
}

step op_cluster_barrier(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  cluster& k = *w.home->home;
  if (i.sub == 0) {
    lanes& arrived = k.arrived_lanes[&w];
    if (arrived & active) e.fault("barrier_misuse", "a thread arrives twice at the cluster barrier in one round", &w, &i, arrived & active);
    if (w.cluster_waiting & active) e.fault("barrier_misuse", "a thread arrives at the cluster barrier again before it waited", &w, &i, w.cluster_waiting & active);
    arrived |= active;
    w.cluster_waiting |= active;
    w.cluster_round = k.barrier_round;
    k.barrier_arrived += static_cast<std::uint32_t>(std::popcount(active));
    e.arrive_cluster(w, k, i.flags == 0);
    e.check_cluster_barrier(k);
    return step::next;
  }
  if ((w.cluster_waiting & active) != active) e.fault("barrier_misuse", "barrier.cluster.wait without an arrive before it", &w, &i, active & ~w.cluster_waiting);
  if (w.cluster_round == k.barrier_round) {
    c.at = context::state::blocked;
    c.why = block_reason::cluster_barrier;
    c.key = 0;
    return step::retry;
  }
  w.cluster_waiting &= ~active;
  w.home->cluster_met = true;
  e.acquire_cluster(w, k);
  return step::next;
}

// ---- mbarriers
mbarrier_state& engine::barrier_at(cta& c, std::uint32_t offset, const warp* w, const instruction* i, int lane) {
  const lanes who = lane < 0 ? 0 : 1U << lane;
  check(check_barrier_address(offset), w, i, who);
  if (how.trace && i) barrier_lines.emplace(i->line, offset);
  const auto found = c.barriers.find(offset);
  if (found == c.barriers.end()) fault("barrier_misuse", cat("no live ", barrier_text(offset), " of CTA rank ", c.rank, ": it was never initialised, or invalidated"), w, i, who);
  return found->second;
}

void engine::barrier_done(cta& c, std::uint32_t offset, const barrier_answer& a, const warp* w, const instruction* i, int lane) {
  std::vector<int>& arrivals = c.arrivals[offset];
  if (a.fault) fault(to_string(a.fault.kind), cat(a.fault.text, ", ", barrier_text(offset), " of CTA rank ", c.rank, arrivals_text(c, offset)), w, i, lane < 0 ? 0 : 1U << lane);
  if (i && arrivals.size() < 8 && std::find(arrivals.begin(), arrivals.end(), index_of(i)) == arrivals.end()) arrivals.push_back(index_of(i));
  if (a.lint) { if (how.strict) fault(to_string(a.lint.kind), cat(a.lint.text, ", ", barrier_text(offset), " of CTA rank ", c.rank), w, i, lane < 0 ? 0 : 1U << lane); lint(a.lint.text, i); }
  if (a.completed) {
    note_event();
    c.signalled[offset] = std::exchange(arrivals, {});
    complete_phase(c, offset);
    if (how.trace) { std::uint64_t& most = barrier_phases[offset]; most = std::max<std::uint64_t>(most, c.barriers[offset].phase); }
    wake(c, block_reason::mbarrier, offset);
  }
}

void engine::complete_tx(cta& c, std::uint32_t offset, std::int64_t bytes, const instruction* i) {
  mbarrier_state& s = barrier_at(c, offset, nullptr, i, -1);
  barrier_done(c, offset, barrier_complete_tx(s, bytes), nullptr, i, -1);
}

std::uint32_t engine::shared_address_of(warp& w, const instruction& i, int lane, std::uint64_t a, bool generic) {
  if (!generic) return static_cast<std::uint32_t>(a);
  if (a - shared_window >= window_bytes) fault("out_of_bounds", "a generic address outside shared memory where a shared one is needed", &w, &i, 1U << lane);
  return static_cast<std::uint32_t>(a - shared_window);
}

step op_mbarrier(engine& e, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (i.sub == 8) { w.slot<std::uint32_t>(i.d)[l] = barrier_pending_count(w.slot<std::uint64_t>(i.b)[l]); continue; }
    const std::uint64_t raw = (i.wide_address ? w.slot<std::uint64_t>(i.a)[l] : w.slot<std::uint32_t>(i.a)[l]) + static_cast<std::uint64_t>(i.imm);
    const std::uint32_t address = e.shared_address_of(w, i, l, raw, i.where == space::generic);
    const bool remote_allowed = i.where != space::shared && i.sub >= 2 && i.sub <= 5;
    cta& home = e.shared_owner(w, i, l, address, true);
    const std::uint32_t offset = address & 0xFFFFFFU;
    if (&home != w.home && !remote_allowed) e.fault("barrier_misuse", "this mbarrier operation works only on the own CTA's barriers", &w, &i, 1U << l);
    e.check_shared_range(home, offset, 8, &w, &i, l);
    e.check(check_barrier_address(offset), &w, &i, 1U << l);
    if (i.sub == 0) {
      if (home.barriers.count(offset)) e.fault("barrier_misuse", cat("mbarrier.init of the live mbarrier at shared offset ", offset), &w, &i, 1U << l);
      for (std::uint32_t k = 0; k < 8; ++k) if (home.shadows[offset + k] >= shadow_in_flight) e.fault(home.shadows[offset + k] == shadow_barrier ? "barrier_misuse" : "race", cat("mbarrier.init at shared offset ", offset, " overlaps memory in use"), &w, &i, 1U << l);
      mbarrier_state s{};
      const barrier_answer a = barrier_init(s, static_cast<std::int32_t>(w.slot<std::uint32_t>(i.b)[l]));
      e.check(a.fault, &w, &i, 1U << l);
      home.barriers[offset] = s;
      if (e.how.trace) e.barrier_lines.emplace(i.line, offset);
      e.set_shadow(home, offset, 8, shadow_barrier);
      e.init_barrier(w, home, offset);
      continue;
    }
    mbarrier_state& s = e.barrier_at(home, offset, &w, &i, l);
    e.use_barrier(w, home, offset, &i, l);
    switch (i.sub) {
      case 1:
        home.barriers.erase(offset);
        e.set_shadow(home, offset, 8, shadow_written);
        break;
      case 2: case 3: {
        const std::uint32_t b = i.b == no_slot ? 1 : w.slot<std::uint32_t>(i.b)[l];
        const std::int64_t count = i.flags & 1 ? 1 : b, bytes = i.flags & 1 ? b : 0;
        if (i.flags & 8) { if (!w.fenced.empty()) home.barrier_sync[offset].arriving.join(w.fenced); }
        else e.arrive_mbarrier(w, home, offset, active);
        const barrier_answer a = i.sub == 2 ? barrier_arrive(s, count, bytes, i.flags & 2) : barrier_arrive_drop(s, count, bytes, i.flags & 2);
        if (i.d != no_slot) w.slot<std::uint64_t>(i.d)[l] = a.token;
        e.barrier_done(home, offset, a, &w, &i, l);
        break;
      }
      case 4: e.barrier_done(home, offset, barrier_expect_tx(s, w.slot<std::uint32_t>(i.b)[l]), &w, &i, l); break;
      default: e.barrier_done(home, offset, barrier_complete_tx(s, w.slot<std::uint32_t>(i.b)[l]), &w, &i, l); break;
    }
  }
  return step::next;
}

step op_mbarrier_wait(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  lanes yes = 0, tested = 0;
  std::uint32_t waiting_at = 0;
  std::uint64_t phase = 0;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t raw = (i.wide_address ? w.slot<std::uint64_t>(i.a)[l] : w.slot<std::uint32_t>(i.a)[l]) + static_cast<std::uint64_t>(i.imm);
    const std::uint32_t address = e.shared_address_of(w, i, l, raw, i.where == space::generic);
    cta& home = e.shared_owner(w, i, l, address, true);
    if (&home != w.home) e.fault("barrier_misuse", "a wait works only on the own CTA's barriers", &w, &i, 1U << l);
    const std::uint32_t offset = address & 0xFFFFFFU;
    e.check_shared_range(home, offset, 8, &w, &i, l);
    mbarrier_state& s = e.barrier_at(home, offset, &w, &i, l);
    e.use_barrier(w, home, offset, &i, l);
    bool done = false;
    if (i.flags & 4) {
      const std::uint32_t parity = w.slot<std::uint32_t>(i.b)[l] & 1U;
      if (c.phase && c.key == offset) {
        // Blocked here before: the barrier must not have run past the phase that was meant.
        if (const complaint late = check_waiter(s, c.phase - 1)) e.fault(to_string(late.kind), cat(late.text, ", ", e.barrier_text(offset), e.signals_text(home, offset)), &w, &i, 1U << l);
      }
      done = barrier_test_parity(s, parity);
      if (!done) phase = meant_phase(s, parity);
    } else {
      const barrier_answer a = barrier_test_token(s, w.slot<std::uint64_t>(i.b)[l], done);
      e.check(a.fault, &w, &i, 1U << l);
      if (!done) phase = s.phase;
    }
    tested |= 1U << l;
    if (done) { yes |= 1U << l; e.acquire_mbarrier(w, home, offset); }
    else waiting_at = offset;
  }
  // A wait that could succeed may still say no (ISA): rarely, so that code has to handle it.
  if (i.sub == 7 && yes == active && e.chance(64) == 0 && e.how.seed % 4 != 2) yes = 0;
  else if (i.sub == 7 && yes == 0 && active == c.who && !c.overslept) {
    // Nobody's phase is complete: sleep until the barrier moves, as the chip may.
    c.at = context::state::blocked;
    c.why = block_reason::mbarrier;
    c.key = waiting_at;
    c.phase = phase + 1;
    return step::retry;
  }
  c.phase = 0;
  c.overslept = false;
  if (i.d != no_slot) {
    lanes& d = *w.slot<lanes>(i.d);
    d = (d & ~tested) | yes;
  }
  return yes == active ? step::next : step::yield;
}

// ---- setmaxnreg
step op_set_registers(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  if (active != w.live()) e.fault("barrier_misuse", "setmaxnreg needs the whole warp", &w, &i, active);
  if (w.register_count == 0) return step::next;  // launch register count unknown: the instruction is ignored
  cta& home = *w.home;
  const std::uint32_t wanted = static_cast<std::uint32_t>(i.imm);
  if (i.sub == 1) {
    if (w.register_count < wanted) e.fault("barrier_misuse", cat("setmaxnreg.dec to ", wanted, " but the warp has ", w.register_count, " registers"), &w, &i);
    home.register_pool += (w.register_count - wanted) * 32;
    w.register_count = wanted;
    e.wake(home, block_reason::registers, 0);
    return step::next;
  }
  if (w.register_count > wanted) e.fault("barrier_misuse", cat("setmaxnreg.inc to ", wanted, " but the warp has ", w.register_count, " registers"), &w, &i);
  const std::uint32_t more = (wanted - w.register_count) * 32;
  if (home.register_pool < more) {
    c.at = context::state::blocked;
    c.why = block_reason::registers;
    c.key = 0;
    return step::retry;
  }
  home.register_pool -= more;
  w.register_count = wanted;
  return step::next;
}

}  // namespace tlx::sim
