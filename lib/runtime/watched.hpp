// The modules of a context whose kernels are watched: where their records are, and the error when one has given up.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/driver.hpp"
#include "runtime/in_flight.hpp"
#include "tlx/device/watch.hpp"

namespace tlx::runtime {

/// One loaded module. The context must be current in every call.
class watched {
 public:
  /// Finds the two variables of the module and gives it room for records in host memory. Raises device_error [driver-call-failed].
  watched(const driver& d, cu::module module, const device::watch_table& names);
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;
  ~watched();

  void launched(const char* entry) {
    entry_.store(entry, std::memory_order_relaxed);
    launches_.fetch_add(1, std::memory_order_relaxed);
  }
  bool gave_up() const;
  /// Waits for the whole context, so that nobody uses the flag, makes the module ready for launches again, and raises. Returns when another thread
  /// was faster.
  void report(in_flight& flights);
  void all_done() { launches_.store(0, std::memory_order_relaxed); }

 private:
  const driver& d_;
  device::watch_table names_;
  watch_records* records_ = nullptr;  // host memory that kernels write
  cu::device_pointer state_ = 0;
  std::atomic<const char*> entry_{""};
  std::atomic<std::uint64_t> launches_{0};
  std::mutex reporting_;
};

/// All of a context. For any number of threads.
class watched_list {
 public:
  void add(const std::shared_ptr<watched>& w);
  /// After a wait that went well. `everything`: nothing is in flight any more. Raises device_error [kernel-gave-up] or [requirement-failed].
  void look(bool everything, in_flight& flights);

 private:
  std::atomic<bool> any_{false};
  std::mutex guard_;
  std::vector<std::weak_ptr<watched>> all_;
};

}  // namespace tlx::runtime
