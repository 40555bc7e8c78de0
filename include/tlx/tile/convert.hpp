// From one register layout to another: the cheapest way, and what it takes.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "tlx/tile/layout.hpp"
#include "tlx/tile/shared_tile.hpp"

namespace tlx::tile {

enum class conversion_kind : std::uint8_t {
  none,       // the registers are right as they are
  registers,  // every thread has what it needs, in other registers
  shuffle,    // every warp has what it needs, in other lanes
  shared      // write to shared memory, barrier, read
};

/// One warp shuffle: lane L offers register offer[L], takes from lane from[L] and keeps it in register into[L] (-1: keeps nothing).
struct shuffle_round {
  std::array<std::int16_t, warp_lanes> offer = {};
  std::array<std::int16_t, warp_lanes> from = {};
  std::array<std::int16_t, warp_lanes> into = {};
  /// True when no lane has to select: one register offered and one written by all.
  bool is_uniform() const {
    for (int l = 1; l < warp_lanes; ++l)
      if (offer[static_cast<unsigned>(l)] != offer[0] || into[static_cast<unsigned>(l)] != into[0]) return false;
    return true;
  }
};

struct conversion {
  conversion_kind kind = conversion_kind::none;
  /// registers, shuffle: new register i is old register source[i]; -1 where a shuffle brings it. The same in every thread.
  std::vector<std::int16_t> source = {};
  std::vector<shuffle_round> rounds = {};  // shuffle; the same in every warp
  /// shared: where the tile rests meanwhile, and how it is written and read.
  shared_tile scratch = {};
  int write_bytes = 0, read_bytes = 0;          // bytes per access
  int write_conflicts = 0, read_conflicts = 0;  // passes per phase, 1 is none
};

/// Plans the conversion of a tile of `type`. Both layouts place a tile of the same extents over the same number of warps;
/// raises user_error [layout-conversion-impossible] otherwise, and when the target holds other CTAs' elements.
/// The plan for `shared` picks among swizzles, row-major and transposed, the scratch with the fewest passes over the banks.
conversion plan(const layout& from, const layout& to, element type = element::f32);

}  // namespace tlx::tile
