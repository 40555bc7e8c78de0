// device::machine over the driver: memory, modules, waiting. Launches are in launch.cpp.
#include "runtime/gpu_machine.hpp"

#include <algorithm>
#include <typeinfo>

#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::runtime {

namespace {

int device_count(const driver& d) {
  int count = 0;
  const cu::result code = d.device_count(&count);
  if (code == cu::error_no_device) return 0;
  check(d, code, "cuDeviceGetCount");
  return count;
}

std::string hex(device::address where) {
  std::ostringstream out;
  out << "0x" << std::hex << where;
  return out.str();
}

}  // namespace

int gpu_count() {
  try {
    return device_count(the_driver());
  } catch (const device_error& e) {
    if (e.id() == "driver-missing") return 0;
    throw;
  }
}

std::unique_ptr<device::machine> open(int ordinal) {
  const driver& d = the_driver();
  const int count = device_count(d);
  if (ordinal < 0 || ordinal >= count) {
    raise(user_error({.id = "no-such-gpu",
                      .what = cat("gpu:", ordinal, " was asked for, the driver shows ", count, " GPUs"),
                      .because = "GPUs are numbered from 0 as the driver does (CUDA_VISIBLE_DEVICES hides some)",
                      .fix = {count > 0 ? cat("choose gpu:0 to gpu:", count - 1) : std::string("give the process access to a GPU, or run on the simulator")}}));
  }
  cu::device which = 0;
  check(d, d.device_get(&which, ordinal), "cuDeviceGet");
  return std::make_unique<gpu_machine>(std::make_shared<gpu_context>(d, which));
}

std::unique_ptr<device::machine> open_current() {
  const driver& d = the_driver();
  cu::context now = nullptr;
  cu::device which = 0;
  if (d.context_current(&now) != cu::success || !now) {
    raise(user_error({.id = "no-current-context",
                      .what = "this thread has no current CUDA context",
                      .because = "open_current works in the context that the caller has made current",
                      .fix = {"make a context current (cuCtxSetCurrent), or open a GPU by number: it works in the primary context"}}));
  }
  check(d, d.context_device(&which), "cuCtxGetDevice");
  return std::make_unique<gpu_machine>(std::make_shared<gpu_context>(d, which, now));
}

void enable_peer(device::machine& user, device::machine& owner) {
  gpu_machine &from = as_gpu(user), &to = as_gpu(owner);
  const driver& d = from.context()->d;
  const cu::device a = from.context()->device, b = to.context()->device;
  if (from.context()->handle == to.context()->handle) return;
  const auto refused = [&](const std::string& what) {
    raise(device_error({.id = "peer-access-unavailable",
                        .what = what,
                        .because = "kernels reach another GPU's memory only where NVLink, or PCIe with peer access, joins the two",
                        .fix = {"copy the data to the GPU that uses it", "check \"nvidia-smi topo -p2p r\""}}));
  };
  int can = 0;
  if (a != b) {
    check(d, d.can_access_peer(&can, a, b), "cuDeviceCanAccessPeer");
    if (!can) refused(cat("gpu:", a, " cannot reach the memory of gpu:", b));
  }
  const current scope(*from.context());
  const cu::result code = d.enable_peer(to.context()->handle, 0);
  if (code != cu::success && code != cu::error_peer_access_already_enabled) refused(cat("cuCtxEnablePeerAccess from gpu:", a, " to gpu:", b, " returned ", describe(d, code)));
}

