// Which products the tensor cores do: element types, shapes, and the 32-bit instruction descriptor of tcgen05.
// Source: PTX ISA, wgmma.mma_async and tcgen05.mma shapes, instruction descriptor. Dense products; those with block scales: scaled_mma.hpp.
#pragma once
#include <cstdint>

#include "tlx/tile/element.hpp"

namespace tlx::tile {

/// The kinds of tcgen05.mma that need no scales.
enum class mma_kind : std::uint8_t { f16, tf32, f8f6f4, i8 };

constexpr std::string_view name(mma_kind k) { return k == mma_kind::f16 ? "f16" : k == mma_kind::tf32 ? "tf32" : k == mma_kind::f8f6f4 ? "f8f6f4" : "i8"; }

constexpr std::optional<mma_kind> kind_of(element operand) {
  switch (operand) {
    case element::f16: case element::bf16: return mma_kind::f16;
    case element::tf32: return mma_kind::tf32;
    case element::e4m3: case element::e5m2: case element::e3m2: case element::e2m3: case element::e2m1: return mma_kind::f8f6f4;
    case element::s8: case element::u8: return mma_kind::i8;
    default: return std::nullopt;
  }
}

/// Elements of K one instruction takes.
constexpr int k_per_instruction(mma_kind k) { return k == mma_kind::f16 ? 16 : k == mma_kind::tf32 ? 8 : 32; }

/// nullptr when D += A * B exists for these elements on either chip family, otherwise the rule it breaks.
constexpr const char* mma_elements_problem(element d, element a, element b) {
  const auto ka = kind_of(a), kb = kind_of(b);
  if (!ka || !kb) return "operands of a matrix product are f16, bf16, tf32, an 8-bit or smaller float, s8 or u8";
  if (*ka != *kb) return "both operands of a matrix product are of one kind: 16-bit floats, tf32, 8-bit floats or 8-bit integers";
  if (*ka == mma_kind::f16 && a != b) return "16-bit operands of a matrix product have the same element type";
  if (*ka == mma_kind::i8) return d == element::s32 ? nullptr : "an integer product accumulates in s32";
  if (d == element::f32) return nullptr;
  if (d == element::f16 && (a == element::f16 || *ka == mma_kind::f8f6f4)) return nullptr;
  return "a float product accumulates in f32 (or f16, from f16 and 8-bit floats)";
}

/// wgmma.m64nNk*: nullptr or the rule.
constexpr const char* wgmma_shape_problem(element d, element a, element b, int n) {
  if (const char* rule = mma_elements_problem(d, a, b)) return rule;
  if (*kind_of(a) == mma_kind::f8f6f4 && (bits(a) != 8 || bits(b) != 8)) return "wgmma has no operands of fewer than 8 bits";
  if (n < 8 || n > 256 || n % 8 != 0) return "N of wgmma is a multiple of 8 from 8 to 256";
  if (*kind_of(a) == mma_kind::i8 && n > 32 && n % 16 != 0) return "N of an integer wgmma is 8, 16, 24, 32, then a multiple of 16";
  return nullptr;
}

/// tcgen05.mma without scales: nullptr or the rule. `ctas` is the cta_group, m the rows of the whole group.
constexpr const char* tcgen05_shape_problem(element d, element a, element b, int ctas, int m, int n, bool b_transposed = false) {
  if (const char* rule = mma_elements_problem(d, a, b)) return rule;
  if (ctas != 1 && ctas != 2) return "tcgen05.mma runs on one CTA or a pair";
  if (ctas == 1 && m != 64 && m != 128) return "M of tcgen05.mma on one CTA is 64 or 128";
  if (ctas == 2 && m != 128 && m != 256) return "M of tcgen05.mma on a CTA pair is 128 or 256";
  if (n < 8 || n > 256) return "N of tcgen05.mma is from 8 to 256";
  const mma_kind kind = *kind_of(a);
  if (kind == mma_kind::i8) {
    if (ctas == 2 && n % 32 != 0) return "N of an integer tcgen05.mma on a CTA pair is a multiple of 32";
    if (ctas == 1 && n != 8 && n != 24 && n % 16 != 0) return "N of an integer tcgen05.mma is 8, 16, 24, 32, then a multiple of 16";
    return nullptr;
  }
  // With 128 rows on one CTA the ISA's table allows steps of 8, CUTLASS builds only steps of 16: we take the stricter one.
  int step = ctas == 2 || m == 128 ? 16 : 8;
  if (kind == mma_kind::f8f6f4 && b_transposed) step = ctas == 2 ? 32 : 16;
  if (n % step != 0)
    return step == 8 ? "N of this tcgen05.mma is a multiple of 8" : step == 16 ? "N of this tcgen05.mma is a multiple of 16" : "N of this tcgen05.mma is a multiple of 32";
  return nullptr;
}

/// Everything the instruction descriptor says.
struct tcgen05_instruction {
  element d = element::f32, a = element::bf16, b = element::bf16;
  int m = 128, n = 256;
  bool a_transposed = false, b_transposed = false;  // the MN axis is contiguous
  bool negate_a = false, negate_b = false;
  bool saturate = false;  // i8 only
};

namespace detail {
// Code of an operand's element in its kind.
constexpr std::uint32_t operand_code(element e) {
  switch (e) {
    case element::bf16: case element::e5m2: case element::s8: return 1;
    case element::tf32: return 2;
    case element::e2m3: return 3;
    case element::e3m2: return 4;
    case element::e2m1: return 5;
    default: return 0;  // f16, e4m3, u8
  }
}
}  // namespace detail

/// [3] saturate [4,6) D: 0 f16 1 f32 2 s32 [7,10) A [10,13) B [13] -A [14] -B [15] A transposed [16] B transposed [17,23) N/8 [24,29) M/16
constexpr std::uint32_t tcgen05_idesc(const tcgen05_instruction& i) {
  const std::uint32_t d = i.d == element::f16 ? 0 : i.d == element::f32 ? 1 : 2;
  return (i.saturate ? 1U << 3 : 0U) | (d << 4) | (detail::operand_code(i.a) << 7) | (detail::operand_code(i.b) << 10) | (i.negate_a ? 1U << 13 : 0U) |
         (i.negate_b ? 1U << 14 : 0U) | (i.a_transposed ? 1U << 15 : 0U) | (i.b_transposed ? 1U << 16 : 0U) | (static_cast<std::uint32_t>(i.n / 8) << 17) |
         (static_cast<std::uint32_t>(i.m / 16) << 24);
}

}  // namespace tlx::tile
