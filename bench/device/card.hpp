// What the benchmarks need of the driver and of NVML beyond device::machine: device-to-device copies, bare launches, clocks, power.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tlx/device/device.hpp"

namespace tlx::bench {

class card {
 public:
  /// Makes the device's primary context current on this thread. Raises device_error [bench-driver].
  explicit card(int ordinal);
  ~card();

  void copy(device::address to, device::address from, std::size_t bytes, std::uint64_t stream) const;

  /// A kernel loaded past tlx, to see what a launch costs without it. `arguments`: addresses of the parameters.
  void* load(const std::string& ptx, const std::string& entry) const;
  void launch(void* function, unsigned grid, unsigned block, void** arguments, std::uint64_t stream) const;

  std::string driver_version() const;  // "580.159.04"; empty without NVML
  double sm_clock_mhz() const;         // now; 0 without NVML
  double max_sm_clock_mhz() const;
  double memory_clock_mhz() const;
  double power_watts() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tlx::bench
