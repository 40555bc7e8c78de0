// A tile in shared memory: its contiguous axis is cut into chunks of the swizzle width, each chunk is rows x width bytes,
// row after row, and the chunks are stacked. One 3-D TMA box lands it so; wgmma and tcgen05 read it as it lies.
//
//   64 x 128 bf16, 128-byte swizzle:   [ 64 rows x 128 B: columns 0..63 ][ 64 rows x 128 B: columns 64..127 ]
#pragma once
#include "tlx/tile/element.hpp"
#include "tlx/tile/layout.hpp"
#include "tlx/tile/swizzle.hpp"

namespace tlx::tile {

/// `rows` and `cols` are the extents as the user sees them. `transposed`: memory runs along the rows (an MN-major operand,
/// or the view of a tile through transpose()); the chunks then cut the rows. Widths: see swizzle.hpp; 16 is the
/// layout that MMA calls "no swizzle", 0 is plain row-major in one chunk.
struct shared_tile {
  element type = element::bf16;
  int rows = 0, cols = 0;
  int swizzle_bytes = 0;
  bool transposed = false;

  constexpr int stored_rows() const { return transposed ? cols : rows; }
  constexpr int stored_cols() const { return transposed ? rows : cols; }  // the contiguous axis
  constexpr int row_bytes() const { return (stored_cols() * bits(type) + 7) / 8; }
  /// Bytes and elements of the contiguous axis in one chunk.
  constexpr int chunk_width_bytes() const { return swizzle_bytes == 0 ? row_bytes() : swizzle_bytes; }
  constexpr int chunk_cols() const { return swizzle_bytes == 0 ? stored_cols() : swizzle_bytes * 8 / bits(type); }
  constexpr int chunk_bytes() const { return stored_rows() * chunk_width_bytes(); }
  constexpr int chunk_count() const { return (stored_cols() + chunk_cols() - 1) / chunk_cols(); }
  constexpr int size_bytes() const { return chunk_count() * chunk_bytes(); }
  /// TMA wants 128 bytes; a swizzle wants its whole atom (1024, 512, 256).
  constexpr int alignment() const { return swizzle_atom_bytes(swizzle_bytes) < 128 ? 128 : swizzle_atom_bytes(swizzle_bytes); }

  /// Byte of element (row, col) from the aligned base, before and after the swizzle. Of a packed sub-byte element: the byte
  /// it starts in.
  constexpr int linear_offset(int row, int col) const {
    const int r = transposed ? col : row, c = transposed ? row : col;
    return c / chunk_cols() * chunk_bytes() + r * chunk_width_bytes() + c % chunk_cols() * bits(type) / 8;
  }
  constexpr int offset(int row, int col) const { return static_cast<int>(swizzled(static_cast<unsigned>(linear_offset(row, col)), swizzle_bytes)); }
  constexpr int offset(coordinate c) const { return offset(c.row, c.col); }

  /// The same bytes seen with rows and columns exchanged.
  constexpr shared_tile transpose() const { return {type, cols, rows, swizzle_bytes, !transposed}; }
  friend constexpr bool operator==(const shared_tile&, const shared_tile&) = default;
};

/// A row-major tile with the default swizzle: the widest that divides a row. A single row is left plain: there is no
/// second row to keep off its banks, and a 1-D TMA box fills it.
constexpr shared_tile make_shared_tile(element type, int rows, int cols) {
  return {type, rows, cols, rows == 1 || cols * bits(type) % 8 != 0 ? 0 : widest_swizzle(cols * bits(type) / 8), false};
}

/// nullptr when the tile is well-formed, otherwise the rule it breaks.
constexpr const char* broken_rule(const shared_tile& t) {
  if (t.rows < 1 || t.cols < 1) return "a shared tile has at least one row and one column";
  if (!is_swizzle_width(t.swizzle_bytes)) return "a swizzle is 0, 16, 32, 64 or 128 bytes wide";
  if (t.stored_cols() * bits(t.type) % 8 != 0) return "a row of a shared tile is a whole number of bytes";
  if (t.swizzle_bytes != 0 && t.row_bytes() % t.swizzle_bytes != 0) return "a row of a swizzled tile is a whole number of swizzle widths";
  return nullptr;
}

}  // namespace tlx::tile
