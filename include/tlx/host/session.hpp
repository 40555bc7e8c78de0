// Kernels compiled, loaded and ready to launch on one machine, each made once.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tlx/device/kernel.hpp"
#include "tlx/ir/kernel.hpp"

namespace tlx::host {

/// Traces a kernel for "sm_90a", ...
using kernel_maker = std::function<std::unique_ptr<ir::kernel>(const std::string& target)>;

/// Where a kernel came from, in the order in which they are asked.
enum class kernel_origin { bundle, cache, compiled };

struct session_options {
  /// Kernels that are there already, by name and target; nothing: not this one. For any number of threads at once.
  std::function<std::optional<device::kernel>(const std::string& name, const std::string& target)> bundle = {};
  double slow_seconds = 1;                               // a kernel that takes longer to get ready is a line in the log
  std::function<void(const std::string&)> log = {};      // standard error, if empty
};

struct session_counters {
  std::uint64_t bundle_hits = 0, bundle_misses = 0;  // misses: kernels that a bundle was asked for in vain
  std::uint64_t cache_hits = 0, compiled = 0;
};

/// For any number of threads. Outlives no machine.
class session {
 public:
  explicit session(device::machine& on, session_options how = {});
  ~session();
  device::machine& on() const;

  /// Launches the kernel called `name`, made by `make(target)` at its first use. A grid without CTAs launches nothing.
  void run(const std::string& name, const kernel_maker& make, const std::vector<device::value>& arguments, std::uint64_t stream = 0);

  /// Gets a kernel ready without launching it: bundle, cache or compiler, then loaded. Nothing: it was ready. Raises what compiling and loading raise.
  std::optional<kernel_origin> prepare(const std::string& name, const kernel_maker& make);
  /// Loads a kernel that was made elsewhere under its own name, unless there is one of that name.
  void adopt(const device::kernel& made);

  /// The compiled kernel, if it was made.
  const device::kernel* find(const std::string& name) const;
  session_counters counters() const;
  /// Wall milliseconds of the last time a kernel was made (trace to loaded module).
  double last_compile_ms() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tlx::host
