// Turns arguments into launches of one kernel, again and again: formulas are parsed once and the launch's storage is reused.
#pragma once
#include <memory>
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::device {

/// What `bind` does, without its allocations after the first call. Not for use by two threads at once; make one each.
class binder {
 public:
  /// Raises internal_error [formula-malformed] or [map-malformed] for a kernel that contradicts itself, user_error [target-mismatch] and
  /// [shared-memory-exceeded] when `on` cannot run it.
  binder(const kernel& k, const properties& on);
  ~binder();
  binder(binder&&) noexcept;
  binder& operator=(binder&&) noexcept;

  /// The launch for these arguments, valid until the next call. Same checks and errors as `bind`.
  const launch& operator()(const std::vector<value>& arguments, std::uint64_t stream = 0);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Whether code for `target` ("sm_90", "sm_90a", "sm_100f") runs on a machine whose own target is `machine` ("sm_90a"). True when either is empty.
bool target_runs_on(const std::string& target, const std::string& machine);

/// Bits of one element of a tensor map.
int element_bits(map_element e);
const char* element_name(map_element e);

/// True when no element exists, so no access is legal and the address may be null.
bool is_empty(const tensor_map& map);

}  // namespace tlx::device
