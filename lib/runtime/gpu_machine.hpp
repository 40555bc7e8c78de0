#pragma once
#include <atomic>
#include <mutex>
#include <optional>

#include "runtime/gpu_module.hpp"
#include "runtime/map_cache.hpp"
#include "runtime/reached.hpp"
#include "tlx/device/device.hpp"
#include "tlx/device/launcher.hpp"

namespace tlx::runtime {

class gpu_machine final : public device::machine, public device::makes_launchers {
 public:
  explicit gpu_machine(std::shared_ptr<gpu_context> context);
  ~gpu_machine() override;
  const device::properties& about() const override { return about_; }

  device::address allocate(std::size_t bytes) override;
  void release(device::address where) override;
  void write(device::address to, const void* from, std::size_t bytes) override;
  void read(void* to, device::address from, std::size_t bytes) override;
  void fill(device::address to, std::uint8_t value, std::size_t bytes) override;

  std::shared_ptr<device::module> load(const device::image& code) override;
  void run(device::module& code, const std::string& entry, const device::launch& how) override;
  void wait() override;
  std::unique_ptr<device::launcher> make_launcher(const device::kernel& k, std::shared_ptr<device::module> code) override;

  /// The driver's part of a launch, and what is remembered of it. The context is current. `how` is for messages, but for its stream. Raises device_error [launch-failed].
  void submit(gpu_module& code, gpu_function& f, const cu::launch_config& config, void** arguments, const device::launch& how);
  /// The maps among the arguments, in order.
  void encode(const device::launch& how, cu::tensor_map* maps);
  /// A map that was encoded before, at another address, which has the alignment of the one before.
  void encode_moved(const map_call& call, device::address base, cu::tensor_map& out) { maps_.encode_moved(context_->d, call, base, out); }
  /// How often memory was given back: what was known of addresses before is doubtful.
  std::uint64_t releases() const { return releases_.load(std::memory_order_acquire); }
  gpu_module& own(device::module& code) const;  // raises user_error [module-of-another-machine]
  void prepare(gpu_function& f, const device::launch& how);
  /// Other arguments and grid for a kernel of an instantiated graph. Raises device_error [launch-failed].
  void change(cu::graph_exec in, cu::graph_node which, device::module& code, const std::string& entry, const device::launch& how);
  /// Whether kernels of this context can use the address. Remembers allocations that they can, until memory is released.
  bool reaches(device::address where) {
    device::address start = 0, end = 0;
    return reaches(where, start, end);
  }
  /// And the allocation that it is in, if it can be told; else the address alone.
  bool reaches(device::address where, device::address& start, device::address& end);
  /// "memory of gpu:1" for a message about an address that they cannot.
  std::string owner_of(device::address where) const;
  const std::shared_ptr<gpu_context>& context() const { return context_; }
  std::uint64_t maps_encoded() const { return maps_.encoded(); }

 private:
  void finish(const char* what);  // everything done, or the error of what went wrong
  std::string foreign_stream(const device::launch& how) const;  // what is wrong with the stream, or nothing
  [[noreturn]] void launch_failed(cu::result code, const char* call, const gpu_function& f, const device::launch& how) const;

  std::shared_ptr<gpu_context> context_;
  device::properties about_;
  map_cache maps_;
  device::address nowhere_ = 0;                    // 256 zero bytes: what maps of empty tensors point at
  std::atomic<const char*> last_entry_{nullptr};
  reached_ranges reached_;
  std::atomic<std::uint64_t> releases_{0};
  std::mutex release_guard_;
  std::optional<std::string> failed_release_;      // first release that failed since the last wait
};

/// The numbers of a launch, for the driver; `attributes` has room for two and must stay.
cu::launch_config launch_config_of(const device::launch& how, cu::launch_attribute* attributes);

/// The GPU behind a machine; raises user_error [not-a-gpu].
gpu_machine& as_gpu(device::machine& m);

}  // namespace tlx::runtime
