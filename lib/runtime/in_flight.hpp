// Launches that have not been seen to finish, for a wait that has a limit: an event behind each.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "runtime/driver.hpp"

namespace tlx::runtime {

/// Seconds of TLX_WAIT_SECONDS, 0 where it is unset or empty. Raises user_error [wait-limit-invalid].
double wait_limit_from_environment();
/// `seconds` itself if it is a limit (0: none). Raises user_error [wait-limit-invalid].
double checked_wait_limit(double seconds, const char* from);

/// For any number of threads. The context must be current in every call. Owned by the context, whose end takes the events with it.
class in_flight {
 public:
  explicit in_flight(const driver& d) : d_(d) {}

  void set_limit(double seconds) { limit_.store(seconds, std::memory_order_relaxed); }
  bool limited() const { return limit_.load(std::memory_order_relaxed) > 0; }

  /// Right after a launch. `entry` lives as long as the program.
  void launched(cu::stream where, const char* entry);

  /// Return when their work is done, or has failed, which the driver's own wait then says. Raise device_error [wait-limit].
  void wait_for_all();
  void wait_for_stream(cu::stream where);
  void wait_for_event(cu::event which);

 private:
  struct launch {
    cu::event behind;
    cu::stream where;
    const char* entry;
  };
  void forget_finished();  // under guard_
  void poll(const char* what, const std::function<bool()>& done);

  const driver& d_;
  std::atomic<double> limit_{0};
  std::mutex guard_;
  std::deque<launch> all_;
  std::vector<cu::event> spare_;
};

}  // namespace tlx::runtime
