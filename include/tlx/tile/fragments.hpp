// The layouts that instructions prescribe (wgmma, mma.sync, tcgen05.ld) and those we choose for plain threads.
// Maps: PTX ISA, register fragments of wgmma and mma, tcgen05.ld shapes. tests/tile/fragments.cpp writes the closed forms out again.
#pragma once
#include "tlx/tile/layout.hpp"

namespace tlx::tile {

namespace detail {

constexpr void require_multiple(const char* what, int extent, int step) {
  if (extent < step || extent % step != 0) layout_error("layout-extent-invalid", what, extent, step);
}

// Eight lanes along rows, four lanes of two neighbouring columns: the lane part of every m16n8 fragment.
constexpr axis_map quad_lanes() { return axis_map().add_bit({0, 2}).add_bit({0, 4}).add_bit({1, 0}).add_bit({2, 0}).add_bit({4, 0}); }
constexpr axis_map row_lanes() { return axis_map().add_bit({1, 0}).add_bit({2, 0}).add_bit({4, 0}).add_bit({8, 0}).add_bit({16, 0}); }
// Two columns, row + 8, then the column groups of eight.
constexpr axis_map quad_registers(int cols) { return axis_map().add_bit({0, 1}).add_bit({8, 0}).add_repeat(cols / 8, {0, 8}); }

}  // namespace detail

/// D of wgmma.m64nNk*: N = cols, any multiple of 8. Each warpgroup owns rows / (warps / 4) consecutive rows, in instructions
/// of 64 rows; the instruction index is the slowest register digit.
constexpr layout wgmma_accumulator(int rows, int cols, int warps) {
  detail::require_multiple("wgmma needs whole warpgroups (warps, 4)", warps, 4);
  detail::require_multiple("wgmma tiles have 64 rows per instruction and warpgroup (rows, 64 per warpgroup)", rows, 64 * (warps / 4));
  detail::require_multiple("wgmma tiles have a multiple of 8 columns (columns, 8)", cols, 8);
  const int group_rows = rows / (warps / 4);
  return make_layout(rows, cols, detail::quad_registers(cols).add_repeat(group_rows / 64, {64, 0}), detail::quad_lanes(),
                     axis_map().add_bit({16, 0}).add_bit({32, 0}).add_repeat(warps / 4, {group_rows, 0}));
}

/// A of wgmma from registers, 16-bit elements, k a multiple of 16: the same map as the accumulator, so a cast accumulator
/// is an operand without moving anything. Step s of 64-row instruction i reads registers [8s, 8s + 8) + i * k / 2.
constexpr layout wgmma_a_operand_16bit(int rows, int k, int warps) {
  detail::require_multiple("a 16-bit wgmma operand has a multiple of 16 columns (k, 16)", k, 16);
  return wgmma_accumulator(rows, k, warps);
}

/// C and D of mma.sync.m16n8k16, warps along rows, each with rows / warps consecutive rows.
constexpr layout mma_sync_accumulator(int rows, int cols, int warps) {
  detail::require_multiple("mma.sync tiles have 16 rows per instruction and warp (rows, 16 per warp)", rows, 16 * warps);
  detail::require_multiple("mma.sync tiles have a multiple of 8 columns (columns, 8)", cols, 8);
  return make_layout(rows, cols, detail::quad_registers(cols).add_repeat(rows / warps / 16, {16, 0}), detail::quad_lanes(),
                     axis_map().add_repeat(warps, {rows / warps, 0}));
}

/// A (rows x k) of mma.sync.m16n8k16, 16-bit: eight elements per thread and k step.
constexpr layout mma_sync_a(int rows, int k, int warps) {
  detail::require_multiple("mma.sync operands have a multiple of 16 along k (k, 16)", k, 16);
  return mma_sync_accumulator(rows, k, warps);
}

/// B (k x cols) of mma.sync.m16n8k16, 16-bit: four elements per thread, k step after k step, then the next 8 columns.
/// Every warp holds all of it.
constexpr layout mma_sync_b(int k, int cols, int warps) {
  detail::require_multiple("mma.sync operands have a multiple of 16 along k (k, 16)", k, 16);
  detail::require_multiple("mma.sync tiles have a multiple of 8 columns (columns, 8)", cols, 8);
  return make_layout(k, cols, axis_map().add_bit({1, 0}).add_bit({8, 0}).add_repeat(k / 16, {16, 0}).add_repeat(cols / 8, {0, 8}),
                     axis_map().add_bit({2, 0}).add_bit({4, 0}).add_bit({0, 1}).add_bit({0, 2}).add_bit({0, 4}), axis_map().add_repeat(warps, {0, 0}));
}

/// tcgen05.ld.32x32b over an accumulator of 128 lanes per CTA: thread = lane = row, register = column. Four warps cover
/// the lanes; 4 * h warps take one h-th of the columns each. More rows are further 128-lane tiles (slowest register digit);
/// `blocks` CTAs hold rows / blocks rows each.
constexpr layout tmem_rows_32x32b(int rows, int cols, int warps, int blocks = 1) {
  detail::require_multiple("tensor memory is read by whole warpgroups (warps, 4)", warps, 4);
  detail::require_multiple("a 32x32b read covers 128 rows per tile and CTA (rows, 128 per CTA)", rows, 128 * blocks);
  detail::require_multiple("the warpgroups share the columns evenly (columns, warpgroups)", cols, warps / 4);
  const int part = cols / (warps / 4), block_rows = rows / blocks;
  return make_layout(rows, cols, axis_map().add_repeat(part, {0, 1}).add_repeat(block_rows / 128, {128, 0}), detail::row_lanes(),
                     axis_map().add_bit({32, 0}).add_bit({64, 0}).add_repeat(warps / 4, {0, part}), axis_map().add_repeat(blocks, {block_rows, 0}));
}

/// tcgen05.ld.16x256b: the m16n8 fragment pattern. 64 rows (layout F: 16 lanes of each quarter) or 128 rows (two reads
/// per warp, the second at lane + 16). 4 * h warps take one h-th of the columns each.
constexpr layout tmem_16x256b(int rows, int cols, int warps = 4) {
  detail::require_multiple("tensor memory is read by whole warpgroups (warps, 4)", warps, 4);
  detail::require_multiple("a 16x256b read covers 64 or 128 rows (rows, 64)", rows, 64);
  if (rows > 128) detail::layout_error("layout-extent-invalid", "a 16x256b read covers 64 or 128 rows (rows, 128)", rows, 128);
  detail::require_multiple("a 16x256b read has 8 columns per warpgroup (columns, 8 per warpgroup)", cols, 8 * (warps / 4));
  const int part = cols / (warps / 4), warp_rows = rows / 4;
  return make_layout(rows, cols, detail::quad_registers(part).add_repeat(warp_rows / 16, {16, 0}), detail::quad_lanes(),
                     axis_map().add_bit({warp_rows, 0}).add_bit({2 * warp_rows, 0}).add_repeat(warps / 4, {0, part}));
}

/// The same read of 128 rows by 8 warps, each whole rows: the second warpgroup reads lanes + 16 of each quarter.
constexpr layout tmem_16x256b_by_rows(int cols) {
  detail::require_multiple("a 16x256b read has 8 columns (columns, 8)", cols, 8);
  return make_layout(128, cols, detail::quad_registers(cols), detail::quad_lanes(), axis_map().add_bit({32, 0}).add_bit({64, 0}).add_bit({16, 0}));
}

/// Accumulator of 128 rows over a CTA pair (layout B): CTA = row / 64, lane = row % 64 + 64 * (column >= cols / 2).
/// Read by 32x32b: warps 0, 1 of a warpgroup see the left half of the columns, warps 2, 3 the right half.
constexpr layout tmem_pair_128_32x32b(int cols, int warps = 4) {
  detail::require_multiple("tensor memory is read by whole warpgroups (warps, 4)", warps, 4);
  detail::require_multiple("the warpgroups share each half of the columns evenly (columns, 2 per warpgroup)", cols, 2 * (warps / 4));
  const int part = cols / 2 / (warps / 4);
  return make_layout(128, cols, axis_map().add_repeat(part, {0, 1}), detail::row_lanes(),
                     axis_map().add_bit({32, 0}).add_repeat(2, {0, cols / 2}).add_repeat(warps / 4, {0, part}), axis_map().add_bit({64, 0}));
}

/// Plain threads, coalesced: `vector` neighbouring columns per thread (or the largest part of it that divides), lanes along
/// the columns first, then rows; warps along rows, then columns. Threads that find nothing left hold copies.
constexpr layout blocked(int rows, int cols, int warps, int vector = 1) {
  if (rows < 1 || cols < 1 || warps < 1 || vector < 1) detail::layout_error("layout-extent-invalid", "a blocked layout needs positive extents", rows, cols);
  const int each = detail::gcd(cols, vector);
  const int lane_cols = detail::smaller(warp_lanes, detail::power_of_two_part(cols / each));
  const int lane_rows = detail::smaller(warp_lanes / lane_cols, detail::power_of_two_part(rows));
  const int warp_rows = detail::gcd(warps, rows / lane_rows);
  const int warp_cols = detail::gcd(warps / warp_rows, cols / each / lane_cols);
  const int step_cols = each * lane_cols * warp_cols, step_rows = lane_rows * warp_rows;
  return make_layout(
      rows, cols, axis_map().add_repeat(each, {0, 1}).add_repeat(cols / step_cols, {0, step_cols}).add_repeat(rows / step_rows, {step_rows, 0}),
      axis_map().add_repeat(lane_cols, {0, each}).add_repeat(lane_rows, {1, 0}).add_repeat(warp_lanes / lane_cols / lane_rows, {0, 0}),
      axis_map().add_repeat(warp_rows, {lane_rows, 0}).add_repeat(warp_cols, {0, each * lane_cols}).add_repeat(warps / warp_rows / warp_cols, {0, 0}));
}

/// 1 x cols: lanes along the columns.
constexpr layout row_vector(int cols, int warps, int vector = 1) { return blocked(1, cols, warps, vector); }
/// rows x 1: lanes along the rows.
constexpr layout column_vector(int rows, int warps) { return blocked(rows, 1, warps, 1); }
/// Every thread holds all of it, row by row.
constexpr layout replicated(int rows, int cols, int warps) {
  return make_layout(rows, cols, axis_map().add_repeat(cols, {0, 1}).add_repeat(rows, {1, 0}), axis_map().add_repeat(warp_lanes, {0, 0}), axis_map().add_repeat(warps, {0, 0}));
}

}  // namespace tlx::tile
