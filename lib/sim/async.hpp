// The decoded form of asynchronous copies.
#pragma once
#include <vector>

#include "sim/state.hpp"
#include "sim/units/tensor_map.hpp"

namespace tlx::sim {

struct operand_address { std::uint32_t slot = no_slot; bool wide = true; std::int64_t offset = 0; space where = space::generic; };

struct copy_detail {
  space to = space::generic, from = space::generic;
  operand_address destination, source, barrier, map;
  std::uint32_t size = no_slot, mask = no_slot, byte_mask = no_slot;
  std::vector<std::uint32_t> coordinates;  // slots; st.async: the values
  int tensor_rank = 0;
  bool rows4 = false, to_barrier = false, multicast = false, reduce = false;
  int cta_group = 1;
  reduce_op op = reduce_op::add;
  reduce_type type = reduce_type::u32;
  map_field field = map_field::rank;
  int ordinal = 0;
};

inline std::uint64_t value_of(warp& w, const operand_address& a, int lane) {
  return a.wide ? w.slot<std::uint64_t>(a.slot)[lane] + static_cast<std::uint64_t>(a.offset)
                : static_cast<std::uint32_t>(w.slot<std::uint32_t>(a.slot)[lane] + static_cast<std::uint64_t>(a.offset));
}

}  // namespace tlx::sim
