// Happens-before inside a cluster, for shared memory. Every warp has a vector clock; barriers, mbarriers, strong accesses and fences carry it on.
// A second clock holds what a proxy fence has made visible to asynchronous operations: a generic write that is ordered but not in it lacks a fence.
// Lanes of one warp share a clock; what orders them among each other is counted in warp::round. An asynchronous write is known by the mbarrier it
// completes on. Some races are missed; none is reported that is not there. Global memory: global_races.cpp.
#include <algorithm>
#include <bit>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

namespace {

std::uint32_t copy_agent(const cluster& k, std::uint32_t agent) { return k.warp_count + agent; }
std::uint32_t matrix_agent(const cluster& k, std::uint32_t agent) { return 2 * k.warp_count + agent; }

}  // namespace

void clocks::join(const clocks& other) {
  join_clock(seen, other.seen);
  join_clock(proxied, other.proxied);
  if (!other.tensor.empty()) join_clock(tensor, other.tensor);
  for (const auto& [k, v] : other.elsewhere) join_clock(elsewhere[k], v);
}

void engine::start_clocks(cluster& k) {
  k.number = k.ctas[0]->generation;
  if (!how.detect_races) return;
  grain = code.smallest_shared_access >= 4 ? 2 : code.smallest_shared_access == 2 ? 1 : 0;
  for (const auto& c : k.ctas) k.warp_count += static_cast<std::uint32_t>(c->warps.size());
  k.agents = k.warp_count * 3;  // warps, then their bulk copies and their matrix operations
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

int engine::index_of(const instruction* i) const { return i ? static_cast<int>(i - code.code.data()) + 1 : 0; }

std::string engine::place_of_index(int index) const {
  if (index < 1 || index > static_cast<int>(code.code.size())) return "unknown place";
  return place_of(code.code[static_cast<std::size_t>(index) - 1]);
}

std::string engine::place_of(const instruction& i) const {
  const auto file = code.text->files.find(i.from.file);
  if (!i.from.line || file == code.text->files.end()) return cat("ptx line ", i.line);
  return cat("ptx line ", i.line, ", ", file->second, ":", i.from.line);
}

std::string engine::agent_name(const cta& c, std::uint32_t agent) const {
  const cluster& k = *c.home;
  if (agent >= 2 * k.warp_count && agent < 3 * k.warp_count) return cat("a matrix operation of ", agent_name(c, agent - 2 * k.warp_count));
  if (agent >= k.warp_count) return "an asynchronous copy";
  for (const auto& x : k.ctas) for (const auto& w : x->warps) if (w->agent == agent) return cat("warp ", w->index, x.get() == &c ? std::string() : cat(" of CTA rank ", x->rank));
  return "another warp";
}

/// A writer that did fence, whom the reader does not know of: what should tell it stands behind that fence.
std::string engine::late_fence_text(const cta& c, std::uint32_t agent, std::uint32_t written) const {
  for (const auto& x : c.home->ctas)
    for (const auto& w : x->warps)
      if (w->agent == agent && w->proxy_fence_at && w->proxy_fence_clock >= written) return cat("; the fence of ", place_of_index(w->proxy_fence_at), " came after the write, and nothing orders it for all lanes before the operation");
  return {};
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
  const int at = index_of(i);
  if (lane >= 0) w.touched |= 1U << lane;
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (x.clock > seen_of(w.now.seen, x.agent) && !(strong && x.strong) && !(x.agent < n && lane_signalled(*c.home, w.now.seen, x.agent, x.lane, x.clock))) [[unlikely]]
      fault("race", cat(byte_text(g << grain), " is read by ", agent_name(c, w.agent), " but its write by ", agent_name(c, x.agent), x.at ? cat(" (", place_of_index(x.at), ")") : std::string(), " is not ordered before the read"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (x.agent == w.agent && x.round == w.round && !x.async && x.at != at && other_lane(x.lane, l) && !(strong && x.strong)) [[unlikely]]
      fault("race", cat(byte_text(g << grain), " is read by lane ", lane, " of warp ", w.index, " but its write by ", x.lane < 32 ? cat("lane ", static_cast<int>(x.lane)) : std::string("other lanes"), " of the same warp (", place_of_index(x.at), ") is not ordered before the read (bar.warp.sync)"), &w, i, lane < 0 ? 0 : 1U << lane);
    c.reads[g * n + w.agent] = mine;
    if (strong) continue;
    last_read& r = c.last_reads[g];
    if (r.agent == w.agent && r.round == w.round && r.lane != l) r.lane = r.lane == lane_unknown || l == lane_unknown ? lane_unknown : lane_several;
    else r.lane = l;
    r.agent = static_cast<std::uint16_t>(w.agent);
    r.round = w.round;
    r.at = at;
  }
}

void engine::race_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool strong) {
  if (w.now.empty()) return;
  const std::uint32_t n = c.home->warp_count, first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain), mine = w.now.seen[w.agent];
  const std::uint8_t l = lane_of(i, lane);
  const int at = index_of(i);
  if (lane >= 0) w.touched |= 1U << lane;
  const std::uint32_t* const seen = w.now.seen.data();
  if (!c.async_read_places.empty()) check_async_reads(w, c, offset, bytes, i, lane, "written");
  for (std::uint32_t g = first; g <= last; ++g) {
    last_write& x = c.writes[g];
    if (x.clock > seen_of(w.now.seen, x.agent) && !(strong && x.strong) && !(x.agent < n && lane_signalled(*c.home, w.now.seen, x.agent, x.lane, x.clock))) [[unlikely]]
      fault("race", cat(byte_text(g << grain), " is written by ", agent_name(c, w.agent), " but an earlier write by ", agent_name(c, x.agent), x.at ? cat(" (", place_of_index(x.at), ")") : std::string(), " is not ordered before it"), &w, i, lane < 0 ? 0 : 1U << lane);
    const last_read& read = c.last_reads[g];
    if (!strong) {
      const std::uint32_t* const r = c.reads.data() + g * n;
      bool unordered = false;
      for (std::uint32_t k = 0; k < n; ++k) unordered |= r[k] > seen[k];
      if (unordered) [[unlikely]]
        for (std::uint32_t k = 0; k < n; ++k)
          if (r[k] > seen[k] && k != w.agent && !lane_signalled(*c.home, w.now.seen, k, read.agent == k ? read.lane : lane_unknown, r[k]))
            fault("race", cat(byte_text(g << grain), " is written by ", agent_name(c, w.agent), " but a read by ", agent_name(c, k), read.agent == k && read.at ? cat(" (", place_of_index(read.at), ")") : std::string(), " is not ordered before the write"), &w, i, lane < 0 ? 0 : 1U << lane);
      if (x.agent == w.agent && x.round == w.round && !x.async && x.at != at && other_lane(x.lane, l)) [[unlikely]]
        fault("race", cat(byte_text(g << grain), " is written by lane ", lane, " of warp ", w.index, " but a write by ", x.lane < 32 ? cat("lane ", static_cast<int>(x.lane)) : std::string("other lanes"), " of the same warp (", place_of_index(x.at), ") is not ordered before it (bar.warp.sync)"), &w, i, lane < 0 ? 0 : 1U << lane);
      if (read.agent == w.agent && read.round == w.round && read.at != at && other_lane(read.lane, l)) [[unlikely]]
        fault("race", cat(byte_text(g << grain), " is written by lane ", lane, " of warp ", w.index, " but a read by ", read.lane < 32 ? cat("lane ", static_cast<int>(read.lane)) : std::string("other lanes"), " of the same warp (", place_of_index(read.at), ") is not ordered before it (bar.warp.sync)"), &w, i, lane < 0 ? 0 : 1U << lane);
    }
    // Several lanes store there in one instruction: each has written what it may read.
    const bool again = x.agent == w.agent && x.round == w.round && x.at == at && x.lane != l && !x.async && l < 32;
    x.clock = mine;
    x.round = w.round;
    x.agent = static_cast<std::uint16_t>(w.agent);
    x.lane = again ? lane_unknown : l;
    x.async = false;
    x.strong = strong;
    x.at = at;
  }
}

