// Run-time budget checks: each returns an empty text, or one sentence with what is needed, what there is and by how much.
#pragma once
#include <string>
#include <vector>

#include "tlx/tile/limits.hpp"

namespace tlx::tile {

/// Warps that share one register count (a packed warpgroup or a role): setmaxnreg speaks for whole warpgroups.
struct register_share {
  std::string role = {};
  int warps = 0;
  int registers_per_thread = 0;
};

/// The limits of a target; raises user_error [target-unknown] with the supported names.
limits require_target(std::string_view target);

std::string check_shared_memory(const limits& l, long bytes);
std::string check_tensor_memory(const limits& l, int columns);
std::string check_threads(const limits& l, int threads);
std::string check_named_barriers(const limits& l, int count);
/// setmaxnreg: multiples of 8 from 24 to 256, and all shares together within the registers the CTA started with
/// (entry registers per thread times its threads).
std::string check_registers(const limits& l, const std::vector<register_share>& shares, int entry_registers_per_thread);

}  // namespace tlx::tile
