// Work for all processors in processes of their own: what one does, its crash too, does not reach another.
#pragma once
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace tlx::test {

/// A T in memory that this process shares with those it forks.
template <class T>
class shared {
 public:
  shared() : at_(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    value_ = new (at_) T();
  }
  ~shared() { munmap(at_, sizeof(T)); }
  shared(const shared&) = delete;
  shared& operator=(const shared&) = delete;
  T* operator->() { return value_; }
  T& operator*() { return *value_; }

 private:
  void* at_;
  T* value_;
};

/// TLX_JOBS, else the number of processors.
inline int all_jobs() {
  const char* const asked = std::getenv("TLX_JOBS");
  const int n = asked ? std::atoi(asked) : 0;
  return n > 0 ? n : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct worked {
  int begun = 0;          // items [first, begun) were begun, and ended unless their process died
  std::vector<int> died;  // items whose process ended in their middle
};

/// Calls body(k) for first <= k < count, in order, each in one of `jobs` processes; one job: in this process. After `seconds` (0: no limit) none is begun.
inline worked in_processes(int jobs, int first, int count, const std::function<void(int)>& body, int seconds = 0) {
  constexpr int most = 512;
  struct state { std::atomic<int> next{0}, busy[most]{}; };
  shared<state> s;
  s->next = first;
  jobs = std::clamp(jobs, 1, std::max(1, std::min(most, count - first)));
  const auto start = std::chrono::steady_clock::now();
  const auto work = [&](std::atomic<int>& busy) {
    while (seconds == 0 || std::chrono::steady_clock::now() - start < std::chrono::seconds(seconds)) {
      const int k = s->next++;
      if (k >= count) return;
      busy = k + 1;
      body(k);
      busy = 0;
    }
  };
  std::fflush(nullptr);
  if (jobs == 1) work(s->busy[0]);
  for (int j = 0; jobs > 1 && j < jobs; ++j)
    if (fork() == 0) {
      int code = 0;
      try {
        work(s->busy[j]);
      } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
        code = 1;
      }
      std::fflush(nullptr);
      _exit(code);
    }
  if (jobs > 1)
    while (wait(nullptr) > 0) {}
  worked w;
  w.begun = std::min(s->next.load(), count);
  for (const std::atomic<int>& busy : s->busy) if (busy) w.died.push_back(busy - 1);
  return w;
}

}  // namespace tlx::test
