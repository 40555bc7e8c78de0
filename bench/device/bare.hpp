// A kernel of tlx launched past it: the driver's calls and nothing else. What tlx's own launches are measured against.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/driver.hpp"
#include "tlx/device/kernel.hpp"

namespace tlx::bench {

class bare_kernel {
 public:
  /// Loads the cubin (or PTX) once more. The device's primary context must be current on this thread.
  bare_kernel(const device::kernel& k, const device::launch& how);
  ~bare_kernel();
  bare_kernel(const bare_kernel&) = delete;
  bare_kernel& operator=(const bare_kernel&) = delete;

  void launch();                                 // with the maps and arguments as they are
  void encode(int map, device::address base);    // map number `map` of the kernel, at another address
  void set_address(int argument, device::address base);  // the parameter itself

 private:
  void encode(size_t map);
  const runtime::driver& d_;
  device::launch how_;
  std::vector<runtime::cu::tensor_map> maps_;
  std::vector<void*> pointers_;
  runtime::cu::module module_ = nullptr;
  runtime::cu::function function_ = nullptr;
  runtime::cu::launch_attribute attributes_[2] = {};
  runtime::cu::launch_config config_{};
};

}  // namespace tlx::bench
