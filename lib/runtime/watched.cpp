#include "runtime/watched.hpp"

#include <cstring>

namespace tlx::runtime {

watched::watched(const driver& d, cu::module module, const device::watch_table& names) : d_(d), names_(names) {
  cu::device_pointer pointer = 0, seen = 0;
  size_t bytes = 0;
  check(d, d.module_global(&state_, &bytes, module, watch_state_name), "cuModuleGetGlobal", watch_state_name);
  check(d, d.module_global(&pointer, &bytes, module, watch_records_name), "cuModuleGetGlobal", watch_records_name);
  void* room = nullptr;
  check(d, d.host_allocate(&room, sizeof(watch_records), cu::host_portable | cu::host_mapped), "cuMemHostAlloc");
  std::memset(room, 0, sizeof(watch_records));
  records_ = static_cast<watch_records*>(room);
  try {
    check(d, d.host_address(&seen, room, 0), "cuMemHostGetDevicePointer");
    check(d, d.copy_to_device(pointer, &seen, sizeof seen), "cuMemcpyHtoD", watch_records_name);
    check(d, d.stream_synchronize(nullptr), "cuStreamSynchronize");
  } catch (...) {
    d.host_release(room);
    throw;
  }
}

watched::~watched() {
  if (!forked()) d_.host_release(records_);
}

bool watched::gave_up() const { return *static_cast<volatile const std::uint32_t*>(&(*records_)[0].site) != 0; }

void watched::report(in_flight& flights) {
  const std::lock_guard lock(reporting_);
  if (!gave_up()) return;
  if (flights.limited()) flights.wait_for_all();
  check(d_, d_.context_synchronize(), "cuCtxSynchronize", "after a kernel gave up");
  const watch_records found = *records_;
  std::memset(static_cast<void*>(records_), 0, sizeof(watch_records));
  const std::uint64_t launches = launches_.exchange(0);
  check(d_, d_.fill_bytes(state_, 0, 8), "cuMemsetD8", watch_state_name);
  check(d_, d_.stream_synchronize(nullptr), "cuStreamSynchronize");
  device::raise_gave_up(entry_.load(), names_, found, launches);
}

void watched_list::add(const std::shared_ptr<watched>& w) {
  std::lock_guard lock(guard_);
  std::erase_if(all_, [](const auto& old) { return old.expired(); });
  all_.push_back(w);
  any_.store(true, std::memory_order_release);
}

void watched_list::look(bool everything, in_flight& flights) {
  if (!any_.load(std::memory_order_acquire)) return;
  std::shared_ptr<watched> found;
  {
    std::lock_guard lock(guard_);
    for (const auto& weak : all_) {
      const std::shared_ptr<watched> w = weak.lock();
      if (!w) continue;
      if (w->gave_up()) found = w;
      else if (everything) w->all_done();
    }
  }
  if (found) found->report(flights);
}

}  // namespace tlx::runtime
