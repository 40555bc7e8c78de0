// Block-scaled products of tcgen05: which exist, where their scales lie in memory and in tensor memory, and the instruction descriptor of a step.
//
// Scales come in units of 512 bytes: of 128 rows (columns of b) four scales each. Byte (row % 32) * 16 + row / 32 * 4 + scale. Units run along K first, then
// along the rows; the last ones are padded. cuBLAS, cuDNN, CUTLASS and PyTorch (`swizzled`, SwizzleType 32_4_4) keep them so. A unit is seen here as 32 rows of
// 16 bytes, which tcgen05.cp.32x128b.warpx4 takes to 4 columns of tensor memory: lane row % 32 (and 32, 64, 96 more), column row / 32, byte scale.
// Source: PTX ISA, tcgen05.mma block scaling, scale factor layouts, instruction descriptor of the mx kinds.
#pragma once
#include <cstdint>

#include "tlx/tile/element.hpp"

namespace tlx::tile {

inline constexpr int scale_unit_rows = 128, scale_unit_scales = 4, scale_unit_bytes = 512, scale_unit_columns = 4;

enum class scaled_kind : std::uint8_t { mxf8f6f4, mxf4, mxf4nvf4 };
constexpr std::string_view name(scaled_kind k) { return k == scaled_kind::mxf8f6f4 ? "mxf8f6f4" : k == scaled_kind::mxf4 ? "mxf4" : "mxf4nvf4"; }

/// The kind for operands and scales of these types; nothing: there is none.
constexpr std::optional<scaled_kind> scaled_kind_of(element a, element b, element scale) {
  const auto eight_bits = [](element e) { return e == element::e4m3 || e == element::e5m2; };
  if (eight_bits(a) && eight_bits(b) && scale == element::ue8m0) return scaled_kind::mxf8f6f4;
  if (a != element::e2m1x2 || b != element::e2m1x2) return std::nullopt;
  if (scale == element::ue8m0) return scaled_kind::mxf4;
  return scale == element::ue4m3 ? std::optional(scaled_kind::mxf4nvf4) : std::nullopt;
}

/// Numbers of K that share a scale.
constexpr int scale_block(scaled_kind k) { return k == scaled_kind::mxf4nvf4 ? 16 : 32; }
/// Numbers of K one instruction takes: 32 bytes of each row.
constexpr int k_per_instruction(scaled_kind k) { return k == scaled_kind::mxf8f6f4 ? 32 : 64; }
/// Scales of each row that one instruction takes: 1, 2 or 4.
constexpr int scales_per_instruction(scaled_kind k) { return k_per_instruction(k) / scale_block(k); }

/// Columns of tensor memory for `scales` scales of each of `rows` rows.
constexpr int scale_columns(int rows, int scales) { return rows / scale_unit_rows * (scales / scale_unit_scales) * scale_unit_columns; }

/// nullptr when one CTA can multiply so, otherwise the rule it breaks. `scales`: of each row in one slot.
constexpr const char* scaled_shape_problem(scaled_kind k, int m, int n, int numbers_of_k, int scales) {
  if (m != 128) return "M of a block-scaled product on one CTA is 128";
  if (n != 128 && n != 256) return "N of a block-scaled product is 128 or 256: scales lie in units of 128 columns";
  if (scales % scale_unit_scales != 0) return "a slot has a multiple of 4 scales of each row: scales lie in units of 4";
  if (scales * scale_block(k) != numbers_of_k) return "there is one scale for each 32 of K, of 16 where scales are ue4m3";
  return nullptr;
}

/// Everything the instruction descriptor of a block-scaled product says. `id_a`, `id_b`: which of the four scales of a column is the step's first.
struct scaled_instruction {
  element a = element::e4m3, b = element::e4m3, scale = element::ue8m0;
  int m = 128, n = 128, id_a = 0, id_b = 0;
};

/// [4,6) id of b's scale [7,10) A [10,13) B [17,23) N/8 [23] ue8m0 [27,29) M/128 [29,31) id of a's scale
constexpr std::uint32_t scaled_idesc(const scaled_instruction& i) {
  const auto code = [](element e) { return e == element::e4m3 ? 0U : 1U; };  // e5m2 of mxf8f6f4, e2m1 of the 4-bit kinds
  return (static_cast<std::uint32_t>(i.id_b) << 4) | (code(i.a) << 7) | (code(i.b) << 10) | (static_cast<std::uint32_t>(i.n / 8) << 17) | (i.scale == element::ue8m0 ? 1U << 23 : 0U) |
         (static_cast<std::uint32_t>(i.m / 128) << 27) | (static_cast<std::uint32_t>(i.id_a) << 29);
}

/// The descriptor of a unit as tcgen05.cp reads it, without its address: 32 rows of 16 bytes, nothing swizzled, 128 bytes from eight rows to the next.
constexpr std::uint64_t scale_unit_descriptor_bits() { return (1ULL << 46) | (std::uint64_t{128 >> 4} << 32); }

}  // namespace tlx::tile
