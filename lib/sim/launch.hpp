// One launch, on one thread or several, and what it came to.
#pragma once
#include "sim/state.hpp"

namespace tlx::sim {

struct launch_result {
  std::uint64_t warp_instructions = 0, lane_instructions = 0;
  std::vector<std::string> lints, printed;
  std::optional<fault_report> fault;
  std::set<std::pair<int, std::uint32_t>> barrier_lines;  // as in statistics, with options::trace
  std::map<std::uint32_t, std::uint64_t> barrier_phases;
  std::map<int, std::uint64_t> lines_run;
  std::set<int> lines_guarded;
};
launch_result run_launch(global_memory& memory, const program& code, const launch_shape& shape, const std::vector<std::byte>& parameters, const options& how, int sm);

}  // namespace tlx::sim
