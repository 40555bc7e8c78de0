// A GPU's context, the primary one or the caller's own: current only inside our calls.
#pragma once
#include <memory>

#include "runtime/captures.hpp"
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
  captures recorded;

  /// The device's primary context, retained.
  gpu_context(const driver& table, cu::device which) : d(table), device(which), flights(table), retained_(true) {
    check(d, d.context_retain(&handle, device), "cuDevicePrimaryCtxRetain");
  }
  /// A context that somebody else made and destroys, later than this.
  gpu_context(const driver& table, cu::device which, cu::context own) : d(table), device(which), handle(own), flights(table), retained_(false) {}
  gpu_context(const gpu_context&) = delete;
  gpu_context& operator=(const gpu_context&) = delete;
  ~gpu_context() {
    if (retained_ && !forked()) d.context_release(device);
  }

 private:
  bool retained_;
};

// Makes the context current for a scope and puts the caller's back. Free of pushes when it is current already, which is the common case.
class current {
 public:
  explicit current(const gpu_context& wanted) : d_(wanted.d) {
    refuse_after_fork();
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

// The same for what must not throw: destructors. `call` does not run when the context is lost, or in a forked child.
template <class Call>
void quietly(const gpu_context& in, Call&& call) {
  if (forked()) return;
  cu::context now = nullptr, popped = nullptr;
  const bool push = in.d.context_current(&now) != cu::success || now != in.handle;
  if (push && in.d.context_push(in.handle) != cu::success) return;
  call(in.d);
  if (push) in.d.context_pop(&popped);
}

}  // namespace tlx::runtime
