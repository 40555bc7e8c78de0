// GPUs behind the CUDA driver as device::machine, and what only a GPU has: streams, events, graphs. Needs no CUDA toolkit, and a driver only when used.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "tlx/device/device.hpp"
#include "tlx/device/kernel.hpp"

namespace tlx::runtime {

/// GPUs that `open` can open: 0 without a driver. Raises device_error [driver-failed] when there is a driver that does not start.
int gpu_count();

/// One GPU, in its primary context (shared with the CUDA runtime and other libraries of the process). Whatever context the caller has current
/// stays current. Raises device_error [driver-missing], [driver-too-old], [driver-failed], or user_error [no-such-gpu].
/// Launches: [launch-failed] with the call, the kernel and its numbers; [tensor-map-refused]; [entry-missing]; [module-rejected] with the log.
std::unique_ptr<device::machine> open(int ordinal);

/// The GPU of the calling thread's current context, in that context (cuCtxCreate) and not the primary one. The context must outlive the machine and what is
/// made on it. Raises user_error [no-current-context].
std::unique_ptr<device::machine> open_current();

/// From now on kernels on `user` may use the memory of `owner`, another GPU. Raises device_error [peer-access-unavailable].
void enable_peer(device::machine& user, device::machine& owner);

/// What the driver knows of a loaded kernel: registers, local bytes, static shared bytes, and the advisories of its own assembler for PTX.
device::resources measure(device::machine& gpu, device::module& code, const std::string& entry);

/// Looks the entry up, loads its code and sets its shared memory limit, so that its first launch does nothing but launch.
void prepare(device::machine& gpu, device::module& code, const std::string& entry, std::uint32_t dynamic_shared_bytes);

/// Whether kernels on this machine can use an address: memory of the GPU itself, of peers that were enabled, pinned or managed. True for machines
/// that are no GPU.
bool reaches(device::machine& m, device::address where);

/// Raises user_error [pointer-not-on-device] for a view that kernels on this machine cannot use, and says whose memory it is. Asks the driver once for each
/// address. Does nothing for machines that are no GPU.
void check_pointers(device::machine& m, const device::kernel& k, const std::vector<device::value>& arguments);

/// Tensor maps encoded so far: stays put while launches repeat with the same recipes.
std::uint64_t maps_encoded(device::machine& gpu);

/// From now on every wait for this GPU (also those of streams, events, and before copies) raises device_error [wait-limit] after so many seconds and
/// names the kernels that have not finished. Nothing is stopped: a later wait may find them done. Costs one event a launch. 0: no limit. A machine
/// starts with TLX_WAIT_SECONDS, or without a limit. Holds for this machine, its streams and events. Raises user_error [wait-limit-invalid].
void set_wait_limit(device::machine& gpu, double seconds);

struct gpu_context;  // the retained primary context

class event;

/// An instantiated graph. Made by stream::end_capture.
class graph {
 public:
  graph(graph&& other) noexcept;
  graph& operator=(graph&& other) noexcept;
  ~graph();
  void launch(std::uint64_t stream_handle);  // asynchronous

  /// Kernels that machine::run recorded, on the captured stream and on those that joined it.
  size_t kernel_count() const;
  /// Gives recorded kernel `index` (in the order of recording) other arguments and another grid: `how` is a launch of the same kernel with the block, the
  /// cluster and `dependent` that were recorded. Holds for launches of the graph from now on. Raises user_error [graph-kernel-index], device_error [launch-failed].
  void update(size_t index, device::machine& gpu, device::module& code, const std::string& entry, const device::launch& how);

 private:
  friend class stream;
  graph();
  struct state;
  std::unique_ptr<state> state_;
};

/// A stream that does not wait for the default stream. `handle()` is its CUstream, for device::launch::stream.
class stream {
 public:
  explicit stream(device::machine& gpu);  // raises user_error [not-a-gpu] for another kind of machine
  stream(stream&& other) noexcept;
  stream& operator=(stream&& other) noexcept;
  ~stream();
  std::uint64_t handle() const;
  void wait();           // all work on this stream done; raises what went wrong
  void wait_for(const event& point);  // work that is put on this stream from here on starts behind the recorded point; the host does not wait
  void begin_capture();  // launches on this stream are recorded from here
  graph end_capture();

 private:
  std::shared_ptr<gpu_context> context_;
  void* handle_ = nullptr;
};

/// A point in a stream's work, with its time.
class event {
 public:
  explicit event(device::machine& gpu);
  event(event&& other) noexcept;
  event& operator=(event&& other) noexcept;
  ~event();
  void record(std::uint64_t stream_handle = 0);
  void wait();
  float ms_since(const event& start) const;  // both recorded and reached

 private:
  friend class stream;
  std::shared_ptr<gpu_context> context_;
  void* handle_ = nullptr;
};

}  // namespace tlx::runtime
