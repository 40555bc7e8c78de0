// What a TMA box may be, and why not; the box that fills a shared tile.
// Source: CUDA driver API, cuTensorMapEncodeTiled.
#pragma once
#include <array>
#include <cstdint>
#include <iosfwd>

#include "tlx/tile/shared_tile.hpp"

namespace tlx::tile {

/// Extents innermost first, in elements.
struct tma_box {
  element type = element::bf16;
  int rank = 0;
  std::array<int, 5> extent = {1, 1, 1, 1, 1};
  int swizzle_bytes = 0;  // as in shared_tile; 0 and 16 are "no swizzle" to the hardware
  bool splits_inner = false;  // dimension 2 of the map counts chunks of dimension 0: the map has one dimension more than the view
  int box_count = 1;          // boxes to load one after another, each chunk_bytes further, where one box cannot be it

  constexpr int inner_bytes() const { return extent[0] * bits(type) / 8; }
  constexpr int bytes() const {
    int n = inner_bytes();
    for (int d = 1; d < rank; ++d) n *= extent[static_cast<unsigned>(d)];
    return n;
  }
  friend constexpr bool operator==(const tma_box&, const tma_box&) = default;
};

/// A broken rule with its numbers: `value` is what was asked in `dimension`, `nearest` the closest legal value below or,
/// where there is none, above. rule == nullptr: nothing is wrong.
struct box_problem {
  const char* rule = nullptr;
  int dimension = 0;
  std::int64_t value = 0, nearest = 0;
  constexpr explicit operator bool() const { return rule != nullptr; }
};

/// "box dimension 0 is 24 bytes, nearest legal is 16: ..." ; empty when nothing is wrong.
std::string to_text(const box_problem& p);

/// The box for a tile out of a view of `view_rank` dimensions whose two innermost are the tile's (further extents are 1).
/// Where the contiguous axis has several chunks, the map splits it, so that one box lands all chunks stacked:
///   64 x 128 bf16 of (token, head, 128)  ->  map (64 channels, token, chunk, head), box (64, 64, 2, 1)
/// A view of five dimensions leaves no room for the split: one box per chunk.
constexpr tma_box box_of(const shared_tile& t, int view_rank) {
  tma_box b;
  b.type = t.type;
  b.swizzle_bytes = t.swizzle_bytes;
  b.extent[0] = t.chunk_cols();
  b.rank = view_rank;
  if (t.stored_rows() > 1 && b.rank < 2) b.rank = 2;
  if (b.rank > 1) b.extent[1] = t.stored_rows();
  if (t.chunk_count() > 1) {
    if (b.rank < 5) {
      if (b.rank < 2) b.rank = 2;
      b.splits_inner = true;
      b.extent[2] = t.chunk_count();
      ++b.rank;
    } else {
      b.box_count = t.chunk_count();
    }
  }
  return b;
}

/// The first rule the box breaks. A box whose inner dimension is below 16 bytes cannot be loaded by TMA at all: load it by threads.
constexpr box_problem check_box(const tma_box& b) {
  if (b.rank < 1 || b.rank > 5) return {"a tensor map has 1 to 5 dimensions", -1, b.rank, b.rank < 1 ? 1 : 5};
  const int size = bits(b.type);
  if (size != 8 && size != 16 && size != 32 && size != 64) return {"a TMA box of plain elements has elements of 1, 2, 4 or 8 bytes", 0, size, 8};
  for (int d = 0; d < b.rank; ++d) {
    const int e = b.extent[static_cast<unsigned>(d)];
    if (e < 1 || e > 256) return {"a dimension of a TMA box has 1 to 256 elements", d, e, e < 1 ? 1 : 256};
  }
  const int inner = b.inner_bytes();
  if (inner % 16 != 0) return {"the inner dimension of a TMA box is a multiple of 16 bytes", 0, inner, inner < 16 ? 16 : inner / 16 * 16};
  if (b.swizzle_bytes != 0 && inner > b.swizzle_bytes)
    return {"the inner dimension of a TMA box is at most the width of its swizzle", 0, inner, b.swizzle_bytes};
  return {};
}

/// The rules for the global tensor of a map: strides in bytes of dimensions 1 and up (dimension 0 is dense).
struct tma_tensor {
  std::uint64_t address = 0;
  int rank = 0;
  std::array<std::int64_t, 5> extent = {};
  std::array<std::int64_t, 4> stride_bytes = {};
};

constexpr box_problem check_tensor(const tma_tensor& t) {
  if (t.rank < 1 || t.rank > 5) return {"a tensor map has 1 to 5 dimensions", -1, t.rank, t.rank < 1 ? 1 : 5};
  if (t.address % 16 != 0) return {"the address of a tensor map is a multiple of 16", -1, static_cast<std::int64_t>(t.address), static_cast<std::int64_t>(t.address / 16 * 16)};
  for (int d = 0; d < t.rank; ++d) {
    const std::int64_t e = t.extent[static_cast<unsigned>(d)], most = std::int64_t{1} << 32;
    if (e < 1 || e > most) return {"a dimension of a tensor map has 1 to 2^32 elements", d, e, e < 1 ? 1 : most};
  }
  for (int d = 1; d < t.rank; ++d) {
    const std::int64_t s = t.stride_bytes[static_cast<unsigned>(d - 1)], end = std::int64_t{1} << 40;
    if (s % 16 != 0) return {"a stride of a tensor map is a multiple of 16 bytes", d, s, s < 16 ? 16 : s / 16 * 16};
    if (s < 0 || s >= end) return {"a stride of a tensor map is below 2^40 bytes", d, s, s < 0 ? 0 : end - 16};
  }
  return {};
}

}  // namespace tlx::tile
