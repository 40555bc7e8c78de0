// Arguments with types, for the structs that `tlxc build --header` writes: one a kernel, each field as wide and of the rank that the kernel has.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tlx/device/launcher.hpp"

namespace tlx::bundle {

/// A view of `Rank` dimensions; extents and strides in elements, outermost first. Strides of 0 in all dimensions: dense.
template <int Rank>
struct tensor {
  device::address data = 0;
  std::array<std::int64_t, Rank> extents{};
  std::array<std::int64_t, Rank> strides{};

  bool dense() const { return strides == std::array<std::int64_t, Rank>{}; }
};

/// A scalar whose element has no C++ type of its own (bf16, f16, 8-bit floats): its bits.
template <class Bits>
struct bits_of {
  Bits bits{};
};

/// What a launch reads: the struct's own fields, which must stay while it does.
template <int Rank>
device::value_ref refer(const tensor<Rank>& t) {
  return {.base = t.data, .extents = t.extents.data(), .strides = t.strides.data(), .rank = Rank, .stride_count = t.dense() ? 0u : static_cast<std::uint32_t>(Rank)};
}
template <class Scalar>
  requires std::is_trivially_copyable_v<Scalar>
device::value_ref refer(const Scalar& v) {
  return {.bytes = reinterpret_cast<const std::byte*>(&v), .byte_count = sizeof v};
}

/// "a:bf16[2] b:bf16[2] alpha:f32": what a struct of arguments and a kernel must agree on.
std::string signature_of(const device::kernel& k);

}  // namespace tlx::bundle
