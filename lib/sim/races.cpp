// Happens-before inside a cluster, for shared memory. Every warp has a vector clock; barriers, mbarriers, strong accesses and fences carry it on.
// A second clock holds what a proxy fence has made visible to asynchronous operations: a generic write that is ordered but not in it lacks a fence.
// Lanes of one warp share a clock; what orders them among each other is counted in warp::round. An asynchronous write is known by the mbarrier it
// completes on. Some races are missed; none is reported that is not there. Global memory: global_races.cpp.
#include <algorithm>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

namespace {

void join_clock(vector_clock& a, const vector_clock& b) {
  if (a.size() < b.size()) a.resize(b.size());
  for (std::size_t k = 0; k < b.size(); ++k) a[k] = std::max(a[k], b[k]);
}

}  // namespace

void clocks::join(const clocks& other) {
  join_clock(seen, other.seen);
  join_clock(proxied, other.proxied);
  for (const auto& [k, v] : other.elsewhere) join_clock(elsewhere[k], v);
}

void engine::start_clocks(cluster& k) {
  k.number = k.ctas[0]->generation;
  if (!how.detect_races) return;
  grain = code.smallest_shared_access >= 4 ? 2 : code.smallest_shared_access == 2 ? 1 : 0;
  for (const auto& c : k.ctas) k.warp_count += static_cast<std::uint32_t>(c->warps.size());
  k.agents = k.warp_count;
  std::uint32_t next = 0;
  for (const auto& c : k.ctas) {
    const std::size_t grains = (shared_bytes >> grain) + 1;
    c->writes.assign(grains, {});
    c->reads.assign(grains * k.warp_count, 0);
    c->last_reads.assign(grains, {});
    for (const auto& w : c->warps) {
      w->agent = next++;
      w->now.seen.assign(k.warp_count, 0);
      w->now.proxied.assign(k.warp_count, 0);
      w->now.seen[w->agent] = 1;
    }
  }
}

std::string engine::place_of_line(int line) const {
  for (const instruction& i : code.code)
    if (i.line == line && i.from.line) {
      const auto file = code.text->files.find(i.from.file);
      return cat("ptx line ", line, file == code.text->files.end() ? std::string() : cat(", ", file->second, ":", i.from.line));
    }
  return cat("ptx line ", line);
}

std::string engine::agent_name(const cta& c, std::uint32_t agent) const {
  const cluster& k = *c.home;
  if (agent >= k.warp_count) return "an asynchronous copy";
  for (const auto& x : k.ctas) for (const auto& w : x->warps) if (w->agent == agent) return cat("warp ", w->index, x.get() == &c ? std::string() : cat(" of CTA rank ", x->rank));
  return "another warp";
}

namespace {

// The lane of an access, as recorded: rows of a matrix are moved by the warp as a whole.
std::uint8_t lane_of(const instruction* i, int lane) {
  if (lane < 0) return lane_unknown;
  if (i && (i->run == op_ldmatrix || i->run == op_stmatrix)) return lane_collective;
  return static_cast<std::uint8_t>(lane);
}
// Whether two accesses of one warp in one round may be of different lanes. Unknown: no.
bool other_lane(std::uint8_t a, std::uint8_t b) {
  if (a == lane_unknown || b == lane_unknown) return false;
  return a != b || a >= lane_collective;
}

}  // namespace

void engine::race_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool strong) {
  if (w.now.empty()) return;
  const std::uint32_t n = c.home->warp_count, first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain), mine = w.now.seen[w.agent];
  const std::uint8_t l = lane_of(i, lane);
  const int line = i ? i->line : 0;
  if (lane >= 0) w.touched |= 1U << lane;
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (x.clock > seen_of(w.now.seen, x.agent) && !(strong && x.strong)) [[unlikely]]
      fault("race", cat("shared memory byte ", g << grain, " is read by ", agent_name(c, w.agent), " but its write by ", agent_name(c, x.agent), x.line ? cat(" (", place_of_line(x.line), ")") : std::string(), " is not ordered before the read"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (x.agent == w.agent && x.round == w.round && !x.async && x.line != line && other_lane(x.lane, l) && !(strong && x.strong)) [[unlikely]]
      fault("race", cat("shared memory byte ", g << grain, " is read by lane ", lane, " of warp ", w.index, " but its write by ", x.lane < 32 ? cat("lane ", static_cast<int>(x.lane)) : std::string("other lanes"), " of the same warp (", place_of_line(x.line), ") is not ordered before the read (bar.warp.sync)"), &w, i, lane < 0 ? 0 : 1U << lane);
    c.reads[g * n + w.agent] = mine;
    if (strong) continue;
    last_read& r = c.last_reads[g];
    if (r.agent == w.agent && r.round == w.round && r.lane != l) r.lane = r.lane == lane_unknown || l == lane_unknown ? lane_unknown : lane_several;
    else r.lane = l;
    r.agent = static_cast<std::uint16_t>(w.agent);
    r.round = w.round;
    r.line = line;
  }
}

