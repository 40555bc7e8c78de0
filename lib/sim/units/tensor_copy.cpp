// tcgen05.cp (shared to tensor memory, with its multicasts and the unpacking of 4- and 6-bit elements) and tcgen05.shift.
#include <cstring>

#include "sim/units/tensor_memory.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

struct plan { int rows = 0, pieces = 1, copies = 1; };

plan plan_of(cp_shape s) {
  switch (s) {
    case cp_shape::s128x256b: return {128, 2, 1};
    case cp_shape::s128x128b: return {128, 1, 1};
    case cp_shape::s64x128b_02_13: case cp_shape::s64x128b_01_23: return {64, 1, 2};
    case cp_shape::s32x128b_x4: return {32, 1, 4};
    case cp_shape::s4x256b: return {4, 2, 1};
  }
  return {};
}

int lane_of(cp_shape s, int row, int copy) {
  switch (s) {
    case cp_shape::s64x128b_02_13: return row + 64 * copy;
    case cp_shape::s64x128b_01_23: return row + (row < 32 ? 0 : 32) + 32 * copy;
    case cp_shape::s32x128b_x4: return row + 32 * copy;
    case cp_shape::s4x256b: return 32 * row;
    default: return row;
  }
}

/// 16 elements of 4 or 6 bits at the front of 16 bytes, to one byte each. A 4-bit element sits in the middle of its byte, as tmem_element_shift says.
void unpack(cp_unpack how, std::byte* bytes) {
  if (how == cp_unpack::none) return;
  const int bits = how == cp_unpack::b4x16_p64 ? 4 : 6;
  std::byte out[16];
  for (int i = 0; i < 16; ++i) {
    const int at = i * bits;
    unsigned two = std::to_integer<unsigned>(bytes[at / 8]);
    if (at / 8 + 1 < 16) two |= std::to_integer<unsigned>(bytes[at / 8 + 1]) << 8;
    out[i] = std::byte{static_cast<unsigned char>(((two >> (at % 8)) & ((1U << bits) - 1U)) << tmem_element_shift(bits))};
  }
  std::memcpy(bytes, out, sizeof out);
}

}  // namespace

complaint tmem_copy_map(cp_shape shape, std::uint32_t address, const shared_descriptor& source, std::vector<tmem_copy_piece>& pieces) {
  pieces.clear();
  const plan p = plan_of(shape);
  const operand_form form{.element = number::u8, .rows = p.rows, .k = 16 * p.pieces};
  const int column = tmem_column(address), base = tmem_lane(address);
  if (column + 4 * p.pieces > tmem_columns) return {misuse::tmem_misuse, cat("tcgen05.cp to column ", column, " ends beyond the 512 of tensor memory")};
  for (int row = 0; row < p.rows; ++row)
    for (int c = 0; c < p.pieces; ++c) {
      const std::uint32_t from = place_of(source, form, row, 16 * c).address;
      for (int copy = 0; copy < p.copies; ++copy) {
        const int lane = base + lane_of(shape, row, copy);
        if (lane >= tmem_lanes) return {misuse::tmem_misuse, cat("tcgen05.cp from lane ", base, " on reaches lane ", lane, " of 128")};
        pieces.push_back({from, static_cast<std::uint32_t>(lane * tmem_columns + column + 4 * c)});
      }
    }
  return {};
}

complaint tmem_copy(tensor_memory& t, cp_shape shape, cp_unpack how, std::uint32_t address, const shared_descriptor& source, std::span<const std::byte> shared) {
  std::vector<tmem_copy_piece> pieces;
  if (complaint c = tmem_copy_map(shape, address, source, pieces)) return c;
  for (const tmem_copy_piece& p : pieces)
    if (std::size_t{p.shared} + 16 > shared.size())
      return {misuse::out_of_bounds, cat("tcgen05.cp reads shared bytes ", p.shared, "..", p.shared + 16, ", the CTA has ", shared.size())};
  for (const tmem_copy_piece& p : pieces) {
    std::byte bytes[16];
    std::memcpy(bytes, shared.data() + p.shared, sizeof bytes);
    unpack(how, bytes);
    std::memcpy(t.words() + p.word, bytes, sizeof bytes);
    for (int i = 0; i < 4; ++i) t.set_poison(static_cast<int>(p.word) + i, false);
  }
  return {};
}

complaint tmem_shift(tensor_memory& t, std::uint32_t address) {
  const int lane = tmem_lane(address), column = tmem_column(address);
  if (lane % 32 != 0 || lane >= tmem_lanes) return {misuse::tmem_misuse, cat("tcgen05.shift at lane ", lane, "; the lane must be a multiple of 32")};
  if (column + 8 > tmem_columns) return {misuse::tmem_misuse, cat("tcgen05.shift at column ", column, " ends beyond the 512 of tensor memory")};
  for (int i = lane; i < lane + 31; ++i)
    for (int c = column; c < column + 8; ++c) {
      t.row(i)[c] = t.row(i + 1)[c];
      t.set_poison(i * tmem_columns + c, t.poisoned((i + 1) * tmem_columns + c));
    }
  return {};
}

}  // namespace tlx::sim
