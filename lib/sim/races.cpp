// Happens-before inside a cluster, for shared memory. Every warp has a vector clock; barriers, mbarriers, strong accesses and fences carry it on.
// A second clock holds what a proxy fence has made visible to asynchronous operations: a generic write that is ordered but not in it lacks a fence.
// Lanes of one warp count as one agent, and an asynchronous write is known by the mbarrier it completes on (modulo sixteen), so some races are missed;
// none is reported that is not there. Global memory is not tracked.
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
}

void engine::start_clocks(cluster& k) {
  if (!how.detect_races) return;
  grain = code.smallest_shared_access >= 4 ? 2 : code.smallest_shared_access == 2 ? 1 : 0;
  for (const auto& c : k.ctas) k.warp_count += static_cast<std::uint32_t>(c->warps.size());
  const std::size_t agents = k.warp_count + async_agents * k.ctas.size();
  std::uint32_t next = 0;
  for (const auto& c : k.ctas) {
    const std::size_t grains = (shared_bytes >> grain) + 1;
    c->writes.assign(grains, {});
    c->reads.assign(grains * k.warp_count, 0);
    for (const auto& w : c->warps) {
      w->agent = next++;
      w->now.seen.assign(agents, 0);
      w->now.proxied.assign(agents, 0);
      w->now.seen[w->agent] = 1;
    }
  }
}

std::string engine::agent_name(const cta& c, std::uint32_t agent) const {
  const cluster& k = *c.home;
  if (agent >= k.warp_count) return "an asynchronous copy";
  for (const auto& x : k.ctas) for (const auto& w : x->warps) if (w->agent == agent) return cat("warp ", w->index, x.get() == &c ? std::string() : cat(" of CTA rank ", x->rank));
  return "another warp";
}

void engine::race_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool strong) {
  if (w.now.empty()) return;
  if (strong) {
    clocks& place = c.strong_places[offset];
    if (!place.empty()) w.now.join(place);
  }
  const std::uint32_t n = c.home->warp_count, first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain), mine = w.now.seen[w.agent];
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (x.clock > w.now.seen[x.agent] && !(strong && x.strong)) [[unlikely]]
      fault("race", cat("shared memory byte ", g << grain, " is read by ", agent_name(c, w.agent), " but its write by ", agent_name(c, x.agent), " (ptx line ", x.line, ") is not ordered before the read"), &w, i, lane < 0 ? 0 : 1U << lane);
    c.reads[g * n + w.agent] = mine;
  }
}

