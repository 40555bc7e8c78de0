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

/// Square matrices, alone or two, with NaN between their rows. Of 264: more K tiles than stages in 16 bits, several tiles for the one processor, tails
/// everywhere. Jagged kernels get four sequences in 200 tokens. Normal numbers of each element type, so that no shift, stride or exchange of operands
/// finds the same values again.
std::vector<input> inputs_of(const ir::kernel& k, std::int64_t extent = 264);
/// Copies them to a machine, into buffers that `on` keeps.
std::vector<device::value> put(const std::vector<input>& inputs, device::machine& m, std::vector<device::buffer>& on);

}  // namespace tlx::mutation