// ---- barriers
void engine::arrive_named(warp& w, cta& c, std::uint32_t number, bool) {
  if (w.now.empty()) return;
  if (!w.loaded.seen.empty() || !w.loaded.elsewhere.empty()) { w.now.join(w.loaded); w.loaded = {}; }
  merge_lanes(w);
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
  merge_lanes(w);
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
  cluster& k = *w.home->home;
  const auto waited = [&](clocks& published) {
    std::uint32_t most = 0;
    for (lanes m = who; m; m &= m - 1) most = std::max(most, w.copies_waited[std::countr_zero(m)]);
    if (most) raise_clock(published.seen, copy_agent(k, w.agent), most);
  };
  if ((w.touched & ~who) == 0) {
    waited(w.now);
    to.join(w.now);
  } else {
    // Lanes that signal for others which nothing has ordered before them: published is what was before the last common moment, and what they did themselves.
    clocks published = w.now;
    published.seen[w.agent] = w.round_clock;
    published.proxied[w.agent] = std::min(published.proxied[w.agent], w.round_clock);
    for (lanes m = w.touched & who; m; m &= m - 1) {
      const unsigned lane = static_cast<unsigned>(std::countr_zero(m));
      raise_clock(published.seen, lane_agent(k, w.agent, lane), w.now.seen[w.agent]);
      if (w.now.proxied[w.agent] > w.round_clock) raise_clock(published.proxied, lane_agent(k, k.warp_count + w.agent, lane), w.now.proxied[w.agent]);
    }
    waited(published);
    to.join(published);
  }
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
  w.waited_in = &c;
  w.waited_for = offset;
  if (!b.done.empty()) w.now.join(b.done);
  synchronise_warp(w);
}
/// What single lanes have waited for becomes known to the warp.
void engine::merge_lanes(warp& w) {
  if (!w.lanes_waited) return;
  std::uint32_t most = 0;
  for (std::uint32_t& n : w.copies_waited) { most = std::max(most, n); n = 0; }
  raise_clock(w.now.seen, copy_agent(*w.home->home, w.agent), most);
  w.lanes_waited = false;
}
std::uint32_t engine::lane_agent(cluster& k, std::uint32_t agent, unsigned lane) {
  if (k.lane_agents.empty()) k.lane_agents.assign(2 * k.warp_count, 0);
  std::uint32_t& base = k.lane_agents[agent];
  if (!base) { base = k.agents; k.agents += 32; }
  return base + lane;
}
/// Whether an access of a warp that is not ordered as a whole is ordered all the same, because its lane itself has signalled.
bool engine::lane_signalled(const cluster& k, const vector_clock& seen, std::uint32_t agent, std::uint8_t lane, std::uint32_t stamp) const {
  if (k.lane_agents.empty() || !k.lane_agents[agent]) return false;
  if (lane == lane_unknown) return true;  // cannot be told
  return lane < 32 && seen_of(seen, k.lane_agents[agent] + lane) >= stamp;
}
bool engine::lane_fenced(const cluster& k, const vector_clock& proxied, std::uint32_t agent, std::uint8_t lane, std::uint32_t stamp) const {
  return lane_signalled(k, proxied, k.warp_count + agent, lane, stamp);
}
void engine::synchronise_warp(warp& w) {
  if (w.now.empty()) return;
  merge_lanes(w);
  ++w.round;
  w.touched = 0;
  w.round_clock = w.now.seen[w.agent];
  tick(w);
}

