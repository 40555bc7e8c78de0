// One compilation in a fresh process, stage by stage: what a program pays before its first launch.
#pragma once
#include <string>

#include "tlx/device/device.hpp"

namespace tlx::bench {

/// `kernel`: "gemm" or "attention". Prints one JSON object: milliseconds of each stage, of all together, and whether the cache answered.
/// Raises user_error [bench-cold].
void print_cold(device::machine& gpu, const std::string& kernel);

}  // namespace tlx::bench
