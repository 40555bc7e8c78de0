// Happens-before for tensor memory, by group of 16 lanes and column: tcgen05.ld and st of warps, and what matrix operations and copies read and write.
#include <algorithm>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

namespace {

constexpr std::uint32_t not_waited = 0xFFFFFFFFU;
std::size_t tensor_index(int group, int column) { return static_cast<std::size_t>(group * tmem_columns + column); }
}  // namespace

/// The other side of a synchronisation between warps needs tcgen05.fence::before_thread_sync and ::after_thread_sync: hardware and known-good code do
/// without, so that their absence is a lint.
void engine::tensor_fenced(warp& w, cta& c, int column, std::uint32_t agent, std::uint32_t stamp, const instruction* i) {
  if (agent == w.agent || agent == 2 * c.home->warp_count + w.agent || stamp <= seen_of(w.tensor_after, agent)) return;
  if (!how.strict) {
    // For every column of every access: told once.
    fence_linted.resize(code.code.size() + 1);
    std::uint8_t& told = fence_linted[static_cast<std::size_t>(index_of(i))];
    if (told) return;
    told = 1;
  }
  const bool before_missing = stamp > seen_of(w.now.tensor, agent);
  const char* const fence = before_missing ? "tcgen05.fence::before_thread_sync after the other access" : "tcgen05.fence::after_thread_sync before this one";
  if (how.strict) fault("race", cat(column_text(column), " is accessed after an access by ", agent_name(c, agent), " with no ", fence), &w, i);
  lint(cat("tcgen05_fence: tensor memory is accessed after another warp's access with no ", before_missing ? "tcgen05.fence::before_thread_sync" : "tcgen05.fence::after_thread_sync", " between"), i);
}

void engine::tensor_access(warp& w, cta& c, const warp::tensor_span& at, bool store, const instruction* i) {
  if (w.now.empty()) return;
  const std::uint32_t n = c.home->warp_count;
  start_tensor(c);
  for (int g = at.group_first; g < at.group_first + at.group_count; ++g)
    for (int column = at.first; column < at.first + at.count; ++column) {
      cta::tensor_store& s = c.tensor_stores[tensor_index(g, column)];
      std::uint32_t* const loads = c.tensor_loads.data() + tensor_index(g, column) * n;
      const cta::tensor_store& written = c.tensor_results[tensor_index(g, column)];
      if (written.clock > seen_of(w.now.seen, written.agent))
        fault("race", cat(column_text(column), " is ", store ? "written" : "read", " by ", agent_name(c, w.agent), " but ", agent_name(c, written.agent), " (", place_of_index(written.at), ") that writes it is not known to have ended (tcgen05.commit and a wait)"), &w, i);
      if (written.clock) tensor_fenced(w, c, column, written.agent, written.clock, i);
      if (s.clock && s.agent != w.agent && (s.clock == not_waited || s.clock > w.now.seen[s.agent]))
        fault("race", cat(column_text(column), " is ", store ? "written" : "read", " by ", agent_name(c, w.agent), " but its tcgen05.st by ", agent_name(c, s.agent), " (", place_of_index(s.at), ") is not ordered before"), &w, i);
      if (!store && s.clock == not_waited) fault("race", cat(column_text(column), " is read before tcgen05.wait::st of the store at ", place_of_index(s.at)), &w, i);
      if (s.clock && s.clock != not_waited) tensor_fenced(w, c, column, s.agent, s.clock, i);
      if (store) {
        const cta::tensor_store& used = c.tensor_uses[tensor_index(g, column)];
        if (used.clock > seen_of(w.now.seen, used.agent))
          fault("race", cat(column_text(column), " is written by ", agent_name(c, w.agent), " but ", agent_name(c, used.agent), " (", place_of_index(used.at), ") that reads it is not known to have ended (tcgen05.commit and a wait)"), &w, i);
        if (used.clock) tensor_fenced(w, c, column, used.agent, used.clock, i);
        for (std::uint32_t k = 0; k < n; ++k) {
          if (loads[k] == not_waited && k == w.agent) fault("race", cat(column_text(column), " is overwritten before tcgen05.wait::ld of an earlier load"), &w, i);
          if (k != w.agent && loads[k] > w.now.seen[k]) fault("race", cat(column_text(column), " is overwritten by ", agent_name(c, w.agent), " but a tcgen05.ld by ", agent_name(c, k), " is not ordered before"), &w, i);
        }
        s = {not_waited, static_cast<std::uint16_t>(w.agent), index_of(i)};
      } else loads[w.agent] = not_waited;
    }
  (store ? w.tensor_stores_open : w.tensor_loads_open).push_back(at);
}

void engine::tensor_wait(warp& w, bool store) {
  cta& c = *w.home;
  if (!store) for (std::uint8_t& p : w.pinned) if (p == 3) p = 0;
  w.tensor_loads_pending = store && w.tensor_loads_pending;
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
  synchronise_warp(w);  // the warp waits as one
}

void engine::start_tensor(cta& c) {
  if (!c.tensor_stores.empty()) return;
  c.tensor_stores.assign(8 * tmem_columns, {});
  c.tensor_results.assign(8 * tmem_columns, {});
  c.tensor_uses.assign(8 * tmem_columns, {});
  c.tensor_loads.assign(std::size_t{8} * tmem_columns * c.home->warp_count, 0);
}