// ---- asynchronous operations
void engine::async_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool matrix) {
  if (w.now.empty()) return;
  note_async_read(w, c, offset, bytes, i, matrix);
  const std::uint32_t first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  const last_write* fine = nullptr;  // most neighbours were written alike, by one copy or one warp
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (!x.clock) continue;
    if (fine && fine->clock == x.clock && fine->round == x.round && fine->agent == x.agent && fine->lane == x.lane && fine->async == x.async) continue;
    fine = &x;
    if (x.agent == w.agent && x.round == w.round && !x.async && lane >= 0 && other_lane(x.lane, static_cast<std::uint8_t>(lane)))
      fault("race", cat(byte_text(g << grain), " is read by an asynchronous operation of lane ", lane, " of warp ", w.index, " but its write by other lanes of the warp (", place_of_index(x.at), ") is not ordered before (bar.warp.sync)"), &w, i, 1U << lane);
    if (x.clock > seen_of(w.now.seen, x.agent) && !(x.agent < c.home->warp_count && lane_signalled(*c.home, w.now.seen, x.agent, x.lane, x.clock)))
      fault("race", cat(byte_text(g << grain), " is read by an asynchronous operation of ", agent_name(c, w.agent), " but its write by ", agent_name(c, x.agent), x.at ? cat(" (", place_of_index(x.at), ")") : std::string(), " is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (!x.async && x.clock > seen_of(w.now.proxied, x.agent) && !lane_fenced(*c.home, w.now.proxied, x.agent, x.lane, x.clock))
      fault("missing_proxy_fence", cat(byte_text(g << grain), " was written by ", agent_name(c, x.agent), " through the generic proxy (", place_of_index(x.at), ") and is read by an asynchronous operation with no fence.proxy.async between", late_fence_text(c, x.agent, x.clock)), &w, i, lane < 0 ? 0 : 1U << lane);
  }
}

void engine::async_update(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane) {
  if (w.now.empty()) return;
  for (std::uint32_t g = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain); g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (x.clock > seen_of(w.now.seen, x.agent) && !(x.agent < c.home->warp_count && lane_signalled(*c.home, w.now.seen, x.agent, x.lane, x.clock)))
      fault("race", cat(byte_text(g << grain), " is added to by ", agent_name(c, w.agent), " but its write by ", agent_name(c, x.agent), x.at ? cat(" (", place_of_index(x.at), ")") : std::string(), " is not ordered before"), &w, i, 1U << lane);
  }
}

