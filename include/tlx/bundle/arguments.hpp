// Arguments with types, for the structs that `tlxc build --header` writes: one a kernel, each field as wide and of the rank that the kernel has.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::bundle {

/// A view of `Rank` dimensions; extents and strides in elements, outermost first. Strides of 0 in all dimensions: dense.
template <int Rank>
struct tensor {
  device::address data = 0;
  std::array<std::int64_t, Rank> extents{};
  std::array<std::int64_t, Rank> strides{};

  device::value value() const {
    const bool dense = strides == std::array<std::int64_t, Rank>{};
    return device::view_value(data, {extents.begin(), extents.end()}, dense ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{strides.begin(), strides.end()});
  }
};

/// A scalar whose element has no C++ type of its own (bf16, f16, 8-bit floats): its bits.
template <class Bits>
struct bits_of {
  Bits bits{};
};

template <int Rank> device::value value_of(const tensor<Rank>& t) { return t.value(); }
template <class Bits> device::value value_of(const bits_of<Bits>& b) { return device::scalar_value(b.bits); }
inline device::value value_of(float v) { return device::scalar_value(v); }
inline device::value value_of(double v) { return device::scalar_value(v); }
inline device::value value_of(std::int32_t v) { return device::scalar_value(v); }
inline device::value value_of(std::uint32_t v) { return device::scalar_value(v); }
inline device::value value_of(std::int64_t v) { return device::scalar_value(v); }
inline device::value value_of(std::uint64_t v) { return device::scalar_value(v); }

/// "a:bf16[2] b:bf16[2] alpha:f32": what a struct of arguments and a kernel must agree on.
std::string signature_of(const device::kernel& k);

}  // namespace tlx::bundle
