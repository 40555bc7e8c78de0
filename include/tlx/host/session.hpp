// Kernels compiled, loaded and ready to launch on one machine, each made once.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/device/kernel.hpp"
#include "tlx/ir/kernel.hpp"

namespace tlx::host {

/// Not for two threads at once; make one each. Outlives no machine.
class session {
 public:
  explicit session(device::machine& on);
  ~session();
  device::machine& on() const;

  /// Launches the kernel called `name`, made by `make(target)` at its first use. A grid without CTAs launches nothing.
  void run(const std::string& name, const std::function<std::unique_ptr<ir::kernel>(const std::string& target)>& make, const std::vector<device::value>& arguments,
           std::uint64_t stream = 0);

  /// At least `bytes` of device memory for what the kernels of one call hand to each other, the same for every call on `stream`: calls on one stream run
  /// one after the other. Lives as long as the session. The first call that needs more allocates, which a stream that is being captured does not allow.
  /// `which`: another place for each number.
  device::address workspace(std::size_t bytes, std::uint64_t stream, int which = 0);

  /// The compiled kernel, if it was made.
  const device::kernel* find(const std::string& name) const;
  /// Wall milliseconds of the last compilation (trace to loaded module).
  double last_compile_ms() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tlx::host
