// Who touched which bytes last: the memory of the detector. One for the shared memory of each CTA, one for its tensor memory (columns and lanes).
#pragma once
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

class shadow {
 public:
  /// Records `now`. Returns an earlier access to the same bytes, one of the two a write, for which `fine(before)` is false; null: none.
  template <class Fine>
  const access* add(const access& now, Fine&& fine) {
    record* same = nullptr;
    for (record& r : records_) {
      if (r.low >= now.high || now.low >= r.high || r.lane_low >= now.lane_high || now.lane_low >= r.lane_high) continue;
      if (r.written && !fine(r.write)) return &r.write;
      if (now.write)
        for (const access& read : r.reads)
          if (!fine(read)) return &read;
      if (r.low == now.low && r.high == now.high && r.lane_low == now.lane_low && r.lane_high == now.lane_high) same = &r;
    }
    if (!same) {
      records_.push_back({now.low, now.high, now.lane_low, now.lane_high, false, {}, {}});
      same = &records_.back();
    }
    if (now.write) {
      same->written = true;
      same->write = now;
      same->reads.clear();
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
      if (r.written && r.low < high && low < r.high) return true;
    return false;
  }

 private:
  struct record {
    std::int64_t low, high;
    int lane_low, lane_high;
    bool written;
    access write;
    std::vector<access> reads;
  };
  std::vector<record> records_;
};

}  // namespace tlx::check
