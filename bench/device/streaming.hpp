// The memory roof of a kernel that reads some arrays and writes others: a kernel that does nothing else, in several sizes. The fastest is the roof.
#pragma once
#include <string>
#include <vector>

#include "tlx/device/device.hpp"

namespace tlx::bench {

struct streaming_shape {
  int block = 512;     // threads
  int vectors = 2;     // of 16 bytes, for each thread and array, all loads before the first use
  bool keep = false;   // loads carry the evict-last hint
  int reads = 3, writes = 1;
  std::string name() const;
};

/// The shapes that are tried.
std::vector<streaming_shape> streaming_shapes(int reads, int writes);

/// Each result is the xor of all inputs, result j rotated by j bits in every 32: exact, so that every element can be checked.
std::string streaming_ptx(const streaming_shape& shape);

/// Inputs, then results; `bytes` of each array; a multiple of 16.
device::launch streaming_launch(const streaming_shape& shape, const std::vector<device::address>& arrays, std::uint64_t bytes, std::uint64_t stream);

}  // namespace tlx::bench
