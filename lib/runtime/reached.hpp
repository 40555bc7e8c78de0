// Allocations that kernels of a context are known to reach, so that a launch asks the driver about memory that is new only.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "tlx/device/device.hpp"

namespace tlx::runtime {

/// For any number of threads; nobody waits.
class reached_ranges {
 public:
  /// True with the allocation that the address is in.
  bool holds(device::address where, device::address& first, device::address& last) const {
    for (const range& r : ranges_) {
      const device::address end = r.end.load(std::memory_order_acquire), start = r.start.load(std::memory_order_acquire);
      if (start <= where && where < end && r.end.load(std::memory_order_acquire) == end) {
        first = start;
        last = end;
        return true;
      }
    }
    return false;
  }
  void add(device::address start, device::address end) {
    range& r = ranges_[next_.fetch_add(1, std::memory_order_relaxed) % ranges_.size()];
    r.end.store(0, std::memory_order_release);  // a reader sees the old range, none, or the new one
    r.start.store(start, std::memory_order_release);
    r.end.store(end, std::memory_order_release);
  }
  void forget() {
    for (range& r : ranges_) r.end.store(0, std::memory_order_release);
  }

 private:
  struct range {
    std::atomic<device::address> start{0}, end{0};
  };
  std::array<range, 16> ranges_;
  std::atomic<unsigned> next_{0};
};

}  // namespace tlx::runtime
