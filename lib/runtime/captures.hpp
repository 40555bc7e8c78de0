// Which node of its graph each recorded launch became, so that a graph's kernels can be given other arguments later.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/driver.hpp"

namespace tlx::runtime {

/// Of a context. For any number of threads.
class captures {
 public:
  /// A capture of `where` has begun.
  void begin(const driver& d, cu::stream where);
  /// Right after a launch: when its stream is being captured (or has joined a capture), remembers its node. Costs nothing while nobody captures.
  void launched(const driver& d, cu::stream where) {
    if (running_.load(std::memory_order_acquire) > 0) remember(d, where);
  }
  /// Right before the capture of `where` ends: its launches in the order in which they were recorded.
  std::vector<cu::graph_node> end(const driver& d, cu::stream where);

 private:
  void remember(const driver& d, cu::stream where);

  std::atomic<int> running_{0};
  std::mutex guard_;
  std::map<std::uint64_t, std::vector<cu::graph_node>> all_;  // by the driver's number of the capture
};

}  // namespace tlx::runtime
