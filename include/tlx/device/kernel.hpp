// A compiled kernel as plain data: code, parameters, tensor maps to encode, grid rule. What the JIT makes, a bundle stores and a machine launches.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tlx/device/device.hpp"

namespace tlx::device {

/// One parameter as the kernel's author declared it. Element names are those of tlx/tile/element.hpp ("bf16", "f32", "s32", ...).
struct parameter {
  enum class kind { view, scalar };
  std::string name = {};
  kind what = kind::scalar;
  std::string element = {};
  int element_bits = 32;
  int rank = 0;           // views only
  int align_bytes = 1;    // views only: what the code relies on for the base address and for every stride but the innermost (which must be 1)
};

/// A 128-byte tensor map to encode at launch from view parameter `parameter_index`: extents and strides are the view's, the rest is fixed.
/// Map dimension 0 is the view's last (innermost) dimension.
struct map_rule {
  int parameter_index = 0;
  map_element element = map_element::bf16;
  std::vector<std::uint32_t> box;  // innermost first, one per dimension of the view
  int swizzle_bytes = 128;
  int l2_promotion_bytes = 256;
  bool stored = false;  // a bulk copy writes through it: whole 16-byte pieces of the innermost dimension, seen on an H200, so its extent must be made of them
};

/// An s-expression over the arguments, evaluated on the host in 64-bit integers. Atoms: integers, `processors` (SMs of the machine),
/// `NAME` (a scalar), `NAME.0` (extent of dimension 0 of a view). Forms: (add a b) (sub a b) (mul a b) (div a b) (ceil_div a b) (min a b) (max a b).
/// div rounds down and ceil_div rounds up, whatever the signs.
using formula = std::string;

/// What the assembler said of the code; -1 where nobody measured.
struct resources {
  int registers = -1, spill_bytes = -1, stack_bytes = -1, static_shared_bytes = -1;
  std::vector<std::string> advisories;  // C75xx and other lines that matter, verbatim
  std::string assembler;                // "ptxas 13.0.88", "driver 580.159", ...
};

/// Entry parameters in PTX order: the maps (128 bytes each, 128-byte aligned), then per parameter: a scalar as itself; a view as its address (u64),
/// its extents (s32 each, outermost first), its strides in elements but the innermost's (s64 each, outermost first).
struct kernel {
  std::string name, entry, target;  // "gemm_bf16_128x256x64", PTX entry, "sm_90a"
  image code;
  std::vector<parameter> parameters;
  std::vector<map_rule> maps;
  formula grid_x = "1", grid_y = "1", grid_z = "1";
  extent3 block, cluster;
  std::uint32_t dynamic_shared_bytes = 0;
  int blocks_per_processor = 1;
  bool dependent = false;  // the code waits for the kernel before it (griddepcontrol.wait), so it may be started while that one ends
  resources used;
};

/// A run-time argument for one parameter.
struct value {
  // views
  address base = 0;
  std::vector<std::int64_t> extents = {};  // outermost first
  std::vector<std::int64_t> strides = {};  // elements, outermost first; empty means dense row-major
  // scalars: raw bytes, little-endian
  std::vector<std::byte> bytes = {};
};

template <class T> value scalar_value(T v) { return value{.bytes = std::get<std::vector<std::byte>>(scalar(v))}; }
value view_value(address base, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides = {});

/// Evaluates a formula; raises internal_error [formula-malformed], user_error [formula-overflow] or [formula-divides-by-zero].
std::int64_t evaluate(const formula& f, const kernel& k, const std::vector<value>& arguments, int processors);

/// Checks the arguments against the kernel's parameters and makes the launch. Raises user_error: argument-count, argument-rank, argument-size,
/// extent-negative, extent-too-large (over 2^31-1), stride-not-dense, pointer-null, pointer-misaligned, stride-misaligned (names tensor, dimension,
/// bytes and the 16-byte rule), view-too-large, stride-negative, stride-too-large, extent-misaligned, grid-negative, grid-too-large,
/// grid-not-whole-clusters, target-mismatch, block-too-large, shared-memory-exceeded. Strides of dimensions with at most one element are
/// ignored; an empty view may have a null address and its map keeps the extent 0. To bind again and again: binder.hpp. A grid with a zero extent is allowed here (`grid.x == 0`): callers skip the launch.
launch bind(const kernel& k, const std::vector<value>& arguments, const properties& on, std::uint64_t stream = 0);

/// The kernel without its code (but with `code.watch`, the names of a watched kernel) as a JSON manifest (one object), and back. Raises user_error [manifest-malformed] with the offset.
std::string to_manifest(const kernel& k);
kernel from_manifest(const std::string& json);

}  // namespace tlx::device
