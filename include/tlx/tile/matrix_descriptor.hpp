// How wgmma and tcgen05 read a shared tile: which axis is contiguous, the strides of the 64-bit matrix descriptor, and the
// bytes to add to the start address for the next K step and the next block of rows.
//
//   wgmma    [0,14) address >> 4 | [16,30) LBO >> 4 | [32,46) SBO >> 4 | [49,52) base offset | [62,64) 0 none 1 128B 2 64B 3 32B
//   tcgen05  the same fields     | [46,48) version 1                                         | [61,64) 0 none 2 128B 4 64B 6 32B
//
// Source: PTX ISA, matrix descriptors and canonical layouts. tests/tile/matrix_descriptor.cpp holds the canonical layouts.
// Does not handle: tf32 operands with their other axis contiguous (128-byte swizzle of 32-byte atoms), K of 48 bytes.
#pragma once
#include <cstdint>

#include "tlx/tile/shared_tile.hpp"

namespace tlx::tile {

/// A is (M x K), B is (K x N), as in D = A * B.
enum class operand_side : std::uint8_t { a, b };
/// The contiguous axis: k (K-major), or mn: M of A, N of B.
enum class major : std::uint8_t { k, mn };

/// A shared tile in the role of an operand. A tile stored (N rows x K) is B through transpose(): K-major.
struct matrix_operand {
  shared_tile tile = {};
  operand_side side = operand_side::a;

  constexpr major major_axis() const { return (side == operand_side::a) == tile.transposed ? major::mn : major::k; }
  constexpr bool is_transposed() const { return major_axis() == major::mn; }  // the trans flag of wgmma, the transpose bit of tcgen05
  constexpr int mn_extent() const { return side == operand_side::a ? tile.rows : tile.cols; }
  constexpr int k_extent() const { return side == operand_side::a ? tile.cols : tile.rows; }
  /// Elements of K that one instruction takes: 32 bytes' worth.
  constexpr int k_per_step() const { return 256 / bits(tile.type); }
  constexpr int k_steps() const { return k_extent() / k_per_step(); }

  /// Strides in bytes as they enter the descriptor. 16 (encoded 1) where the hardware ignores the leading one.
  constexpr int leading_bytes() const {
    if (major_axis() == major::k) return tile.swizzle_bytes >= 32 ? 16 : tile.chunk_bytes();  // between the two 16-byte columns
    return tile.swizzle_bytes >= 32 ? tile.chunk_bytes() : 128;  // between atoms along MN; unswizzled: between groups of 8 k
  }
  constexpr int stride_bytes() const {
    if (major_axis() == major::mn && tile.swizzle_bytes < 32) return tile.chunk_bytes();  // between groups of 16 bytes along MN
    return 8 * tile.swizzle_bytes;  // eight rows to the next eight
  }

  /// Bytes from the tile's base to where K step `step` starts.
  constexpr int k_offset(int step) const {
    if (major_axis() == major::mn) return step * k_per_step() * tile.swizzle_bytes;  // that many rows further
    const int bytes = step * 32;  // along the contiguous axis, 32 bytes a step
    return bytes / tile.swizzle_bytes * tile.chunk_bytes() + bytes % tile.swizzle_bytes;
  }
  /// Bytes from the tile's base to where row `first` of M (column `first` of N) starts; needs can_start_at(first).
  constexpr int mn_offset(int first) const {
    if (major_axis() == major::k) return first * tile.swizzle_bytes;
    return first / tile.chunk_cols() * tile.chunk_bytes();
  }
  /// Blocks start at whole atoms: a multiple of 8 rows (K-major), of a chunk (MN-major).
  constexpr bool can_start_at(int first) const { return first % (major_axis() == major::k ? 8 : tile.chunk_cols()) == 0; }
  friend constexpr bool operator==(const matrix_operand&, const matrix_operand&) = default;
};

/// nullptr when the tile can be an operand of both instruction families, otherwise the rule it breaks.
constexpr const char* broken_rule(const matrix_operand& m) {
  if (const char* rule = broken_rule(m.tile)) return rule;
  if (m.tile.swizzle_bytes < 16) return "a matrix operand lies in 16-byte columns or swizzled (width 16, 32, 64 or 128), not in plain rows";
  if (bits(m.tile.type) != 8 && bits(m.tile.type) != 16 && bits(m.tile.type) != 32 && m.tile.type != element::e2m1)
    return "a matrix operand has elements of 8, 16 or 32 bits, or packed e2m1";
  if (m.tile.stored_rows() % 8 != 0) return "the rows of a matrix operand's chunk are a multiple of 8, so that every chunk starts at a whole atom";
  if (m.k_extent() % m.k_per_step() != 0) return "K of a matrix operand is a multiple of 32 bytes";
  if (m.mn_extent() % 8 != 0) return "M and N of a matrix operand are multiples of 8";
  if (m.is_transposed() && bits(m.tile.type) == 32) return "a 32-bit matrix operand is K-major";
  if (m.is_transposed() && m.tile.type == element::e2m1) return "a packed 4-bit matrix operand is K-major";
  if (m.tile.chunk_bytes() > 0x3fff * 16) return "the strides of a matrix descriptor are below 256 KB";
  return nullptr;
}

/// wgmma only: nullptr or the rule. Transposed operands are of 16-bit elements.
constexpr const char* broken_wgmma_rule(const matrix_operand& m) {
  if (const char* rule = broken_rule(m)) return rule;
  if (m.is_transposed() && bits(m.tile.type) != 16) return "wgmma reads only 16-bit operands with M or N contiguous; store the tile with K contiguous";
  if (m.tile.type == element::e2m1) return "wgmma has no 4-bit operands";
  return nullptr;
}

namespace detail {
constexpr std::uint64_t stride_fields(const matrix_operand& m) {
  return (static_cast<std::uint64_t>(m.leading_bytes() >> 4) << 16) | (static_cast<std::uint64_t>(m.stride_bytes() >> 4) << 32);
}
constexpr std::uint64_t layout_code(int swizzle, std::uint64_t b128, std::uint64_t b64, std::uint64_t b32) {
  return swizzle == 128 ? b128 : swizzle == 64 ? b64 : swizzle == 32 ? b32 : 0;
}
}  // namespace detail

/// The descriptor without its address: or in matrix_start(address).
constexpr std::uint64_t wgmma_descriptor_bits(const matrix_operand& m) {
  return detail::stride_fields(m) | (detail::layout_code(m.tile.swizzle_bytes, 1, 2, 3) << 62);
}
constexpr std::uint64_t tcgen05_descriptor_bits(const matrix_operand& m) {
  return detail::stride_fields(m) | (1ULL << 46) | (detail::layout_code(m.tile.swizzle_bytes, 2, 4, 6) << 61);
}
constexpr std::uint64_t wgmma_descriptor_bits(const shared_tile& t, operand_side side) { return wgmma_descriptor_bits(matrix_operand{t, side}); }
constexpr std::uint64_t tcgen05_descriptor_bits(const shared_tile& t, operand_side side) { return tcgen05_descriptor_bits(matrix_operand{t, side}); }

/// The start field for a shared address, which must be a multiple of 16.
constexpr std::uint64_t matrix_start(std::uint32_t shared_address) { return (shared_address & 0x3ffffU) >> 4; }

}  // namespace tlx::tile