void engine::race_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool strong) {
  if (w.now.empty()) return;
  const std::uint32_t n = c.home->warp_count, first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain), mine = w.now.seen[w.agent];
  const std::uint32_t* const seen = w.now.seen.data();
  for (std::uint32_t g = first; g <= last; ++g) {
    last_write& x = c.writes[g];
    if (x.clock > seen[x.agent] && !(strong && x.strong)) [[unlikely]]
      fault("race", cat("shared memory byte ", g << grain, " is written by ", agent_name(c, w.agent), " but an earlier write by ", agent_name(c, x.agent), " (ptx line ", x.line, ") is not ordered before it"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (!strong) {
      const std::uint32_t* const r = c.reads.data() + g * n;
      bool unordered = false;
      for (std::uint32_t k = 0; k < n; ++k) unordered |= r[k] > seen[k];
      if (unordered) [[unlikely]]
        for (std::uint32_t k = 0; k < n; ++k)
          if (r[k] > seen[k] && k != w.agent)
            fault("race", cat("shared memory byte ", g << grain, " is written by ", agent_name(c, w.agent), " but a read by ", agent_name(c, k), " is not ordered before the write"), &w, i, lane < 0 ? 0 : 1U << lane);
    }
    x.clock = mine;
    x.agent = static_cast<std::uint16_t>(w.agent);
    x.async = false;
    x.strong = strong;
    x.line = i ? i->line : 0;
  }
  if (strong) { c.strong_places[offset].join(w.now); tick(w); }
}

void engine::strong_global(warp& w, std::uint64_t address) {
  // A strong access to a global word may be half of a release-acquire pair: take it as both.
  if (w.now.empty() || resident.empty()) return;
  clocks& place = strong_global_places[address * 64 + w.home->home->ctas[0]->generation % 64];
  if (!place.empty() && place.seen.size() == w.now.seen.size()) w.now.join(place);
  place.join(w.now);
  tick(w);
}

// ---- barriers
void engine::arrive_named(warp& w, cta& c, std::uint32_t number, bool) {
  if (w.now.empty()) return;
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
      if (x.at == context::state::blocked && x.why == block_reason::cta_barrier && x.key == number) { w->now.join(b.arriving); break; }
  b.done = b.arriving;
  b.arriving = {};
}

void engine::acquire_named(warp& w, cta& c, std::uint32_t number) {
  if (!w.now.empty() && !c.named_sync[number].done.empty()) w.now.join(c.named_sync[number].done);
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
void engine::acquire_cluster(warp& w, cluster& k) { if (!w.now.empty()) w.now.join(k.sync.done); }

void engine::init_barrier(warp& w, cta& c, std::uint32_t offset) {
  if (w.now.empty()) return;
  barrier_clocks& b = c.barrier_sync[offset];
  b = {};
  b.init_agent = w.agent;
  b.init_clock = w.now.seen[w.agent];
}

void engine::use_barrier(warp& w, cta& c, std::uint32_t offset, const instruction* i, int lane) {
  if (w.now.empty()) return;
  const barrier_clocks& b = c.barrier_sync[offset];
  if (b.init_clock > w.now.seen[b.init_agent])
    fault("race", cat("the mbarrier at shared offset ", offset, " of CTA rank ", c.rank, " is used by ", agent_name(c, w.agent), " but its initialisation by ", agent_name(c, b.init_agent), " is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
}

void engine::arrive_mbarrier(warp& w, cta& c, std::uint32_t offset) {
  if (w.now.empty()) return;
  c.barrier_sync[offset].arriving.join(w.now);
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
}
void engine::synchronise_warp(warp&) {}

// ---- asynchronous operations
void engine::async_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane) {
  if (w.now.empty()) return;
  const std::uint32_t first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (!x.clock) continue;
    if (x.clock > w.now.seen[x.agent])
      fault("race", cat("shared memory byte ", g << grain, " is read by an asynchronous operation of ", agent_name(c, w.agent), " but its write by ", agent_name(c, x.agent), " (ptx line ", x.line, ") is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (!x.async && x.clock > w.now.proxied[x.agent])
      fault("missing_proxy_fence", cat("shared memory byte ", g << grain, " was written by ", agent_name(c, x.agent), " through the generic proxy (ptx line ", x.line, ") and is read by an asynchronous operation with no fence.proxy.async between"), &w, i, lane < 0 ? 0 : 1U << lane);
  }
}

void engine::async_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane) {
  if (w.now.empty()) return;
  const std::uint32_t n = c.home->warp_count, first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (x.clock > w.now.seen[x.agent])
      fault("race", cat("shared memory byte ", g << grain, " is overwritten by an asynchronous copy of ", agent_name(c, w.agent), " but a write by ", agent_name(c, x.agent), " (ptx line ", x.line, ") is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (x.clock && !x.async && x.clock > w.now.proxied[x.agent])
      fault("missing_proxy_fence", cat("shared memory byte ", g << grain, " was written by ", agent_name(c, x.agent), " through the generic proxy (ptx line ", x.line, ") and is overwritten by an asynchronous copy with no fence.proxy.async between"), &w, i, lane < 0 ? 0 : 1U << lane);
    const std::uint32_t* const r = c.reads.data() + g * n;
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

void engine::async_landed(cta& c, std::uint32_t offset, std::size_t bytes, cta& barrier_home, std::uint32_t barrier) {
  if (c.writes.empty()) return;
  const std::uint32_t slot = (barrier >> 3) % async_agents;
  const std::uint32_t agent = c.home->warp_count + barrier_home.rank * async_agents + slot, stamp = ++barrier_home.async_clock[slot];
  const std::uint32_t first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  for (std::uint32_t g = first; g <= last; ++g) c.writes[g] = {stamp, static_cast<std::uint16_t>(agent), true, false, 0};
  clocks& a = barrier_home.barrier_sync[barrier].arriving;
  if (a.seen.size() <= agent) a.seen.resize(c.home->warp_count + async_agents * c.home->ctas.size());
  a.seen[agent] = std::max(a.seen[agent], stamp);
}

void engine::no_fence_needed(cta& c, std::uint32_t offset, std::size_t bytes) {
  if (c.writes.empty()) return;
  for (std::size_t g = offset >> grain; g <= (offset + bytes - 1) >> grain; ++g) c.writes[g].async = true;
}

void engine::observe_operation(warp&, std::uint64_t) {}

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
  w.fenced = w.now;
  e.tick(w);
  return step::next;
}

}  // namespace tlx::sim
