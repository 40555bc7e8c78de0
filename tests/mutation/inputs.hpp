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

/// Matrices of M x K, K x N and M x N numbers, alone or two, with NaN between their rows. With 264 everywhere: more K tiles than stages in 16 bits, several tiles
/// for the one processor, tails everywhere. Attention gets m queries and k + 72 keys; jagged kernels a few sequences, one of NaN. Normal numbers of each element
/// type, so that no shift, stride or exchange of operands finds the same values again.
struct sizes { std::int64_t m = 264, n = 264, k = 264; };
std::vector<input> inputs_of(const ir::kernel& k, const sizes& of = {});
/// Copies them to a machine, into buffers that `on` keeps.
std::vector<device::value> put(const std::vector<input>& inputs, device::machine& m, std::vector<device::buffer>& on);

}  // namespace tlx::mutation
