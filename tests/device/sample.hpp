// A kernel description for the tests: two matrices through tensor maps, one plain vector, one scalar.
#pragma once
#include "tests/support/error_of.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/device/kernel.hpp"
#include "tlx/support/error.hpp"

namespace sample {

using namespace tlx::device;

inline kernel gemm() {
  kernel k;
  k.name = "gemm";
  k.entry = "gemm_entry";
  k.target = "sm_90a";
  k.parameters = {{.name = "a", .what = parameter::kind::view, .element = "bf16", .element_bits = 16, .rank = 2, .align_bytes = 16},
                  {.name = "bias", .what = parameter::kind::view, .element = "f32", .element_bits = 32, .rank = 1, .align_bytes = 4},
                  {.name = "n", .what = parameter::kind::scalar, .element = "s32", .element_bits = 32}};
  k.maps = {{.parameter_index = 0, .element = map_element::bf16, .box = {64, 128}, .swizzle_bytes = 128}};
  k.grid_x = "(mul (ceil_div a.0 128) (ceil_div n 256))";
  k.block = {384, 1, 1};
  k.dynamic_shared_bytes = 200000;
  return k;
}

inline properties h200() {
  return {.name = "NVIDIA H200", .target = "sm_90a", .processor_count = 132, .shared_bytes_per_block = 232448, .memory_bytes = 1ull << 37};
}

using tlx::test::error_of;

}  // namespace sample
