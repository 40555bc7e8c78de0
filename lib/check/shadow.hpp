// Who touched which bytes last: the memory of the detector. One for the shared memory of each CTA, one for its tensor memory (columns and lanes).
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "check/clocks.hpp"
#include "check/program.hpp"

namespace tlx::check {

/// ordinary: by threads. bulk: bulk copies. wgmma, tensor: operands and results of products; loads and stores of tensor memory.
enum class via : unsigned char { ordinary, bulk, wgmma, tensor };

struct access {
  std::int64_t low = 0, high = 0;       // bytes, or columns
  int lane_low = 0, lane_high = 128;    // tensor memory
  bool write = false, exact = true;
  via how = via::ordinary;
  event when;
  const step* by = nullptr;
  int warp = 0;                         // of all CTAs
};

/// Of two accesses to overlapping ranges. Where at least one touches only a part of its range, the parts of all warps together cover it: a conflict is
/// certain only when none of the warps that executed the earlier step is ordered before.
enum class relation : unsigned char { fine, conflict, part_ordered, part_unordered };

class shadow {
 public:
  /// Records `now`. Returns an earlier access to the same bytes, one of the two a write, that conflicts; null: none.
  template <class Relate>
  const access* add(const access& now, Relate&& relate) {
    record* same = nullptr;
    partial_.clear();
    const access* found = nullptr;
    const auto look = [&](const access& before) {
      const relation r = relate(before);
      if (r == relation::fine) return;
      if (r == relation::conflict) {
        if (!found) found = &before;
        return;
      }
      auto it = std::find_if(partial_.begin(), partial_.end(), [&](const part& p) { return p.by == before.by; });
      if (it == partial_.end()) it = partial_.insert(partial_.end(), {before.by, false, nullptr});
      if (r == relation::part_ordered) it->ordered = true;
      else it->unordered = &before;
    };
    for (record& r : records_) {
      if (r.low >= now.high || now.low >= r.high || r.lane_low >= now.lane_high || now.lane_low >= r.lane_high) continue;
      for (const access& w : r.writes) look(w);
      if (now.write)
        for (const access& read : r.reads) look(read);
      if (r.low == now.low && r.high == now.high && r.lane_low == now.lane_low && r.lane_high == now.lane_high) same = &r;
    }
    for (const part& p : partial_)
      if (!p.ordered && p.unordered && !found) found = p.unordered;
    if (found) return found;
    if (!same) {
      records_.push_back({now.low, now.high, now.lane_low, now.lane_high, {}, {}});
      same = &records_.back();
    }
    if (now.write) {
      // A part joins the parts that other warps wrote in the same step; anything else takes the place of what was there.
      if (now.exact) same->writes.clear();
      else same->writes.erase(std::remove_if(same->writes.begin(), same->writes.end(), [&](const access& w) { return w.by != now.by || w.warp == now.warp; }), same->writes.end());
      same->writes.push_back(now);
      if (now.exact) same->reads.clear();
      return nullptr;
    }
    for (access& read : same->reads)
      if (read.when.a == now.when.a && read.when.b == now.when.b) {
        read = now;
        return nullptr;
      }
    same->reads.push_back(now);
    return nullptr;
  }

  /// Whether anybody has written into these bytes.
  bool written(std::int64_t low, std::int64_t high) const {
    for (const record& r : records_)
      if (!r.writes.empty() && r.low < high && low < r.high) return true;
    return false;
  }

 private:
  struct record {
    std::int64_t low, high;
    int lane_low, lane_high;
    std::vector<access> writes, reads;
  };
  struct part {
    const step* by;
    bool ordered;
    const access* unordered;
  };
  std::vector<record> records_;
  std::vector<part> partial_;
};

}  // namespace tlx::check
