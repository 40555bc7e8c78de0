// One kernel on one machine, launched again and again: what repeats is laid out once, and a launch looks only for what has changed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::device {

/// A device::value that stays where its owner keeps it: reading it copies and allocates nothing.
struct value_ref {
  address base = 0;
  const std::int64_t* extents = nullptr;  // `rank` of them, outermost first
  const std::int64_t* strides = nullptr;  // `stride_count` of them, elements; 0: dense row-major
  const std::byte* bytes = nullptr;       // of a scalar, `byte_count` of them
  std::uint32_t rank = 0, stride_count = 0, byte_count = 0;
};

inline value_ref refer(const value& v) {
  return {.base = v.base, .extents = v.extents.data(), .strides = v.strides.data(), .bytes = v.bytes.data(), .rank = static_cast<std::uint32_t>(v.extents.size()),
          .stride_count = static_cast<std::uint32_t>(v.strides.size()), .byte_count = static_cast<std::uint32_t>(v.bytes.size())};
}
/// Copies into a value that may have room already.
void copy(const value_ref& from, value& into);

/// For any number of threads.
class launcher {
 public:
  virtual ~launcher() = default;
  /// Checks the arguments, which are in the order of the kernel's parameters, and launches: asynchronous on a GPU. A grid without CTAs launches nothing. Raises what bind(),
  /// runtime::check_pointers() and machine::run() raise. On a GPU a launch with the shapes of this thread's last one allocates nothing, and encodes a tensor map only for an address that is new.
  virtual void launch(const value_ref* arguments, std::size_t count, std::uint64_t stream) = 0;
  void launch(const std::vector<value>& arguments, std::uint64_t stream);
};

/// A machine with a launcher of its own kind is one of these too.
class makes_launchers {
 public:
  virtual std::unique_ptr<launcher> make_launcher(const kernel& k, std::shared_ptr<module> code) = 0;

 protected:
  ~makes_launchers() = default;
};

/// A launcher of `k`, which was loaded on `on` as `code`; both the machine and `k` (its names are in messages) outlive it. Raises what the constructor of binder raises, and on a GPU
/// [entry-missing] and [launch-failed] when its shared memory cannot be had.
std::unique_ptr<launcher> make_launcher(machine& on, const kernel& k, std::shared_ptr<module> code);

}  // namespace tlx::device