gpu_machine::gpu_machine(std::shared_ptr<gpu_context> context) : context_(std::move(context)) {
  const driver& d = context_->d;
  const cu::device which = context_->device;
  context_->flights.set_limit(wait_limit_from_environment());

  const auto attribute = [&](int what) {
    int out = 0;
    check(d, d.device_attribute(&out, what, which), "cuDeviceGetAttribute");
    return out;
  };
  char name[256] = {};
  check(d, d.device_name(name, sizeof name - 1, which), "cuDeviceGetName");
  size_t memory = 0;
  check(d, d.device_memory(&memory, which), "cuDeviceTotalMem");
  const int major = attribute(cu::attribute_compute_major), minor = attribute(cu::attribute_compute_minor);
  about_.name = name;
  about_.target = cat("sm_", major, minor, major >= 9 ? "a" : "");
  about_.processor_count = attribute(cu::attribute_multiprocessor_count);
  about_.shared_bytes_per_block = attribute(cu::attribute_shared_per_block_optin);
  about_.memory_bytes = memory;

  nowhere_ = allocate(256);
  fill(nowhere_, 0, 256);
}

gpu_machine::~gpu_machine() {
  if (nowhere_) release(nowhere_);
}

device::address gpu_machine::allocate(std::size_t bytes) {
  const current scope(*context_);
  const driver& d = context_->d;
  cu::device_pointer where = 0;
  const cu::result code = d.memory_allocate(&where, std::max<std::size_t>(bytes, 1));  // the driver refuses 0; we owe a distinct address
  if (code == cu::error_out_of_memory) {
    size_t free_bytes = 0, total = 0;
    d.memory_info(&free_bytes, &total);
    raise(device_error({.id = "out-of-memory",
                        .what = cat("cannot allocate ", bytes, " bytes on ", about_.name, ": ", free_bytes, " of ", total, " bytes are free"),
                        .because = "GPU memory is shared with everything else on the device",
                        .fix = {"release buffers, or use a smaller problem"}}));
  }
  check(d, code, "cuMemAlloc", cat(bytes, " bytes"));
  return where;
}

void gpu_machine::release(device::address where) {
  reached_.forget();  // its pages may be somebody else's next time
  releases_.fetch_add(1, std::memory_order_release);
  try {
    const current scope(*context_);
    const cu::result code = context_->d.memory_release(where);
    if (code == cu::success || code == cu::error_deinitialized) return;  // deinitialised: the process is leaving, memory is gone already
    std::lock_guard lock(release_guard_);
    if (!failed_release_) failed_release_ = cat("cuMemFree(", hex(where), ") returned ", describe(context_->d, code));
  } catch (const error& e) {
    std::lock_guard lock(release_guard_);
    if (!failed_release_) failed_release_ = e.parts().what;
  }
}

// Copies and fills run on the default stream, which does not order with non-blocking streams: hence a full wait before. The stream wait after makes
// the copy complete on return (for pageable memory the driver returns when the source is staged).
void gpu_machine::write(device::address to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const current scope(*context_);
  finish("before a write");
  check(context_->d, context_->d.copy_to_device(to, from, bytes), "cuMemcpyHtoD", cat(bytes, " bytes to ", hex(to)));
  check(context_->d, context_->d.stream_synchronize(nullptr), "cuStreamSynchronize");
}

void gpu_machine::read(void* to, device::address from, std::size_t bytes) {
  if (bytes == 0) return;
  const current scope(*context_);
  finish("before a read");
  check(context_->d, context_->d.copy_to_host(to, from, bytes), "cuMemcpyDtoH", cat(bytes, " bytes from ", hex(from)));
}

void gpu_machine::fill(device::address to, std::uint8_t value, std::size_t bytes) {
  if (bytes == 0) return;
  const current scope(*context_);
  finish("before a fill");
  check(context_->d, context_->d.fill_bytes(to, value, bytes), "cuMemsetD8", cat(bytes, " bytes at ", hex(to)));
  check(context_->d, context_->d.stream_synchronize(nullptr), "cuStreamSynchronize");
}

// The driver knows every allocation that kernels of a context can use: of this GPU, of peers that were enabled, pinned and managed memory.
bool gpu_machine::reaches(device::address where, device::address& start, device::address& end) {
  if (reached_.holds(where, start, end)) return true;
  const current scope(*context_);
  const driver& d = context_->d;
  cu::device_pointer seen = 0, first = 0;
  size_t bytes = 0;
  if (d.pointer_attribute(&seen, cu::pointer_on_device, where) != cu::success) return false;
  start = where;
  end = where + 1;
  if (d.pointer_attribute(&first, cu::pointer_range_start, where) == cu::success && d.pointer_attribute(&bytes, cu::pointer_range_bytes, where) == cu::success) {
    start = first;
    end = first + bytes;
    reached_.add(start, end);
  }
  return true;
}

