// The first day with a Blackwell GPU: what is not yet seen on one, asked question by question.
#pragma once
#include <string>

namespace tlx::bench {

/// Runs every probe and every Blackwell kernel of the library on `device` ("gpu:0", "sim:sm_100a"): probes against their readings, kernels against
/// float64 and against the simulator. Prints what differs; returns how many things did. Each probe runs in a process of its own on a GPU.
int bring_up(const std::string& device);

}  // namespace tlx::bench