void engine::race_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool strong) {
  if (w.now.empty()) return;
  const std::uint32_t n = c.home->warp_count, first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain), mine = w.now.seen[w.agent];
  const std::uint8_t l = lane_of(i, lane);
  const int line = i ? i->line : 0;
  if (lane >= 0) w.touched |= 1U << lane;
  const std::uint32_t* const seen = w.now.seen.data();
  for (std::uint32_t g = first; g <= last; ++g) {
    last_write& x = c.writes[g];
    if (x.clock > seen_of(w.now.seen, x.agent) && !(strong && x.strong)) [[unlikely]]
      fault("race", cat("shared memory byte ", g << grain, " is written by ", agent_name(c, w.agent), " but an earlier write by ", agent_name(c, x.agent), x.line ? cat(" (", place_of_line(x.line), ")") : std::string(), " is not ordered before it"), &w, i, lane < 0 ? 0 : 1U << lane);
    const last_read& read = c.last_reads[g];
    if (!strong) {
      const std::uint32_t* const r = c.reads.data() + g * n;
      bool unordered = false;
      for (std::uint32_t k = 0; k < n; ++k) unordered |= r[k] > seen[k];
      if (unordered) [[unlikely]]
        for (std::uint32_t k = 0; k < n; ++k)
          if (r[k] > seen[k] && k != w.agent)
            fault("race", cat("shared memory byte ", g << grain, " is written by ", agent_name(c, w.agent), " but a read by ", agent_name(c, k), read.agent == k && read.line ? cat(" (", place_of_line(read.line), ")") : std::string(), " is not ordered before the write"), &w, i, lane < 0 ? 0 : 1U << lane);
      if (x.agent == w.agent && x.round == w.round && !x.async && x.line != line && other_lane(x.lane, l)) [[unlikely]]
        fault("race", cat("shared memory byte ", g << grain, " is written by lane ", lane, " of warp ", w.index, " but a write by ", x.lane < 32 ? cat("lane ", static_cast<int>(x.lane)) : std::string("other lanes"), " of the same warp (", place_of_line(x.line), ") is not ordered before it (bar.warp.sync)"), &w, i, lane < 0 ? 0 : 1U << lane);
      if (read.agent == w.agent && read.round == w.round && read.line != line && other_lane(read.lane, l)) [[unlikely]]
        fault("race", cat("shared memory byte ", g << grain, " is written by lane ", lane, " of warp ", w.index, " but a read by ", read.lane < 32 ? cat("lane ", static_cast<int>(read.lane)) : std::string("other lanes"), " of the same warp (", place_of_line(read.line), ") is not ordered before it (bar.warp.sync)"), &w, i, lane < 0 ? 0 : 1U << lane);
    }
    x.clock = mine;
    x.round = w.round;
    x.agent = static_cast<std::uint16_t>(w.agent);
    x.lane = l;
    x.async = false;
    x.strong = strong;
    x.line = line;
  }
}

// ---- barriers
void engine::arrive_named(warp& w, cta& c, std::uint32_t number, bool) {
  if (w.now.empty()) return;
  if (!w.loaded.seen.empty() || !w.loaded.elsewhere.empty()) { w.now.join(w.loaded); w.loaded = {}; }
  c.named_sync[number].arriving.join(w.now);
  c.named_sync[number].init_agent |= 1;  // somebody arrived in this round
  tick(w);
}

void engine::synchronise_named(cta& c, std::uint32_t number) {
  barrier_clocks& b = c.named_sync[number];
  if (b.arriving.empty()) return;
  // The contexts blocked here, and the one that completes the round, take it all in.
  for (const auto& w : c.warps)
    for (const context& x : w->contexts)
      if (x.at == context::state::blocked && x.why == block_reason::cta_barrier && x.key == number) { w->now.join(b.arriving); synchronise_warp(*w); break; }
  b.done = b.arriving;
  b.arriving = {};
}

