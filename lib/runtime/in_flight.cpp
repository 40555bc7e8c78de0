#include "runtime/in_flight.hpp"

#include <cstdlib>
#include <map>
#include <thread>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::runtime {

double checked_wait_limit(double seconds, const char* from) {
  if (seconds >= 0 && seconds <= 1e6) return seconds;
  raise(user_error({.id = "wait-limit-invalid", .what = cat(from, " asks for a limit of ", seconds, " s"), .because = "a wait may be limited to 0 (no limit) to 1,000,000 seconds",
                    .fix = {"give a number of seconds, or 0"}}));
}

double wait_limit_from_environment() {
  const char* text = std::getenv("TLX_WAIT_SECONDS");
  if (!text || !*text) return 0;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  return checked_wait_limit(*end ? -1 : seconds, "TLX_WAIT_SECONDS");
}

void in_flight::launched(cu::stream where, const char* entry) {
  int capturing = 0;
  if (d_.stream_capturing(where, &capturing) != cu::success || capturing != 0) return;  // recorded, not launched
  std::lock_guard lock(guard_);
  forget_finished();
  cu::event behind = nullptr;
  if (!spare_.empty()) {
    behind = spare_.back();
    spare_.pop_back();
  } else {
    check(d_, d_.event_create(&behind, cu::event_disable_timing), "cuEventCreate");
  }
  check(d_, d_.event_record(behind, where), "cuEventRecord");
  all_.push_back({behind, where, entry});
}

void in_flight::forget_finished() {
  // Launches of one stream finish in order: after one that has not, the others of its stream need not be asked.
  std::vector<cu::stream> busy;
  std::erase_if(all_, [&](const launch& l) {
    for (const cu::stream s : busy)
      if (s == l.where) return false;
    const cu::result code = d_.event_query(l.behind);
    if (code == cu::error_not_ready) {
      busy.push_back(l.where);
      return false;
    }
    spare_.push_back(l.behind);
    return true;
  });
}

void in_flight::poll(const char* what, const std::function<bool()>& done) {
  using clock = std::chrono::steady_clock;
  const double limit = limit_.load(std::memory_order_relaxed);
  const auto start = clock::now();
  for (;;) {
    const bool finished = done();
    const double waited = std::chrono::duration<double>(clock::now() - start).count();
    if (finished) return;
    if (waited > limit) break;
    if (waited > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(50));
    else std::this_thread::yield();
  }
  std::lock_guard lock(guard_);
  forget_finished();
  std::map<cu::stream, std::vector<std::string>> by_stream;
  for (const launch& l : all_) by_stream[l.where].push_back(cat("\"", l.entry, "\""));
  std::vector<std::string> lines;
  for (auto& [stream, entries] : by_stream) {
    std::string line = cat("kernel ", entries.front());
    if (entries.size() > 1) {
      const size_t behind = entries.size() - 1;
      entries.erase(entries.begin());
      if (behind > 4) entries.resize(4);
      line += cat(" (behind it: ", behind, behind == 1 ? " launch, " : " launches, ", join(entries, ", "), behind > 4 ? ", ..." : "", ")");
    }
    lines.push_back(std::move(line));
  }
  raise(device_error({.id = "wait-limit", .what = cat(what, " has lasted ", limit, " s; not finished: ", lines.empty() ? std::string("work that tlx did not launch") : join(lines, "; ")),
                      .because = "the wait has a limit (set_wait_limit, TLX_WAIT_SECONDS); nothing was stopped",
                      .fix = {"wait again if the work is only long", "compile the kernel to be watched (TLX_WATCH), so that it says who waits for what", "run it on the simulator"}}));
}

void in_flight::wait_for_all() {
  poll("the wait for the GPU", [&] {
    std::lock_guard lock(guard_);
    forget_finished();
    return all_.empty();
  });
}

void in_flight::wait_for_event(cu::event which) {
  poll("the wait for an event", [&] { return d_.event_query(which) != cu::error_not_ready; });
}

// An event behind everything that is on the stream now, whoever put it there.
void in_flight::wait_for_stream(cu::stream where) {
  cu::event last = nullptr;
  check(d_, d_.event_create(&last, cu::event_disable_timing), "cuEventCreate");
  try {
    check(d_, d_.event_record(last, where), "cuEventRecord");
    poll("the wait for a stream", [&] { return d_.event_query(last) != cu::error_not_ready; });
  } catch (...) {
    d_.event_destroy(last);
    throw;
  }
  d_.event_destroy(last);
}

}  // namespace tlx::runtime
