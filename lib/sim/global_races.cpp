// Happens-before in global memory, across all CTAs of a launch: 16 bytes are a cell, which holds who touched it last; a cell that two parties touch
// in different bytes holds both. Pages of cells exist for what the kernel touches. What orders CTAs of different clusters is strong accesses of global
// memory (release and acquire, or relaxed ones with fences around them) within each other's scopes.
#include <algorithm>
#include <bit>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

namespace {

constexpr std::size_t most_accesses = 8;  // of one cell; the oldest is forgotten, so that what every CTA reads stays small

}  // namespace

bool engine::before(const warp& w, const global_access& a) const {
  const std::uint32_t size = shape.cluster.x * shape.cluster.y * shape.cluster.z;
  const std::uint32_t theirs = (a.cta - 1) / size * size + 1, mine = w.home->home->number;
  if (theirs == mine) return a.clock <= seen_of(w.now.seen, a.agent);
  const auto found = w.now.elsewhere.find(theirs);
  return found != w.now.elsewhere.end() && a.clock <= seen_of(found->second, a.agent);
}

void engine::race_global(warp& w, std::uint64_t address, std::size_t bytes, bool write, const instruction* i, int lane) {
  if (w.now.empty()) return;
  const bool memory_order = i && (i->run == op_load || i->run == op_store || i->run == op_atomic);
  const bool strong = memory_order && (i->flags & 1U), narrow = strong && i->flags >> 4 == 1;
  for (std::uint64_t at = address & ~std::uint64_t{15}; at < address + bytes; at += 16) {
    const std::uint64_t from = std::max(at, address) - at, to = std::min(at + 16, address + bytes) - at;
    global_access mine{.cta = w.home->generation, .clock = w.now.seen[w.agent], .round = w.round, .at = index_of(i), .agent = static_cast<std::uint16_t>(w.agent),
                       .mask = static_cast<std::uint16_t>(((1U << (to - from)) - 1) << from), .lane = static_cast<std::uint8_t>(lane < 0 ? lane_unknown : lane), .write = write, .strong = strong, .narrow = narrow, .swaps = i && i->run == op_atomic && i->sub == 9};
    if (at >> 12 != last_page_number) {
      std::unique_ptr<global_page>& page = global_pages[at >> 12];
      if (!page) page = std::make_unique<global_page>();
      last_page_number = at >> 12;
      last_page = page.get();
    }
    global_cell& cell = last_page->cells[at >> 4 & 255];
    const auto conflicts = [&](const global_access& a) {
      if (!a.mask || !(a.mask & mine.mask) || (!a.write && !write)) return;
      const bool both_strong = a.strong && strong && (a.cta == mine.cta || (!a.narrow && !narrow));
      if (both_strong) return;
      const bool own = a.cta == mine.cta && a.agent == mine.agent;
      if (own ? a.async || a.round != mine.round || a.at == mine.at || a.lane >= 32 || mine.lane >= 32 || a.lane == mine.lane : before(w, a)) return;
      // A compare-and-swap looks again at what a plain read told its thread, so loops of the two are right whatever that read saw.
      if (!how.strict && ((a.swaps && !write && !strong) || (mine.swaps && !a.write && !a.strong))) return lint("a plain read of a word that others compare and swap is not ordered", i);
      std::string other;
      if (own) other = cat("lane ", static_cast<int>(a.lane), " of the same warp");
      else {
        other = a.async ? std::string("a bulk store") : "another warp";
        for (const auto& k : resident)
          for (const auto& c : k->ctas)
            if (c->generation == a.cta) {
              if (!a.async) for (const auto& x : c->warps) if (x->agent == a.agent) other = cat("warp ", x->index);
              if (c.get() != w.home) other += cat(" of CTA (", c->id.x, ",", c->id.y, ",", c->id.z, ")");
            }
        if (a.cta != mine.cta && other.find("CTA") == std::string::npos) other += " of another CTA";
      }
      const int byte = std::countr_zero(static_cast<unsigned>(a.mask & mine.mask));
      const bool scopes = a.strong && strong;
      fault("race", cat("global memory at ", memory.describe(at + static_cast<unsigned>(byte)), " is ", write ? "written" : "read", " by warp ", w.index, " but a ", a.write ? "write" : "read", " by ", other, " (", place_of_index(a.at), ") is not ordered before it",
                        scopes ? " (its scope does not reach the other CTA)" : own ? " (bar.warp.sync)" : ""), &w, i, lane < 0 || lane > 31 ? 0 : 1U << lane);
    };
    conflicts(cell.first);
    if (cell.more) [[unlikely]] for (const global_access& a : *cell.more) conflicts(a);
    // What is ordered before this access and covered by it needs no keeping: whoever is ordered after this one is ordered after that one too.
    const auto cover = [&](global_access& a) {
      if (!write && a.write) return;                                              // a read hides no write
      if (a.strong != strong || a.narrow != narrow) { if (!write) return; }
      a.mask &= static_cast<std::uint16_t>(~mine.mask);
    };
    const auto same_party = [&](const global_access& a) { return a.cta == mine.cta && a.agent == mine.agent && a.write == write && a.strong == strong && a.narrow == narrow && a.clock == mine.clock && a.at == mine.at && !a.async; };
    const auto merge = [&](global_access& a) { a.mask |= mine.mask; if (a.lane != mine.lane) a.lane = lane_several; };
    if (write) {
      cover(cell.first);
      if (cell.more) for (global_access& a : *cell.more) cover(a);
    } else {
      // Reads of others stay: they are not ordered among each other.
      const auto own = [&](global_access& a) { if (!a.write && a.cta == mine.cta && a.agent == mine.agent && a.strong == strong) cover(a); };
      own(cell.first);
      if (cell.more) for (global_access& a : *cell.more) own(a);
    }
    if (cell.first.mask == 0) cell.first = mine;
    else if (same_party(cell.first)) merge(cell.first);
    else {
      if (!cell.more) cell.more = std::make_unique<std::vector<global_access>>();
      std::vector<global_access>& more = *cell.more;
      more.erase(std::remove_if(more.begin(), more.end(), [](const global_access& a) { return a.mask == 0; }), more.end());
      const auto found = std::find_if(more.begin(), more.end(), same_party);
      if (found != more.end()) merge(*found);
      else {
        if (more.size() == most_accesses) {
          const auto oldest = std::find_if(more.begin(), more.end(), [](const global_access& a) { return !a.write; });
          more.erase(oldest == more.end() ? more.begin() : oldest);
        }
        more.push_back(mine);
      }
    }
  }
}

