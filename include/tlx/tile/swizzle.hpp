// The XOR swizzles of shared memory, on byte addresses:
//
//   128 B:  bits 6 5 4 ^= bits 9 8 7       atom 1024 B = 8 rows of 128 B
//    64 B:  bits   5 4 ^= bits   8 7       atom  512 B
//    32 B:  bit      4 ^= bit      7       atom  256 B
//
// Hardware applies them to the address itself, so a tile starts at a multiple of its atom or the pattern is another one.
#pragma once

namespace tlx::tile {

/// Widths: 0 or 16 (nothing moves), 32, 64, 128.
constexpr bool is_swizzle_width(int bytes) { return bytes == 0 || bytes == 16 || bytes == 32 || bytes == 64 || bytes == 128; }

/// The address bits (a mask over bits 4 to 6) that the width may flip: 0x70, 0x30, 0x10 or 0.
constexpr unsigned swizzle_mask(int width) { return width == 128 ? 0x70U : width == 64 ? 0x30U : width == 32 ? 0x10U : 0U; }

/// Its own inverse; never leaves the 128-byte line of the address.
constexpr unsigned swizzled(unsigned address, int width) { return address ^ ((address >> 3) & swizzle_mask(width)); }

/// The period of the pattern and so the alignment it needs.
constexpr int swizzle_atom_bytes(int width) { return width >= 32 ? 8 * width : 16; }

/// The widest of 128, 64, 32 that divides a row of `row_bytes`; else 16 (16-byte columns, nothing flipped), else 0 (plain rows).
constexpr int widest_swizzle(int row_bytes) {
  if (row_bytes <= 0) return 0;
  for (int width = 128; width >= 16; width /= 2)
    if (row_bytes % width == 0) return width;
  return 0;
}

}  // namespace tlx::tile