void engine::tensor_async(warp& w, cta& c, int first, int count, unsigned groups, bool writes, const instruction* i) {
  if (w.now.empty()) return;
  start_tensor(c);
  const std::uint32_t n = c.home->warp_count, own = 2 * n + w.agent, stamp = ++w.matrix_clock;
  for (int g = 0; g < 8; ++g) {
    if (!(groups >> g & 1U)) continue;
    for (int column = first; column < first + count; ++column) {
      cta::tensor_store& s = c.tensor_stores[tensor_index(g, column)];
      std::uint32_t* const loads = c.tensor_loads.data() + tensor_index(g, column) * n;
      if (s.clock == not_waited) fault("race", cat(column_text(column), " is used by an asynchronous operation before tcgen05.wait::st of the store at ", place_of_index(s.at)), &w, i);
      if (s.clock > w.now.seen[s.agent]) fault("race", cat(column_text(column), " is used by an asynchronous operation of ", agent_name(c, w.agent), " but its tcgen05.st by ", agent_name(c, s.agent), " (", place_of_index(s.at), ") is not ordered before"), &w, i);
      if (s.clock) tensor_fenced(w, c, column, s.agent, s.clock, i);
      // Operations of one thread run in order.
      const auto ended = [&](const cta::tensor_store& other) {
        if (other.clock && other.agent != own && other.clock > seen_of(w.now.seen, other.agent))
          fault("race", cat(column_text(column), " is used by an asynchronous operation of ", agent_name(c, w.agent), " but ", agent_name(c, other.agent), " (", place_of_index(other.at), ") is not known to have ended"), &w, i);
      };
      cta::tensor_store& written = c.tensor_results[tensor_index(g, column)];
      cta::tensor_store& used = c.tensor_uses[tensor_index(g, column)];
      ended(written);
      if (!writes) { used = {stamp, static_cast<std::uint16_t>(own), index_of(i)}; continue; }
      ended(used);
      for (std::uint32_t k = 0; k < n; ++k) {
        if (loads[k] == not_waited) fault("race", cat(column_text(column), " is overwritten by an asynchronous operation before tcgen05.wait::ld of a load by ", agent_name(c, k)), &w, i);
        if (loads[k] > w.now.seen[k]) fault("race", cat(column_text(column), " is overwritten by an asynchronous operation of ", agent_name(c, w.agent), " but a tcgen05.ld by ", agent_name(c, k), " is not ordered before"), &w, i);
        if (loads[k]) tensor_fenced(w, c, column, k, loads[k], i);
        loads[k] = 0;
      }
      s.clock = 0;
      written = {stamp, static_cast<std::uint16_t>(own), index_of(i)};
    }
  }
}

/// tcgen05.dealloc is an access of every column: whoever gets them next may write at once.
void engine::tensor_release(warp& w, cta& c, int first, int count, const instruction* i) {
  if (w.now.empty() || c.tensor_stores.empty()) return;
  const std::uint32_t n = c.home->warp_count;
  for (int g = 0; g < 8; ++g)
    for (int column = std::max(0, first); column < std::min(first + count, tmem_columns); ++column) {
      const auto ended = [&](const cta::tensor_store& other, const char* does) {
        if (!other.clock) return;
        if (other.clock == not_waited || other.clock > seen_of(w.now.seen, other.agent))
          fault("race", cat(column_text(column), " is freed by ", agent_name(c, w.agent), " but ", agent_name(c, other.agent), " (", place_of_index(other.at), ") that ", does, " it is not known to have ended"), &w, i);
        tensor_fenced(w, c, column, other.agent, other.clock, i);
      };
      ended(c.tensor_stores[tensor_index(g, column)], "writes");
      ended(c.tensor_results[tensor_index(g, column)], "writes");
      ended(c.tensor_uses[tensor_index(g, column)], "reads");
      const std::uint32_t* const loads = c.tensor_loads.data() + tensor_index(g, column) * n;
      for (std::uint32_t k = 0; k < n; ++k) {
        if (!loads[k]) continue;
        if (loads[k] == not_waited || loads[k] > seen_of(w.now.seen, k)) fault("race", cat(column_text(column), " is freed by ", agent_name(c, w.agent), " but a tcgen05.ld by ", agent_name(c, k), " is not ordered before"), &w, i);
        tensor_fenced(w, c, column, k, loads[k], i);
      }
    }
}

void engine::commit_issued(warp& w, std::uint64_t id) {
  if (w.now.empty()) return;
  clocks& published = commits[id];
  published = w.now;
  const std::uint32_t own = 2 * w.home->home->warp_count + w.agent;
  // Everything that this thread has issued will have ended; a commit includes the fence before the synchronisation.
  raise_clock(published.seen, own, w.matrix_clock);
  raise_clock(published.tensor, own, w.matrix_clock);
  raise_clock(published.tensor, w.agent, w.now.seen[w.agent]);
  tick(w);
}
void engine::commit_landed(cta& c, std::uint32_t offset, std::uint64_t id) {
  const auto found = commits.find(id);
  if (found == commits.end()) return;
  c.barrier_sync[offset].arriving.join(found->second);
}

step op_tmem_fence(engine& e, warp& w, context&, const instruction& i, lanes) {
  if (w.now.empty()) return step::next;
  if (i.sub == 0) {
    raise_clock(w.now.tensor, w.agent, w.now.seen[w.agent]);
    e.tick(w);
  } else w.tensor_after = w.now.tensor;
  return step::next;
}

}  // namespace tlx::sim
