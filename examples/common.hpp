// What every example needs and none is about: a machine by name, arrays on it, a comparison that says where it failed.
#pragma once
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tlx/device/device.hpp"
#include "tlx/device/kernel.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/tile/element.hpp"

namespace examples {

/// "gpu", "gpu:1", "sim:sm_90a", ... The simulated chip has two SMs, so that a persistent kernel has several tiles for each CTA.
inline std::unique_ptr<tlx::device::machine> open(std::string name, std::uint64_t seed = 1) {
  if (name.empty()) name = tlx::runtime::gpu_count() > 0 ? "gpu" : "sim:sm_100a";
  if (name.rfind("sim:", 0) == 0) return tlx::sim::open(name.substr(4), {.seed = seed, .processor_count = 2});
  return tlx::runtime::open(name.rfind("gpu:", 0) == 0 ? std::stoi(name.substr(4)) : 0);
}

/// The value that follows `word` on the command line, or nothing.
inline std::string option(int argc, char** argv, const std::string& word) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == word) return argv[i + 1];
  return {};
}

/// Runs an example on the machine that --device names; --seed picks another legal order of events on a simulated one. `body` says whether its result is right.
inline int main(int argc, char** argv, const std::function<bool(tlx::device::machine&)>& body) {
  try {
    const std::string seed = option(argc, argv, "--seed");
    const auto machine = open(option(argc, argv, "--device"), seed.empty() ? 1 : std::stoull(seed));
    std::printf("on %s (%s)\n", machine->about().name.c_str(), machine->about().target.c_str());
    const bool right = body(*machine);
    std::puts(right ? "right" : "WRONG");
    return right ? 0 : 1;
  } catch (const tlx::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

/// Values on the host and the same values on a machine.
template <class T>
class array {
 public:
  array(tlx::device::machine& m, std::vector<T> values) : host(std::move(values)), on_(m, host.size() * sizeof(T)) { on_.write(host.data(), host.size() * sizeof(T)); }
  array(tlx::device::machine& m, std::size_t count, T value) : array(m, std::vector<T>(count, value)) {}

  tlx::device::value view(std::vector<std::int64_t> extents) const { return tlx::device::view_value(on_.where(), std::move(extents)); }
  tlx::device::address where() const { return on_.where(); }
  const std::vector<T>& fetch() {
    on_.read(host.data(), host.size() * sizeof(T));
    return host;
  }
  std::vector<T> host;

 private:
  tlx::device::buffer on_;
};

/// Normal values; the same on every run.
template <class T>
std::vector<T> random_values(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(T(normal(bits)));
  return values;
}

/// True when every element is within `relative` of what is expected, or within `absolute`. Says where the first is not. NaN equals nothing.
template <class T>
bool same(const std::vector<T>& got, const std::vector<double>& expected, double relative, double absolute = 0) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = std::abs(static_cast<double>(static_cast<float>(got[i])) - expected[i]);
    if (!(off <= relative * std::abs(expected[i]) + absolute)) {
      std::printf("element %zu is %g, expected %g\n", i, static_cast<double>(static_cast<float>(got[i])), expected[i]);
      return false;
    }
    worst = std::max(worst, off);
  }
  std::printf("%zu elements agree with the plain loop, largest difference %.2g\n", expected.size(), worst);
  return true;
}

/// What a compiled kernel needs, in one line.
inline void describe(const tlx::device::kernel& k) {
  std::printf("kernel %s: %u threads a CTA, %u bytes of shared memory, %zu tensor maps\n", k.name.c_str(), k.block.x, k.dynamic_shared_bytes, k.maps.size());
}

}  // namespace examples
