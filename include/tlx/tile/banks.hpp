// Shared memory banks: how wide a thread's accesses to a shared tile may be, and how often lanes collide.
// Model: 32 banks of 4 bytes; accesses of 8 and 16 bytes go in halves and quarters of a warp; equal words merge.
#pragma once
#include "tlx/tile/layout_ops.hpp"
#include "tlx/tile/shared_tile.hpp"

namespace tlx::tile {

/// The widest access (1 to 16 bytes) whose elements are neighbouring registers and neighbouring aligned bytes in every thread.
constexpr int widest_access(const layout& l, const shared_tile& t) {
  const int along = t.transposed ? contiguous_columns(transposed(l)) : contiguous_columns(l);
  int bytes = along * bits(t.type) / 8;
  if (bytes > 16) bytes = 16;
  while (bytes > 1 && t.chunk_width_bytes() % bytes != 0) bytes /= 2;
  return bytes < 1 ? 1 : bytes;
}

/// Passes that the slowest access of `warp` needs per phase: 1 is free of conflicts. 0 when the warp cannot access the
/// tile in such vectors (wider than widest_access, narrower than an element).
constexpr int bank_conflicts(const layout& l, const shared_tile& t, int vector_bytes, int warp) {
  const int each = vector_bytes * 8 / bits(t.type);
  if (each < 1 || vector_bytes > widest_access(l, t) || l.register_count() % each != 0) return 0;
  const int phase_lanes = vector_bytes <= 4 ? warp_lanes : 128 / vector_bytes;
  int worst = 0;
  for (int r = 0; r < l.register_count(); r += each)
    for (int start = 0; start < warp_lanes; start += phase_lanes) {
      std::array<std::int32_t, warp_lanes * 4> words = {};
      std::array<std::int8_t, warp_lanes> load = {};
      int count = 0;
      for (int lane = start; lane < start + phase_lanes; ++lane) {
        const int address = t.offset(l.at(r, lane, warp));
        for (int word = address / 4; word <= (address + vector_bytes - 1) / 4; ++word) {
          bool known = false;
          for (int i = 0; i < count && !known; ++i) known = words[static_cast<unsigned>(i)] == word;
          if (known) continue;
          words[static_cast<unsigned>(count++)] = word;
          const int passes = ++load[static_cast<unsigned>(word % warp_lanes)];
          worst = passes > worst ? passes : worst;
        }
      }
    }
  return worst;
}

/// The same over all warps of block 0.
constexpr int bank_conflicts(const layout& l, const shared_tile& t, int vector_bytes) {
  int worst = 0;
  for (int w = 0; w < l.warp_count(); ++w) {
    const int c = bank_conflicts(l, t, vector_bytes, w);
    if (c == 0) return 0;
    worst = c > worst ? c : worst;
  }
  return worst;
}

}  // namespace tlx::tile
