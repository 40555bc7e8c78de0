// Machines by name: "gpu", "gpu:1", "sim:sm_90a", "sim:sm_100a", "sim:sm_103a".
#pragma once
#include <memory>
#include <string>

#include "tlx/device/device.hpp"

namespace tlx::jit {

/// Raises user_error [machine-unknown], or what opening the machine raises.
std::unique_ptr<device::machine> open_machine(const std::string& name);

/// "gpu:0" when there is one that tlx supports, else "sim:sm_100a".
std::string default_machine();

}  // namespace tlx::jit
