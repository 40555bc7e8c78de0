// A GPU's primary context: retained as long as somebody uses it, current only inside our calls.
#pragma once
#include <memory>

#include "runtime/driver.hpp"
#include "runtime/in_flight.hpp"
#include "runtime/watched.hpp"

namespace tlx::runtime {

struct gpu_context {
  const driver& d;
  cu::device device;
  cu::context handle = nullptr;
  watched_list watched_modules;
  in_flight flights;

  gpu_context(const driver& table, cu::device which) : d(table), device(which), flights(table) {
    check(d, d.context_retain(&handle, device), "cuDevicePrimaryCtxRetain");
  }
  gpu_context(const gpu_context&) = delete;
  gpu_context& operator=(const gpu_context&) = delete;
  ~gpu_context() { d.context_release(device); }
};

// Makes the context current for a scope and puts the caller's back. Free of pushes when it is current already, which is the common case.
class current {
 public:
  explicit current(const gpu_context& wanted) : d_(wanted.d) {
    cu::context now = nullptr;
    if (d_.context_current(&now) == cu::success && now == wanted.handle) return;
    check(d_, d_.context_push(wanted.handle), "cuCtxPushCurrent");
    pushed_ = true;
  }
  current(const current&) = delete;
  current& operator=(const current&) = delete;
  ~current() {
    cu::context ours = nullptr;
    if (pushed_) d_.context_pop(&ours);
  }

 private:
  const driver& d_;
  bool pushed_ = false;
};

}  // namespace tlx::runtime
