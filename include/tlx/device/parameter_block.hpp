// Where each piece of a kernel's entry parameters lies: for people who launch a cubin by themselves.
#pragma once
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::device {

/// One entry parameter. The order is the contract of kernel.hpp: the maps, then for each parameter its pieces.
struct parameter_field {
  enum class kind { map, base, extent, stride, scalar };
  kind what = kind::scalar;
  int index = 0;      // of the map, or of the declared parameter
  int dimension = 0;  // extents and strides: of the view, outermost first
  std::uint32_t offset = 0, bytes = 0;  // offset from the first field: a cubin may keep the whole block at another place (sm_90a: 112 bytes on, before a map)
};

struct parameter_block {
  std::vector<parameter_field> fields;
  std::uint32_t bytes = 0;
};

/// Offsets as ptxas lays them out, from the first field on: every field at a multiple of its size, maps at one of 128.
parameter_block lay_out(const kernel& k);

/// "a.map", "a.address", "a.extent.0", "a.stride.0", "alpha"; a second map of one view is "a.map.1".
std::string field_name(const kernel& k, const parameter_field& field);

}  // namespace tlx::device
