// What every machine offers, a GPU behind the driver or the PTX simulator: memory, modules, launches. Plain data in, errors out.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tlx/device/watch.hpp"

namespace tlx::device {

/// An address in the machine's global memory, as a kernel sees it.
using address = std::uint64_t;

/// Element types a tensor map can name (the driver's enum and PTX's differ; each machine translates).
enum class map_element { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, tf32, f32_ftz, tf32_ftz, u4x16_align8, u4x16_align16, u6x16_align16 };

/// What to encode into a 128-byte tensor map. Dimension 0 is the innermost; strides in bytes, strides[0] is that of dimension 1
/// (dimension 0 is dense). An extent of 0 means that the tensor is empty: every access is out of bounds and `base` may be 0. Limits: docs of cuTensorMapEncodeTiled; a machine that refuses raises user_error [tensor-map-refused] and names the rule.
struct tensor_map {
  address base = 0;
  map_element element = map_element::u8;
  int rank = 1;
  std::array<std::uint64_t, 5> extents{1, 1, 1, 1, 1};
  std::array<std::uint64_t, 4> strides_bytes{};
  std::array<std::uint32_t, 5> box{1, 1, 1, 1, 1};
  std::array<std::uint32_t, 5> element_strides{1, 1, 1, 1, 1};
  int swizzle_bytes = 0;     // 0, 32, 64, 128
  int interleave_bytes = 0;  // 0, 16, 32
  bool oob_nan = false;      // fill for elements outside: zero or NaN
  int l2_promotion_bytes = 256;  // 0, 64, 128, 256
};

/// One kernel parameter: raw bytes (little-endian, as long as the parameter), or a tensor map the machine encodes.
using argument = std::variant<std::vector<std::byte>, tensor_map>;

template <class T>
argument scalar(T value) {
  static_assert(std::is_trivially_copyable_v<T>, "tlx: a kernel parameter is copied as bytes; its type must be trivially copyable");
  std::vector<std::byte> bytes(sizeof(T));
  __builtin_memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

struct extent3 { std::uint32_t x = 1, y = 1, z = 1; };

/// Everything a launch needs, as data. `stream` is the machine's own handle (a CUstream on a GPU); 0 is the default stream.
struct launch {
  extent3 grid, block, cluster;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<argument> arguments;
  std::uint64_t stream = 0;
  bool dependent = false;  // programmatic dependent launch
};

/// A compiled kernel image. A GPU prefers `cubin` and takes `ptx` otherwise; the simulator needs `ptx`.
struct image {
  std::string ptx;
  std::string cubin;
  watch_table watch = {};  // of a kernel that was compiled to be watched, else empty
};

struct properties {
  std::string name;            // "NVIDIA H200", "simulator"
  std::string target;          // "sm_90a", "sm_100a", ...
  int processor_count = 1;     // SMs
  int shared_bytes_per_block = 0;  // opt-in maximum, dynamic
  std::uint64_t memory_bytes = 0;
};

/// A loaded module; kernels are found by entry name. Dies with its last owner.
class module {
 public:
  virtual ~module() = default;
};

/// One machine. Calls may come from several threads. Every failure is an exception of tlx/support/error.hpp.
class machine {
 public:
  virtual ~machine() = default;
  virtual const properties& about() const = 0;

  virtual address allocate(std::size_t bytes) = 0;         // 256-byte aligned; 0 bytes gives a valid, distinct address
  virtual void release(address where) = 0;                 // never throws: what goes wrong here is raised by the next wait()
  virtual void write(address to, const void* from, std::size_t bytes) = 0;  // host to machine, complete on return
  virtual void read(void* to, address from, std::size_t bytes) = 0;         // machine to host, after all earlier work
  virtual void fill(address to, std::uint8_t value, std::size_t bytes) = 0;

  virtual std::shared_ptr<module> load(const image& code) = 0;
  // A grid with a zero extent is nothing to do, and does nothing.
  virtual void run(module& code, const std::string& entry, const launch& how) = 0;  // asynchronous on a GPU, complete on the simulator
  virtual void wait() = 0;                                  // all work done; raises what went wrong meanwhile

  /// Expires with the machine: for owners of its memory that may live longer.
  std::weak_ptr<const void> lifetime() const { return life_; }

 private:
  std::shared_ptr<const void> life_ = std::make_shared<char>();
};

/// Owns machine memory. One that outlives its machine (objects with static storage, say) releases nothing: the memory went with the machine or goes with the
/// process.
class buffer {
 public:
  buffer() = default;
  buffer(machine& owner, std::size_t bytes) : owner_(&owner), life_(owner.lifetime()), where_(owner.allocate(bytes)), bytes_(bytes) {}
  buffer(buffer&& other) noexcept { swap(other); }
  buffer& operator=(buffer&& other) noexcept { swap(other); return *this; }
  ~buffer() { if (owner_ && !life_.expired()) owner_->release(where_); }

  address where() const { return where_; }
  std::size_t size_bytes() const { return bytes_; }
  void write(const void* from, std::size_t bytes) { owner_->write(where_, from, bytes); }
  void read(void* to, std::size_t bytes) const { owner_->read(to, where_, bytes); }

 private:
  void swap(buffer& other) noexcept { std::swap(owner_, other.owner_); std::swap(life_, other.life_); std::swap(where_, other.where_); std::swap(bytes_, other.bytes_); }
  machine* owner_ = nullptr;
  std::weak_ptr<const void> life_;
  address where_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace tlx::device