void engine::async_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane) {
  if (w.now.empty()) return;
  if (!c.async_read_places.empty()) check_async_reads(w, c, offset, bytes, i, lane, "overwritten by an asynchronous copy");
  const std::uint32_t n = c.home->warp_count, first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  for (std::uint32_t g = first; g <= last; ++g) {
    const last_write& x = c.writes[g];
    if (x.clock > seen_of(w.now.seen, x.agent) && !(x.agent < n && lane_signalled(*c.home, w.now.seen, x.agent, x.lane, x.clock)))
      fault("race", cat(byte_text(g << grain), " is overwritten by an asynchronous copy of ", agent_name(c, w.agent), " but a write by ", agent_name(c, x.agent), x.at ? cat(" (", place_of_index(x.at), ")") : std::string(), " is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
    if (x.clock && !x.async && x.clock > seen_of(w.now.proxied, x.agent) && !lane_fenced(*c.home, w.now.proxied, x.agent, x.lane, x.clock))
      fault("missing_proxy_fence", cat(byte_text(g << grain), " was written by ", agent_name(c, x.agent), " through the generic proxy (", place_of_index(x.at), ") and is overwritten by an asynchronous copy with no fence.proxy.async between", late_fence_text(c, x.agent, x.clock)), &w, i, lane < 0 ? 0 : 1U << lane);
    const std::uint32_t* const r = c.reads.data() + g * n;
    const last_read& read = c.last_reads[g];
    if (lane >= 0 && read.agent == w.agent && read.round == w.round && other_lane(read.lane, static_cast<std::uint8_t>(lane)))
      fault("race", cat(byte_text(g << grain), " is overwritten by an asynchronous copy of lane ", lane, " of warp ", w.index, " but a read by other lanes of the warp (", place_of_index(read.at), ") is not ordered before (bar.warp.sync)"), &w, i, 1U << lane);
    for (std::uint32_t k = 0; k < n; ++k) {
      if (r[k] > w.now.seen[k] && k != w.agent && !lane_signalled(*c.home, w.now.seen, k, read.agent == k ? read.lane : lane_unknown, r[k]))
        fault("race", cat(byte_text(g << grain), " is overwritten by an asynchronous copy of ", agent_name(c, w.agent), " but a read by ", agent_name(c, k), " is not ordered before"), &w, i, lane < 0 ? 0 : 1U << lane);
      if (r[k] > w.now.proxied[k]) {
        if (how.strict) fault("missing_proxy_fence", cat(byte_text(g << grain), " was read by ", agent_name(c, k), " through the generic proxy and is overwritten by an asynchronous copy with no fence.proxy.async between"), &w, i, lane < 0 ? 0 : 1U << lane);
        lint("proxy_war: memory read through the generic proxy is overwritten by an asynchronous copy with no fence.proxy.async between", i);
      }
    }
  }
}

// ---- what asynchronous operations read: 16 bytes, by warp that issued, apart for bulk copies and for matrix operations
void engine::note_async_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, bool matrix) {
  const std::uint32_t n = c.home->warp_count;
  std::vector<std::uint32_t>& reads = matrix ? c.matrix_reads : c.copy_reads;
  if (reads.empty()) reads.assign(((shared_bytes >> 4) + 1) * std::size_t{n}, 0);
  if (c.async_read_places.empty()) c.async_read_places.assign((shared_bytes >> 4) + 1, 0);
  const std::uint32_t stamp = ++(matrix ? w.matrix_clock : w.copy_clock);
  for (std::size_t g = offset >> 4; g <= (offset + bytes - 1) >> 4; ++g) {
    reads[g * n + w.agent] = stamp;
    c.async_read_places[g] = index_of(i);
  }
}

void engine::check_async_reads(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, const char* verb) {
  const std::uint32_t n = c.home->warp_count;
  for (std::size_t g = offset >> 4; g <= (offset + bytes - 1) >> 4; ++g)
    for (const bool matrix : {false, true}) {
      const std::vector<std::uint32_t>& reads = matrix ? c.matrix_reads : c.copy_reads;
      if (reads.empty()) continue;
      for (std::uint32_t k = 0; k < n; ++k) {
        const std::uint32_t stamp = reads[g * n + k];
        if (!stamp || stamp <= seen_of(w.now.seen, matrix ? matrix_agent(*c.home, k) : copy_agent(*c.home, k))) continue;
        if (!matrix && k == w.agent) {
          // A lane has waited, and the others not yet met it.
          const std::uint8_t l = lane_of(i, lane);
          std::uint32_t most = 0;
          for (std::uint8_t m = 0; m < 32; ++m) if (l >= 32 || m == l) most = std::max(most, w.copies_waited[m]);
          if (stamp <= most) continue;
        }
        fault("race", cat(byte_text(static_cast<std::uint32_t>(std::max<std::size_t>(g << 4, offset))), " is ", verb, " by ", agent_name(c, w.agent), " but an asynchronous operation of ", agent_name(c, k), " (", place_of_index(c.async_read_places[g]),
                          ") that reads it is not known to have ended", !matrix && k == w.agent ? ungrouped_text(w) : ""), &w, i, lane < 0 || lane > 31 ? 0 : 1U << lane);
      }
    }
}

/// A bulk copy that reads shared memory completes on an mbarrier.
void engine::copy_read_landed(cta& barrier_home, std::uint32_t barrier, std::uint32_t agent, std::uint32_t stamp) {
  if (barrier_home.writes.empty()) return;
  raise_clock(barrier_home.barrier_sync[barrier].arriving.seen, copy_agent(*barrier_home.home, agent), stamp);
}

void engine::observe_read(warp& w, std::uint64_t id, lanes who) {
  const auto found = read_stamps.find(id);
  if (found == read_stamps.end() || w.now.empty()) return;
  for (lanes m = who; m; m &= m - 1) { std::uint32_t& n = w.copies_waited[std::countr_zero(m)]; n = std::max(n, found->second); }
  w.lanes_waited = true;
  if (who == w.live()) merge_lanes(w);
}

void engine::generic_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane) { race_write(w, c, offset, bytes, i, lane, false); }