/// A strong access publishes and takes in: a release what the warp knows, a relaxed one what it knew at its last fence; an acquire at once, a relaxed one
/// at the next fence.
void engine::publish(warp& w, std::uint64_t address, const instruction& i, bool reads, bool writes) {
  if (w.now.empty()) return;
  strong_place& place = strong_global_places[address];
  const std::uint32_t mine = w.home->home->number;
  const bool narrow = i.flags >> 4 == 1;
  bool ordered = false;
  if (reads) {
    clocks& into = i.flags & 2U ? w.now : w.loaded;
    const auto take = [&](const std::map<std::uint32_t, vector_clock>& from) {
      for (const auto& [k, v] : from) { join_clock(k == mine ? into.seen : into.elsewhere[k], v); ordered = true; }
    };
    if (!narrow) take(place.wide);
    if (const auto found = place.narrow.find(w.home->generation); found != place.narrow.end()) take(found->second);
    ordered = ordered && (i.flags & 2U);
  }
  if (writes) {
    const bool release = i.flags & 4U;
    const clocks& from = release ? w.now : w.fenced;
    const auto give = [&](std::map<std::uint32_t, vector_clock>& to) {
      if (!reads) to.clear();  // a plain store: whoever reads it knows of nobody else
      if (from.empty()) return;
      join_clock(to[mine], from.seen);
      for (const auto& [k, v] : from.elsewhere) join_clock(to[k], v);
    };
    if (!narrow) {
      if (!reads) place.narrow.clear();
      give(place.wide);
    }
    give(place.narrow[w.home->generation]);
    tick(w);
  }
  if (ordered) synchronise_warp(w);
}

// ---- bulk stores: a write of the async proxy, done for the threads when the one that issued it has waited
void engine::async_global_write(warp& w, std::uint64_t id, std::uint64_t address, std::size_t bytes, const instruction* i) {
  if (w.now.empty()) return;
  if (!w.store_agent) w.store_agent = new_agent(*w.home->home);
  const auto [stamp, is_new] = store_stamps.try_emplace(id, 0);
  if (is_new) stamp->second = ++w.store_clock;
  const auto stamped = stamp->second;  // a lambda of clang 14 takes no structured binding
  race_global(w, address, bytes, true, i, -1);
  // Recorded above as a write of the warp; it is one of its stores.
  for (std::uint64_t at = address & ~std::uint64_t{15}; at < address + bytes; at += 16) {
    global_page* const page = global_pages[at >> 12].get();
    global_cell& cell = page->cells[at >> 4 & 255];
    const auto change = [&](global_access& a) {
      if (a.mask && a.write && a.cta == w.home->generation && a.agent == w.agent && a.clock == w.now.seen[w.agent] && a.at == index_of(i)) { a.agent = static_cast<std::uint16_t>(w.store_agent); a.clock = stamped; a.async = true; }
    };
    change(cell.first);
    if (cell.more) for (global_access& a : *cell.more) change(a);
  }
}

void engine::observe_operation(warp& w, std::uint64_t id) {
  const auto found = store_stamps.find(id);
  if (found == store_stamps.end() || w.now.empty()) return;
  raise_clock(w.now.seen, w.store_agent, found->second);
  store_stamps.erase(found);
}

}  // namespace tlx::sim
