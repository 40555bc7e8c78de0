// The memory roof of a kernel that reads three arrays and writes one: a kernel that does nothing else, in several sizes. The fastest is the roof.
#pragma once
#include <string>
#include <vector>

#include "tlx/device/device.hpp"

namespace tlx::bench {

struct streaming_shape {
  int block = 512;     // threads
  int vectors = 2;     // of 16 bytes, for each thread and array, all loads before the first use
  bool keep = false;   // loads carry the evict-last hint
  std::string name() const;
};

/// The shapes that are tried.
std::vector<streaming_shape> streaming_shapes();

/// out = q ^ k ^ v, bit by bit: exact, so that every element can be checked.
std::string streaming_ptx(const streaming_shape& shape);

/// `bytes` of each array; a multiple of 16.
device::launch streaming_launch(const streaming_shape& shape, device::address q, device::address k, device::address v, device::address out, std::uint64_t bytes, std::uint64_t stream);

}  // namespace tlx::bench