void engine::async_landed(cta& c, std::uint32_t offset, std::size_t bytes, cta& barrier_home, std::uint32_t barrier, const instruction* i) {
  if (c.writes.empty()) return;
  barrier_clocks& sync = barrier_home.barrier_sync[barrier];
  if (!sync.async_agent) sync.async_agent = new_agent(*c.home);
  const std::uint32_t agent = sync.async_agent, stamp = ++sync.async_clock;
  const std::uint32_t first = offset >> grain, last = static_cast<std::uint32_t>((offset + bytes - 1) >> grain);
  for (std::uint32_t g = first; g <= last; ++g) c.writes[g] = {stamp, 0, index_of(i), static_cast<std::uint16_t>(agent), lane_unknown, true, false};
  clocks& a = sync.arriving;
  if (a.seen.size() <= agent) a.seen.resize(agent + 1);
  a.seen[agent] = std::max(a.seen[agent], stamp);
}

void engine::no_fence_needed(cta& c, std::uint32_t offset, std::size_t bytes) {
  if (c.writes.empty()) return;
  for (std::size_t g = offset >> grain; g <= (offset + bytes - 1) >> grain; ++g) c.writes[g].async = true;
}

/// Lanes that fence for others which nothing has ordered before them: covered is what was before the last common moment, and what they did themselves.
void engine::fence_proxies(warp& w, lanes who) {
  if ((w.touched & ~who) == 0) return join_clock(w.now.proxied, w.now.seen);
  vector_clock covered = w.now.seen;
  covered[w.agent] = std::max(w.round_clock, w.now.proxied[w.agent]);
  join_clock(w.now.proxied, covered);
  cluster& k = *w.home->home;
  for (lanes m = w.touched & who; m; m &= m - 1) raise_clock(w.now.proxied, lane_agent(k, k.warp_count + w.agent, static_cast<unsigned>(std::countr_zero(m))), w.now.seen[w.agent]);
}

step op_fence(engine& e, warp& w, context&, const instruction& i, lanes active) {
  if (w.now.empty()) return step::next;
  const bool proxy = (i.sub == 2 && i.where != space::global) || i.sub == 3;
  if (proxy) {
    e.fence_proxies(w, active);
    w.proxy_fence_clock = w.now.seen[w.agent];
    w.proxy_fence_at = e.index_of(&i);
  }
  if (i.sub == 0 && (!w.loaded.seen.empty() || !w.loaded.elsewhere.empty())) {
    w.now.join(w.loaded);
    w.loaded = {};
    e.synchronise_warp(w);
  }
  if (i.sub != 2) w.fenced = w.now;  // a proxy fence orders this thread's proxies and releases nothing
  e.tick(w);
  return step::next;
}

}  // namespace tlx::sim
