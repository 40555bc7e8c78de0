// Matrices in tensor memory: the accumulator layouts A to G, A operands and block scales.
#include <array>
#include <bit>

#include "sim/units/tensor_memory.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

int spread16(int row) { return row % 16 + 32 * (row / 16); }  // 16 rows in each 32-lane quarter

int lane_of_row(tmem_layout layout, int row) { return layout == tmem_layout::c || layout == tmem_layout::f ? spread16(row) : row; }

template <class T, class Decode>
complaint gather(const tensor_memory& t, tmem_layout layout, std::uint32_t address, const operand_form& f, T* dense, Decode decode) {
  const int bits = f.padded ? 8 : bits_of(f.element), per_word = 32 / bits, columns = (f.k + per_word - 1) / per_word;
  const int base = tmem_lane(address), column = tmem_column(address);
  if (column + columns > tmem_columns)
    return {misuse::tmem_misuse, cat("operand A in columns ", column, "..", column + columns - 1, " is beyond the 512 of tensor memory")};
  const bool look = t.any_poison();
  for (int r = 0; r < f.rows; ++r) {
    const int lane = base + lane_of_row(layout, r);
    if (lane >= tmem_lanes) return {misuse::tmem_misuse, cat("row ", r, " of operand A would be in lane ", lane, " of 128")};
    for (int k = 0; k < f.k; ++k) {
      const int word = lane * tmem_columns + column + k / per_word;
      if (look && t.poisoned(word))
        return {misuse::uninitialized, cat("operand A element (", r, ", ", k, ") is in lane ", lane, " column ", column + k / per_word, ", which was never written")};
      dense[r * f.k + k] = decode(t.words()[word] >> (k % per_word * bits));
    }
  }
  return {};
}

}  // namespace

complaint layout_of(int m, int cta_group, bool weight_stationary, bool sparse, tmem_layout& out) {
  if (cta_group == 2 && (m == 128 || m == 256)) {
    out = m == 256 ? tmem_layout::a : sparse ? tmem_layout::c : tmem_layout::b;
    return {};
  }
  if (cta_group == 1 && (m == 64 || m == 128 || (m == 32 && weight_stationary))) {
    out = m == 128 ? tmem_layout::d : m == 32 ? tmem_layout::g : weight_stationary ? tmem_layout::e : tmem_layout::f;
    return {};
  }
  return {misuse::illegal_shape, cat("M ", m, " with cta_group::", cta_group, weight_stationary ? " .ws" : "", " has no layout in tensor memory")};
}

tmem_place accumulator_place(tmem_layout layout, int row, int column, int n) {
  const int half = n / 2, quarter = n / 4;
  switch (layout) {
    case tmem_layout::a: return {row / 128, row % 128, column};
    case tmem_layout::b: return {row / 64, row % 64 + (column >= half ? 64 : 0), column % half};
    case tmem_layout::c: return {row / 64, spread16(row % 64), column};
    case tmem_layout::d: return {0, row, column};
    case tmem_layout::e: return {0, row + (column >= half ? 64 : 0), column % half};
    case tmem_layout::f: return {0, spread16(row), column};
    case tmem_layout::g: return {0, row + 32 * (column / quarter), column % quarter};
  }
  return {};
}

int accumulator_columns(tmem_layout layout, int n) {
  return layout == tmem_layout::b || layout == tmem_layout::e ? n / 2 : layout == tmem_layout::g ? n / 4 : n;
}

complaint gather_tmem_floats(const tensor_memory& t, tmem_layout layout, std::uint32_t address, const operand_form& f, float* dense) {
  const number element = f.element;
  const int bits = bits_of(element);
  if (bits >= 16) return gather(t, layout, address, f, dense, [=](std::uint32_t w) { return widen(element, bits == 16 ? w & 0xFFFFU : w); });
  const std::uint32_t mask = (1U << bits) - 1U;
  const int shift = f.padded ? tmem_element_shift(bits) : 0;
  const float* table = widen_table(element);
  return gather(t, layout, address, f, dense, [=](std::uint32_t w) { return table[(w >> shift) & mask]; });
}

complaint gather_tmem_integers(const tensor_memory& t, tmem_layout layout, std::uint32_t address, const operand_form& f, std::int16_t* dense) {
  const bool is_signed = f.element == number::s8;
  return gather(t, layout, address, f, dense, [=](std::uint32_t w) {
    return is_signed ? static_cast<std::int16_t>(static_cast<std::int8_t>(w & 0xFFU)) : static_cast<std::int16_t>(w & 0xFFU);
  });
}

scale_place place_of_scale(const scale_form& f, std::uint32_t address, int row, int j, int rows) {
  int lane = row % 32, column = row / 32;
  if (f.split_b) {  // lane from the row itself, column from its place in the half
    lane += row >= rows / 2 ? 64 : 0;
    column = row % (rows / 2) / 32;
  }
  const int byte = f.id + j;
  return {static_cast<std::uint32_t>((tmem_lane(address) + lane) * tmem_columns + tmem_column(address) + column + byte / 4), byte % 4};
}

complaint gather_scales(const tensor_memory& t, const scale_form& f, std::uint32_t address, int rows, float* dense) {
  const int last = tmem_column(address) + (f.split_b ? rows / 2 + 31 : rows + 31) / 32;
  if (last > tmem_columns || tmem_lane(address) != 0)
    return {misuse::tmem_misuse, cat("block scales at lane ", tmem_lane(address), " column ", tmem_column(address), " for ", rows, " rows do not fit tensor memory")};
  const float* table = widen_table(f.scale);
  const int copies = f.split_b ? 2 : 4;
  const bool look = t.any_poison();
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < f.per_row; ++j) {
      const scale_place p = place_of_scale(f, address, r, j, rows);
      const std::uint32_t code = t.words()[p.word] >> (8 * p.byte) & 0xFFU;
      for (int copy = 0; copy < copies; ++copy) {
        const std::uint32_t word = p.word + static_cast<std::uint32_t>(32 * copy * tmem_columns);
        const int lane = static_cast<int>(word) / tmem_columns, column = static_cast<int>(word) % tmem_columns;
        if (look && t.poisoned(static_cast<int>(word)))
          return {misuse::uninitialized, cat("block scale of row ", r, " in lane ", lane, " column ", column, " was never written (scales are needed in every 32-lane group)")};
        if ((t.words()[word] >> (8 * p.byte) & 0xFFU) != code)
          return {misuse::tmem_misuse, cat("block scale of row ", r, " differs between the 32-lane groups (lane ", lane, " column ", column, ")")};
      }
      dense[r * f.per_row + j] = table[code];
    }
  return {};
}

}  // namespace tlx::sim