void engine::acquire_named(warp& w, cta& c, std::uint32_t number) {
  if (w.now.empty()) return;
  if (!c.named_sync[number].done.empty()) w.now.join(c.named_sync[number].done);
  synchronise_warp(w);
}

void engine::arrive_cluster(warp& w, cluster& k, bool release) {
  if (w.now.empty()) return;
  if (release) k.sync.arriving.join(w.now);
  else if (!w.fenced.empty()) k.sync.arriving.join(w.fenced);
  tick(w);
}
void engine::synchronise_cluster(cluster& k) {
  k.sync.done.join(k.sync.arriving);
  k.sync.arriving = {};
}
void engine::acquire_cluster(warp& w, cluster& k) {
  if (w.now.empty()) return;
  w.now.join(k.sync.done);
  synchronise_warp(w);
}

void engine::init_barrier(warp& w, cta& c, std::uint32_t offset) {
  if (w.now.empty()) return;
  barrier_clocks& b = c.barrier_sync[offset];
  b = {.arriving = {}, .done = {}, .async_agent = b.async_agent, .async_clock = b.async_clock};
  b.init_agent = w.agent;
  b.init_clock = w.now.seen[w.agent];
}

void engine::use_barrier(warp& w, cta& c, std::uint32_t offset, const instruction* i, int lane) {
  if (w.now.empty()) return;
  const barrier_clocks& b = c.barrier_sync[offset];
  if (b.init_clock > w.now.seen[b.init_agent])
    fault("race", cat("the ", barrier_text(offset), " of CTA rank ", c.rank, " is used by ", agent_name(c, w.agent), " but its initialisation by ", agent_name(c, b.init_agent), " is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
}

void engine::arrive_mbarrier(warp& w, cta& c, std::uint32_t offset, lanes who) {
  if (w.now.empty()) return;
  clocks& to = c.barrier_sync[offset].arriving;
  // One lane that signals for others which nothing has ordered before it: only what was before their last common moment is published.
  if (w.touched && (w.touched & who) == 0) {
    clocks published = w.now;
    published.seen[w.agent] = w.round_clock;
    published.proxied[w.agent] = std::min(published.proxied[w.agent], w.round_clock);
    to.join(published);
  } else to.join(w.now);
  tick(w);
}
void engine::complete_phase(cta& c, std::uint32_t offset) {
  if (c.writes.empty()) return;
  barrier_clocks& b = c.barrier_sync[offset];
  b.done.join(b.arriving);
  b.arriving = {};
}
void engine::acquire_mbarrier(warp& w, cta& c, std::uint32_t offset) {
  if (w.now.empty()) return;
  const barrier_clocks& b = c.barrier_sync[offset];
  if (!b.done.empty()) w.now.join(b.done);
  synchronise_warp(w);
}
void engine::synchronise_warp(warp& w) {
  if (w.now.empty()) return;
  ++w.round;
  w.touched = 0;
  w.round_clock = w.now.seen[w.agent];
  tick(w);
}

// ---- asynchronous operations
void engine::async_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane) {
  if (w.now.empty()) return;
  const std::uint32_t first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (!x.clock) continue;
    if (x.agent == w.agent && x.round == w.round && !x.async && lane >= 0 && other_lane(x.lane, static_cast<std::uint8_t>(lane)))
      fault("race", cat("shared memory byte ", g << grain, " is read by an asynchronous operation of lane ", lane, " of warp ", w.index, " but its write by other lanes of the warp (", place_of_line(x.line), ") is not ordered before (bar.warp.sync)"), &w, i, 1U << lane);
    if (x.clock > seen_of(w.now.seen, x.agent))
      fault("race", cat("shared memory byte ", g << grain, " is read by an asynchronous operation of ", agent_name(c, w.agent), " but its write by ", agent_name(c, x.agent), x.line ? cat(" (", place_of_line(x.line), ")") : std::string(), " is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (!x.async && x.clock > seen_of(w.now.proxied, x.agent))
      fault("missing_proxy_fence", cat("shared memory byte ", g << grain, " was written by ", agent_name(c, x.agent), " through the generic proxy (", place_of_line(x.line), ") and is read by an asynchronous operation with no fence.proxy.async between"), &w, i, lane < 0 ? 0 : 1U << lane);
  }
}

void engine::async_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane) {
  if (w.now.empty()) return;
  const std::uint32_t n = c.home->warp_count, first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (x.clock > seen_of(w.now.seen, x.agent))
      fault("race", cat("shared memory byte ", g << grain, " is overwritten by an asynchronous copy of ", agent_name(c, w.agent), " but a write by ", agent_name(c, x.agent), x.line ? cat(" (", place_of_line(x.line), ")") : std::string(), " is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (x.clock && !x.async && x.clock > seen_of(w.now.proxied, x.agent))
      fault("missing_proxy_fence", cat("shared memory byte ", g << grain, " was written by ", agent_name(c, x.agent), " through the generic proxy (", place_of_line(x.line), ") and is overwritten by an asynchronous copy with no fence.proxy.async between"), &w, i, lane < 0 ? 0 : 1U << lane);
    const std::uint32_t* const r = c.reads.data() + g * n;
    const last_read& read = c.last_reads[g];
    if (lane >= 0 && read.agent == w.agent && read.round == w.round && other_lane(read.lane, static_cast<std::uint8_t>(lane)))
      fault("race", cat("shared memory byte ", g << grain, " is overwritten by an asynchronous copy of lane ", lane, " of warp ", w.index, " but a read by other lanes of the warp (", place_of_line(read.line), ") is not ordered before (bar.warp.sync)"), &w, i, 1U << lane);
    for (std::uint32_t k = 0; k < n; ++k) {
      if (r[k] > w.now.seen[k] && k != w.agent)
        fault("race", cat("shared memory byte ", g << grain, " is overwritten by an asynchronous copy of ", agent_name(c, w.agent), " but a read by ", agent_name(c, k), " is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
      if (r[k] > w.now.proxied[k]) {
        if (how.strict) fault("missing_proxy_fence", cat("shared memory byte ", g << grain, " was read by ", agent_name(c, k), " through the generic proxy and is overwritten by an asynchronous copy with no fence.proxy.async between"), &w, i, lane < 0 ? 0 : 1U << lane);
        lint("proxy_war: memory read through the generic proxy is overwritten by an asynchronous copy with no fence.proxy.async between", i);
      }
    }
  }
}

void engine::generic_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane) { race_write(w, c, offset, bytes, i, lane, false); }

void engine::async_landed(cta& c, std::uint32_t offset, std::size_t bytes, cta& barrier_home, std::uint32_t barrier, const instruction* i) {
  if (c.writes.empty()) return;
  barrier_clocks& sync = barrier_home.barrier_sync[barrier];
  if (!sync.async_agent) sync.async_agent = new_agent(*c.home);
  const std::uint32_t agent = sync.async_agent, stamp = ++sync.async_clock;
  const std::uint32_t first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  for (std::uint32_t g = first; g <= last; ++g) c.writes[g] = {stamp, 0, i ? i->line : 0, static_cast<std::uint16_t>(agent), lane_unknown, true, false};
  clocks& a = sync.arriving;
  if (a.seen.size() <= agent) a.seen.resize(agent + 1);
  a.seen[agent] = std::max(a.seen[agent], stamp);
}

void engine::no_fence_needed(cta& c, std::uint32_t offset, std::size_t bytes) {
  if (c.writes.empty()) return;
  for (std::size_t g = offset >> grain; g <= (offset + bytes - 1) >> grain; ++g) c.writes[g].async = true;
}

namespace {
constexpr std::uint32_t not_waited = 0xFFFFFFFFU;
std::size_t tensor_index(int group, int column) { return static_cast<std::size_t>(group * tmem_columns + column); }
}  // namespace

void engine::tensor_access(warp& w, cta& c, const warp::tensor_span& at, bool store, const instruction* i) {
  if (w.now.empty()) return;
  const std::uint32_t n = c.home->warp_count;
  if (c.tensor_stores.empty()) { c.tensor_stores.assign(8 * tmem_columns, {}); c.tensor_loads.assign(std::size_t{8} * tmem_columns * n, 0); }
  for (int g = at.group_first; g < at.group_first + at.group_count; ++g)
    for (int column = at.first; column < at.first + at.count; ++column) {
      cta::tensor_store& s = c.tensor_stores[tensor_index(g, column)];
      std::uint32_t* const loads = c.tensor_loads.data() + tensor_index(g, column) * n;
      if (s.clock && s.agent != w.agent && (s.clock == not_waited || s.clock > w.now.seen[s.agent]))
        fault("race", cat("tensor memory column ", column, " is ", store ? "written" : "read", " by ", agent_name(c, w.agent), " but its tcgen05.st by ", agent_name(c, s.agent), " (ptx line ", s.line, ") is not ordered before"), &w, i);
      if (!store && s.clock == not_waited) fault("race", cat("tensor memory column ", column, " is read before tcgen05.wait::st of the store at ptx line ", s.line), &w, i);
      if (store) {
        for (std::uint32_t k = 0; k < n; ++k) {
          if (loads[k] == not_waited && k == w.agent) fault("race", cat("tensor memory column ", column, " is overwritten before tcgen05.wait::ld of an earlier load"), &w, i);
          if (k != w.agent && loads[k] > w.now.seen[k]) fault("race", cat("tensor memory column ", column, " is overwritten by ", agent_name(c, w.agent), " but a tcgen05.ld by ", agent_name(c, k), " is not ordered before"), &w, i);
        }
        s = {not_waited, static_cast<std::uint16_t>(w.agent), i->line};
      } else loads[w.agent] = not_waited;
    }
  (store ? w.tensor_stores_open : w.tensor_loads_open).push_back(at);
}

void engine::tensor_wait(warp& w, bool store) {
  cta& c = *w.home;
  if (w.now.empty() || c.tensor_stores.empty()) return;
  const std::uint32_t n = c.home->warp_count;
  auto& open_spans = store ? w.tensor_stores_open : w.tensor_loads_open;
  for (const warp::tensor_span& at : open_spans)
    for (int g = at.group_first; g < at.group_first + at.group_count; ++g)
      for (int column = at.first; column < at.first + at.count; ++column) {
        if (store) { cta::tensor_store& s = c.tensor_stores[tensor_index(g, column)]; if (s.agent == w.agent && s.clock == not_waited) s.clock = w.now.seen[w.agent]; }
        else { std::uint32_t& l = c.tensor_loads[tensor_index(g, column) * n + w.agent]; if (l == not_waited) l = w.now.seen[w.agent]; }
      }
  open_spans.clear();
}

void engine::tensor_async(warp& w, cta& c, int first, int count, unsigned groups, bool writes, const instruction* i) {
  if (w.now.empty() || c.tensor_stores.empty()) return;
  const std::uint32_t n = c.home->warp_count;
  for (int g = 0; g < 8; ++g) {
    if (!(groups >> g & 1U)) continue;
    for (int column = first; column < first + count; ++column) {
      cta::tensor_store& s = c.tensor_stores[tensor_index(g, column)];
      std::uint32_t* const loads = c.tensor_loads.data() + tensor_index(g, column) * n;
      if (s.clock == not_waited) fault("race", cat("tensor memory column ", column, " is used by an asynchronous operation before tcgen05.wait::st of the store at ptx line ", s.line), &w, i);
      if (s.clock > w.now.seen[s.agent]) fault("race", cat("tensor memory column ", column, " is used by an asynchronous operation of ", agent_name(c, w.agent), " but its tcgen05.st by ", agent_name(c, s.agent), " (ptx line ", s.line, ") is not ordered before"), &w, i);
      if (!writes) continue;
      for (std::uint32_t k = 0; k < n; ++k) {
        if (loads[k] == not_waited) fault("race", cat("tensor memory column ", column, " is overwritten by an asynchronous operation before tcgen05.wait::ld of a load by ", agent_name(c, k)), &w, i);
        if (loads[k] > w.now.seen[k]) fault("race", cat("tensor memory column ", column, " is overwritten by an asynchronous operation of ", agent_name(c, w.agent), " but a tcgen05.ld by ", agent_name(c, k), " is not ordered before"), &w, i);
        loads[k] = 0;
      }
      s.clock = 0;
    }
  }
}

void engine::commit_issued(warp& w, std::uint64_t id) {
  if (w.now.empty()) return;
  commits[id] = w.now;
  tick(w);
}
void engine::commit_landed(cta& c, std::uint32_t offset, std::uint64_t id) {
  const auto found = commits.find(id);
  if (found == commits.end()) return;
  c.barrier_sync[offset].arriving.join(found->second);
}

step op_fence(engine& e, warp& w, context&, const instruction& i, lanes) {
  if (w.now.empty()) return step::next;
  const bool proxy = (i.sub == 2 && i.where != space::global) || i.sub == 3;
  if (proxy) join_clock(w.now.proxied, w.now.seen);
  if (i.sub == 0 && (!w.loaded.seen.empty() || !w.loaded.elsewhere.empty())) {
    w.now.join(w.loaded);
    w.loaded = {};
    e.synchronise_warp(w);
  }
  w.fenced = w.now;
  e.tick(w);
  return step::next;
}

}  // namespace tlx::sim