std::string gpu_machine::owner_of(device::address where) const {
  const current scope(*context_);
  int there = -1;
  if (context_->d.pointer_attribute(&there, cu::pointer_device_ordinal, where) != cu::success || there < 0) return "no memory that the driver knows: of the host, or released";
  if (there == context_->device) return cat("memory of another context of gpu:", there);
  return cat("memory of gpu:", there);
}

bool reaches(device::machine& m, device::address where) {
  auto* gpu = dynamic_cast<gpu_machine*>(&m);
  return !gpu || gpu->reaches(where);
}

void check_pointers(device::machine& m, const device::kernel& k, const std::vector<device::value>& arguments) {
  auto* gpu = typeid(m) == typeid(gpu_machine) ? static_cast<gpu_machine*>(&m) : nullptr;
  if (!gpu) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const device::value& v = arguments[i];
    bool empty = v.base == 0;
    for (const std::int64_t e : v.extents) empty = empty || e == 0;
    if (empty || gpu->reaches(v.base)) continue;
    raise(user_error({.id = "pointer-not-on-device",
                      .what = cat("argument \"", k.parameters[i].name, "\" is at ", hex(v.base), ", which is ", gpu->owner_of(v.base)),
                      .because = cat("kernels on gpu:", gpu->context()->device, " (", m.about().name, ") use memory that it can reach: its own, of enabled peers, pinned or managed"),
                      .fix = {"copy the data to the device: device::buffer and its write()", "data on another GPU: launch there, or enable_peer()"},
                      .context = cat("kernel \"", k.name, "\"")}));
  }
}

std::shared_ptr<device::module> gpu_machine::load(const device::image& code) { return std::make_shared<gpu_module>(context_, code, about_.target); }

void gpu_machine::finish(const char* what) {
  if (context_->flights.limited()) context_->flights.wait_for_all();
  const cu::result code = context_->d.context_synchronize();
  if (code == cu::success) return context_->watched_modules.look(true, context_->flights);
  const char* last = last_entry_.load(std::memory_order_relaxed);
  raise(device_error({.id = "kernel-failed",
                      .what = cat("waiting for the GPU ", what, ": cuCtxSynchronize returned ", describe(context_->d, code)),
                      .because = "a kernel launched earlier trapped or faulted; the context is lost for the rest of the process",
                      .fix = {"run the kernel on the simulator, which names the faulting access", "start a new process to use the GPU again"},
                      .context = last ? cat("last launch: kernel \"", last, "\"") : std::string("no launch by this machine")}));
}

void gpu_machine::wait() {
  const current scope(*context_);
  finish("(wait)");
  std::optional<std::string> failed;
  {
    std::lock_guard lock(release_guard_);
    failed.swap(failed_release_);
  }
  if (failed) {
    raise(device_error({.id = "release-failed",
                        .what = *failed,
                        .because = "an address was released twice, or was never allocated on this machine",
                        .fix = {"release each allocation once, on the machine it came from"}}));
  }
}

void set_wait_limit(device::machine& gpu, double seconds) { as_gpu(gpu).context()->flights.set_limit(checked_wait_limit(seconds, "set_wait_limit")); }

gpu_machine& as_gpu(device::machine& m) {
  if (auto* gpu = dynamic_cast<gpu_machine*>(&m)) return *gpu;
  raise(user_error({.id = "not-a-gpu",
                    .what = cat("machine \"", m.about().name, "\" is no GPU"),
                    .because = "streams, events, graphs and measured resources belong to the CUDA driver",
                    .fix = {"open a machine with tlx::runtime::open"}}));
}

}  // namespace tlx::runtime
