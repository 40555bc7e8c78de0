// Times of several implementations of one job: interleaved in one process, in a new random order every round, inputs rotated so that no launch
// finds its own in the L2 cache.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/device/card.hpp"
#include "tlx/device/device.hpp"
#include "tlx/runtime/gpu.hpp"

namespace tlx::bench {

struct contender {
  std::string name;
  std::function<void(int set, std::uint64_t stream)> launch;
};

struct timing {
  double ms_p50 = 0, ms_p99 = 0;
};

struct rounds {
  int count = 31;
  int sets = 1;            // input sets to rotate over
  double ms_each = 3;      // how long one contender runs in one round, about
  double warm_up_ms = 150; // all together, before the first round
};

struct conditions {
  double sm_clock_mhz = 0, power_watts = 0;  // medians while the rounds ran
};

/// One timing for each contender. Nobody waits for the GPU between contenders, so it stays busy through a round.
std::vector<timing> interleave(device::machine& gpu, const card& of, const std::vector<contender>& all, const rounds& how, std::uint64_t seed, conditions* seen = nullptr);

/// Median milliseconds of one contender, alone.
double quick_ms(device::machine& gpu, const card& of, const contender& one, int sets);

}  // namespace tlx::bench
