// Tensor maps and the TMA box walk: which global bytes go to which shared bytes, what is filled, what is dropped.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/units/complaint.hpp"
#include "tlx/device/device.hpp"

namespace tlx::sim {

inline constexpr std::size_t map_blob_bytes = 128;
using map_blob = std::array<std::byte, map_blob_bytes>;

/// The patterns of TMA. The mode and the atomicity of tensormap.replace together select one.
enum class swizzle_mode : std::uint8_t { none, b32, b64, b128, b128_atom32, b128_atom32_flip8, b128_atom64, b96 };

/// Acts on an absolute shared address (the CTA rank in bits 24 and up passes through unchanged).
constexpr std::uint32_t swizzle_address(swizzle_mode mode, std::uint32_t a) {
  switch (mode) {
    case swizzle_mode::none: return a;
    case swizzle_mode::b32: case swizzle_mode::b96: return a ^ ((a >> 3) & 0x10U);
    case swizzle_mode::b64: return a ^ ((a >> 3) & 0x30U);
    case swizzle_mode::b128: return a ^ ((a >> 3) & 0x70U);
    case swizzle_mode::b128_atom32: return a ^ ((a >> 2) & 0x60U);
    case swizzle_mode::b128_atom32_flip8: return a ^ ((a >> 2) & 0x60U) ^ ((a >> 4) & 0x8U);
    case swizzle_mode::b128_atom64: return a ^ ((a >> 1) & 0x40U);
  }
  return a;
}
/// Bytes that stay together under a pattern.
constexpr std::uint32_t swizzle_grain(swizzle_mode mode) { return mode == swizzle_mode::b128_atom32_flip8 ? 8U : 16U; }

/// A map as the walk needs it.
struct decoded_map {
  device::tensor_map map;
  swizzle_mode swizzle = swizzle_mode::none;
};

/// Empty when cuTensorMapEncodeTiled would accept the map (or the tensor is empty: extent 0), else the broken rule in words with its numbers.
std::string tensor_map_refusal(const device::tensor_map& map);
/// Our own 128-byte form. Raises user_error [tensor-map-refused].
map_blob encode_tensor_map(const device::tensor_map& map);
/// Complains (malformed) when the bytes are no map of ours, or a map whose fields break a rule (after tensormap.replace).
complaint decode_tensor_map(std::span<const std::byte, map_blob_bytes> bytes, decoded_map& out);

/// tensormap.replace.tile.FIELD. `ordinal` is the dimension for box_dim, global_dim, global_stride, element_stride. On 128 zero bytes it starts a map.
enum class map_field : std::uint8_t { global_address, rank, box_dim, global_dim, global_stride, element_stride, elemtype, interleave_layout, swizzle_mode,
                                      swizzle_atomicity, fill_mode };
complaint replace_map_field(std::span<std::byte, map_blob_bytes> bytes, map_field field, int ordinal, std::uint64_t value);

int element_bits(device::map_element e);         // in global memory
int element_shared_bits(device::map_element e);  // in shared memory with padding (8 for the padded sub-byte forms)

/// One contiguous run. `shared_offset` counts from the start of the box, before the swizzle.
struct box_piece {
  enum class what : std::uint8_t { copy, fill, pad };  // pad: shared bytes that stay uninitialised (padded sub-byte loads)
  std::uint32_t shared_offset = 0;
  std::uint32_t bytes = 0;
  std::uint64_t global = 0;  // copy only
  what kind = what::copy;
};

/// All runs of the box at `coordinates` (element units, dimension 0 first, `map.rank` of them), in shared order. Loads: parts outside are `fill`.
/// Stores: rows beyond the end are left out, and so are the 16-byte pieces of a row that begin beyond it: a piece that the tensor's end cuts is written whole
/// (seen on an H200, reductions too). A negative start complains (out_of_bounds). `pieces` is cleared first.
complaint walk_tile(const decoded_map& map, std::span<const std::int32_t> coordinates, bool store, std::vector<box_piece>& pieces);
/// gather4 (load) and scatter4 (store): rank 2, box {columns, 1}; four rows stacked in shared memory.
complaint walk_rows(const decoded_map& map, std::int32_t column, std::span<const std::int32_t, 4> rows, bool store, std::vector<box_piece>& pieces);

/// Shared bytes that a whole box spans (rows x 4 for gather4), and what complete_tx counts: the full box, also where it is out of bounds, without padding.
std::uint32_t box_shared_bytes(const decoded_map& map, bool gather4 = false);
std::uint32_t box_transaction_bytes(const decoded_map& map, bool gather4 = false);
/// What a load makes of whole elements on their way to shared memory: tf32 is rounded as by cvt.rn. Everything else stays as it is, and nothing
/// flushes subnormals, the ftz elements neither (seen on an H200).
void convert_loaded(device::map_element e, std::byte* bytes, std::size_t count);
/// The value written outside the tensor, repeated every 16 bytes.
std::array<std::byte, 16> fill_pattern(const decoded_map& map);

/// Calls visit(shared_address, piece_offset, bytes) for each part of `piece` that stays contiguous under the swizzle; `box_base` is the absolute address.
template <class Visit>
void for_swizzled_parts(swizzle_mode mode, std::uint32_t box_base, const box_piece& piece, Visit&& visit) {
  const std::uint32_t begin = box_base + piece.shared_offset;
  if (mode == swizzle_mode::none) { visit(begin, 0U, piece.bytes); return; }
  const std::uint32_t grain = swizzle_grain(mode);
  for (std::uint32_t done = 0; done < piece.bytes;) {
    const std::uint32_t at = begin + done;
    const std::uint32_t left = grain - at % grain;
    const std::uint32_t take = left < piece.bytes - done ? left : piece.bytes - done;
    visit(swizzle_address(mode, at), done, take);
    done += take;
  }
}

// ---- reductions of cp.reduce.async.bulk(.tensor), red.async, red and atom
enum class reduce_op : std::uint8_t { add, min, max, inc, dec, logic_and, logic_or, logic_xor };
enum class reduce_type : std::uint8_t { u32, s32, u64, s64, f16, bf16, f32, f64, b32, b64 };
int bytes_of(reduce_type t);
enum class reduce_place : std::uint8_t { global_bulk, global_tensor, shared_cluster };
complaint reduce_allowed(reduce_op op, reduce_type type, reduce_place place);
/// The type a tensor reduction works on; complains when the map's element has none.
complaint reduce_type_of(device::map_element e, reduce_op op, reduce_type& out);
/// destination[i] = op(destination[i], source[i]) over whole elements, rounded to nearest even. `flush`: f32 add flushes subnormals, as red and atom do on global
/// memory and nothing else does (PTX ISA; bulk reductions and shared memory seen on an H200).
void reduce_elements(reduce_op op, reduce_type type, std::byte* destination, const std::byte* source, std::size_t bytes, bool flush = false);

}  // namespace tlx::sim
