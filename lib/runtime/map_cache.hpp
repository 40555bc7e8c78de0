// Encoded tensor maps by recipe, so that a launch with unchanged pointers and shapes encodes nothing.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "runtime/driver.hpp"
#include "tlx/device/device.hpp"

namespace tlx::runtime {

/// What the driver is asked for a map, but for its address.
struct map_call {
  std::array<std::uint64_t, 5> extents;
  std::array<std::uint64_t, 4> strides_bytes;
  std::array<std::uint32_t, 5> box, element_strides;
  int element, rank, interleave, swizzle, promotion, fill;
  /// Raises user_error [tensor-map-refused] for a choice that there is not.
  explicit map_call(const device::tensor_map& recipe);
};

class map_cache {
 public:
  /// For the calls of encode() of one launch.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(guard_); }

  /// Copies the encoded map of `recipe` to `out`. `nowhere` is 256 zero bytes that stand in for an empty tensor.
  /// Raises user_error [tensor-map-refused] naming the rule that `recipe` breaks. The caller holds the cache.
  void encode(const driver& d, const device::tensor_map& recipe, device::address nowhere, cu::tensor_map& out);

  /// The map of a recipe that was encoded before, at another address: no look at the rules, and nothing is kept. Needs no hold().
  void encode_moved(const driver& d, const map_call& call, device::address base, cu::tensor_map& out);

  std::uint64_t encoded() const { return encoded_.load(std::memory_order_relaxed); }

 private:
  struct slot {
    bool used = false;
    device::tensor_map recipe;
    cu::tensor_map encoded;
  };
  static constexpr size_t ways = 4, sets = 64;  // 256 maps, 80 KiB a machine
  std::mutex guard_;
  std::array<std::array<slot, ways>, sets> slots_;
  std::array<std::uint8_t, sets> next_way_{};
  std::atomic<std::uint64_t> encoded_{0};
};

}  // namespace tlx::runtime
