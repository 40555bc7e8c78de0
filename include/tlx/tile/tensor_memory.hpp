// Where accumulators and operands lie in tensor memory: 128 lanes x 512 columns of 32 bits in each CTA.
//
//   letter  rows  CTAs   CTA        lane                            column          (names of the PTX ISA's figures)
//   D       128   1      0          row                             col
//   F        64   1      0          row%16 + 32*(row/16)            col             lanes 16..31 of each quarter stay free
//   A       256   2      row/128    row%128                         col
//   B       128   2      row/64     row%64 + 64*(col >= cols/2)     col % (cols/2)
//
// A row of an operand takes cols * bits / 32 columns (two 16-bit elements per column, the lower one in the low half);
// an accumulator of 16-bit elements takes a whole column each.
#pragma once
#include <cstdint>
#include <optional>

#include "tlx/tile/element.hpp"
#include "tlx/tile/layout.hpp"

namespace tlx::tile {

inline constexpr int tensor_memory_lanes = 128, tensor_memory_columns = 512;

struct tensor_position {
  int cta = 0, lane = 0, column = 0;
  int bit = 0;  // first bit inside the column's 32
  friend constexpr bool operator==(const tensor_position&, const tensor_position&) = default;
};

/// An accumulator, or with `packed` an A operand, in the tensor memory of `ctas` CTAs.
struct tensor_tile {
  element type = element::f32;
  int rows = 128, cols = 0;
  int ctas = 1;
  bool packed = false;

  constexpr char letter() const { return ctas == 1 ? (rows == 64 ? 'F' : 'D') : rows == 256 ? 'A' : 'B'; }
  constexpr int bits_per_element() const { return packed ? bits(type) : 32; }
  /// Columns it takes in each CTA. An operand beside layout B holds its whole row in both lane halves.
  constexpr int column_count() const {
    const int c = letter() == 'B' && !packed ? cols / 2 : cols;
    return (c * bits_per_element() + 31) / 32;
  }
  /// Where element (row, col) is. Of a packed operand in layout B: the copy in lanes 0..63; the other is 64 lanes further.
  constexpr tensor_position at(int row, int col) const {
    tensor_position p;
    int c = col;
    switch (letter()) {
      case 'F': p.lane = row % 16 + 32 * (row / 16); break;
      case 'A': p.cta = row / 128; p.lane = row % 128; break;
      case 'B':
        p.cta = row / 64;
        p.lane = row % 64;
        if (!packed) {
          p.lane += col >= cols / 2 ? 64 : 0;
          c = col % (cols / 2);
        }
        break;
      default: p.lane = row; break;
    }
    p.column = c * bits_per_element() / 32;
    p.bit = c * bits_per_element() % 32;
    return p;
  }
  friend constexpr bool operator==(const tensor_tile&, const tensor_tile&) = default;
};

/// nullptr when the tile can lie in tensor memory, otherwise the rule it breaks.
constexpr const char* broken_rule(const tensor_tile& t) {
  if (t.ctas != 1 && t.ctas != 2) return "a tensor memory tile belongs to one CTA or a pair";
  if (t.ctas == 1 && t.rows != 64 && t.rows != 128) return "a tensor memory tile of one CTA has 64 or 128 rows";
  if (t.ctas == 2 && t.rows != 128 && t.rows != 256) return "a tensor memory tile of a CTA pair has 128 or 256 rows";
  if (t.cols < 1) return "a tensor memory tile has at least one column";
  if (!t.packed && bits(t.type) != 32 && bits(t.type) != 16) return "an accumulator has elements of 32 or 16 bits";
  if (t.packed && t.cols * bits(t.type) % 32 != 0) return "a row of an operand in tensor memory is a whole number of 32-bit columns";
  if (t.letter() == 'B' && !t.packed && t.cols % 2 != 0) return "an accumulator of 128 rows over a pair has an even number of columns";
  if (t.column_count() > tensor_memory_columns) return "tensor memory has 512 columns";
  return nullptr;
}

/// What to ask tcgen05.alloc for: the next power of two of at least 32; nothing above 512 or for no columns.
constexpr std::optional<int> tensor_allocation(int columns) {
  if (columns < 1 || columns > tensor_memory_columns) return std::nullopt;
  int n = 32;
  while (n < columns) n *= 2;
  return n;
}

/// lane << 16 | column.
constexpr std::uint32_t tensor_address(int lane, int column) { return (static_cast<std::uint32_t>(lane) << 16) | static_cast<std::uint32_t>(column); }
/// What the address of a tcgen05.ld or st in warp `warp` of a role must add: its quarter of the lanes.
constexpr std::uint32_t warp_lane_base(int warp) { return static_cast<std::uint32_t>(warp % 4) << 21; }

}  // namespace tlx::tile
