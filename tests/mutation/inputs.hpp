// Arguments for any kernel of ours, made from its parameters alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tlx/device/device.hpp"
#include "tlx/device/kernel.hpp"
#include "tlx/ir/kernel.hpp"

namespace tlx::mutation {

struct input {
  bool view = false;
  std::vector<std::int64_t> extents, strides;
  std::vector<std::byte> bytes;
};

/// Square matrices of 264 with NaN between their rows: more K tiles than stages, several tiles for the one processor, tails everywhere. Ascending whole
/// numbers, normal floats.
std::vector<input> inputs_of(const ir::kernel& k);
/// Copies them to a machine, into buffers that `on` keeps.
std::vector<device::value> put(const std::vector<input>& inputs, device::machine& m, std::vector<device::buffer>& on);

}  // namespace tlx::mutation
