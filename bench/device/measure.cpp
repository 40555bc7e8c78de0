#include "bench/device/measure.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "bench/support/report.hpp"

namespace tlx::bench {

std::vector<timing> interleave(device::machine& gpu, const card& of, const std::vector<contender>& all, const rounds& how, std::uint64_t seed, conditions* seen) {
  runtime::stream stream(gpu);
  const std::size_t count = all.size();
  std::vector<runtime::event> starts, stops;
  for (std::size_t i = 0; i < count; ++i) starts.emplace_back(gpu), stops.emplace_back(gpu);
  std::vector<int> next(count, 0), repeats(count, 4);
  const auto launch = [&](std::size_t i) { all[i].launch(next[i]++ % how.sets, stream.handle()); };
  // Its own first launch is not timed: the GPU works on it while the host gets ahead.
  const auto enqueue = [&](std::size_t i) {
    launch(i);
    starts[i].record(stream.handle());
    for (int r = 0; r < repeats[i]; ++r) launch(i);
    stops[i].record(stream.handle());
  };
  const auto ms = [&](std::size_t i) { return static_cast<double>(stops[i].ms_since(starts[i])) / repeats[i]; };

  for (std::size_t i = 0; i < count; ++i) launch(i);  // code is loaded, workspaces are made
  stream.wait();
  double warm = 0;
  for (std::size_t i = 0; i < count; ++i) {
    enqueue(i);
    stops[i].wait();
    const double one = std::max(ms(i), 1e-4);
    warm += one * repeats[i];
    repeats[i] = std::clamp(static_cast<int>(how.ms_each / one), 1, 4000);
  }
  while (warm < how.warm_up_ms) {
    for (std::size_t i = 0; i < count; ++i) enqueue(i);
    stream.wait();
    for (std::size_t i = 0; i < count; ++i) warm += std::max(ms(i), 1e-3) * repeats[i];
  }

  std::mt19937_64 bits(seed);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::vector<double>> samples(count);
  std::vector<double> clocks, watts;
  for (int round = 0; round < how.count; ++round) {
    std::shuffle(order.begin(), order.end(), bits);
    for (const std::size_t i : order) enqueue(i);
    if (seen && round % 4 == 3) {
      clocks.push_back(of.sm_clock_mhz());
      watts.push_back(of.power_watts());
    }
    stream.wait();
    for (std::size_t i = 0; i < count; ++i) samples[i].push_back(ms(i));
  }
  std::vector<timing> out;
  for (const auto& s : samples) out.push_back({quantile(s, 0.5), quantile(s, 0.99)});
  if (seen) *seen = {quantile(clocks, 0.5), quantile(watts, 0.5)};
  return out;
}

double quick_ms(device::machine& gpu, const card& of, const contender& one, int sets) {
  return interleave(gpu, of, {one}, {.count = 7, .sets = sets, .ms_each = 2, .warm_up_ms = 5}, 1)[0].ms_p50;
}

}  // namespace tlx::bench
