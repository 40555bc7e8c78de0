// The canonical layouts of the PTX ISA, written as mixed-radix formulas, against the placement of shared tiles.
#include "tlx/tile/matrix_descriptor.hpp"

#include <doctest/doctest.h>

#include "tlx/tile/mma_shape.hpp"

using namespace tlx::tile;

namespace {

// Element (mn, k) of one instruction -> bytes from the start address before the XOR, from LBO and SBO in the descriptor.
// T = 16 bytes in elements; shapes and strides as in the ISA's table, units elements.
long canonical(bool k_major, int width, long element_bytes, long lbo, long sbo, long mn, long k) {
  const long T = 16 / element_bytes;
  const long L = lbo / element_bytes, S = sbo / element_bytes;
  long offset = 0;
  if (k_major) {
    const long i0 = mn % 8, i1 = mn / 8, j0 = k % T, j1 = k / T;
    switch (width) {
      case 16: offset = i0 * T + i1 * S + j0 + j1 * L; break;
      case 32: offset = i0 * 2 * T + i1 * S + j0 + j1 * T; break;
      case 64: offset = i0 * 4 * T + i1 * S + j0 + j1 * T; break;
      default: offset = i0 * 8 * T + i1 * S + j0 + j1 * T; break;
    }
  } else {
    const long j0 = k % 8, j1 = k / 8;
    const long groups = width / 16;  // (T, groups, m)
    const long i0 = mn % T, i1 = mn / T % groups, i2 = mn / T / groups;
    if (width == 16) offset = i0 + i2 * S + j0 * T + j1 * L;
    else offset = i0 + i1 * T + i2 * L + j0 * groups * T + j1 * S;
  }
  return offset * element_bytes;
}

void check_operand(const matrix_operand& m) {
  CAPTURE(m.tile.rows);
  CAPTURE(m.tile.cols);
  CAPTURE(m.tile.swizzle_bytes);
  CAPTURE(m.is_transposed());
  REQUIRE(broken_rule(m) == nullptr);
  const std::uint64_t bits_of = wgmma_descriptor_bits(m);
  const long lbo = static_cast<long>((bits_of >> 16) & 0x3fff) * 16, sbo = static_cast<long>((bits_of >> 32) & 0x3fff) * 16;
  const int code = static_cast<int>(bits_of >> 62);
  const int width = code == 1 ? 128 : code == 2 ? 64 : code == 3 ? 32 : 16;
  REQUIRE(width == m.tile.swizzle_bytes);
  const int element_bytes = bits(m.tile.type) / 8, k_step = 32 / element_bytes;
  bool right = true;
  for (int first : {0, 64}) {
    if (first + 64 > m.mn_extent() || !m.can_start_at(first)) continue;
    for (int step = 0; step < m.k_steps(); ++step)
      for (int mn = 0; mn + first < m.mn_extent(); ++mn)
        for (int k = 0; k < k_step; ++k) {
          const long start = m.k_offset(step) + m.mn_offset(first);
          const long address = start + canonical(m.major_axis() == major::k, width, element_bytes, lbo, sbo, mn, k);
          const long read = static_cast<long>(swizzled(static_cast<unsigned>(address), width));
          const int kk = step * k_step + k, mm = first + mn;
          const int wrote = m.side == operand_side::a ? m.tile.offset(mm, kk) : m.tile.offset(kk, mm);
          if (read != wrote) right = false;
        }
  }
  CHECK(right);
}

}  // namespace

TEST_CASE("operands with K contiguous are read where shared tiles place them, for every swizzle") {
  for (int width : {16, 32, 64, 128})
    for (int rows : {8, 64, 128, 192}) {
      check_operand({{element::bf16, rows, 128, width, false}, operand_side::a});
      check_operand({shared_tile{element::bf16, rows, 64, width, false}.transpose(), operand_side::b});
      check_operand({{element::e4m3, rows, 128, width, false}, operand_side::a});
      check_operand({{element::tf32, rows, 32, width, false}, operand_side::a});
    }
  check_operand({make_shared_tile(element::bf16, 64, 96), operand_side::a});  // 64-byte swizzle, three chunks
}

TEST_CASE("operands with M or N contiguous are read where shared tiles place them, for every swizzle") {
  for (int width : {16, 32, 64, 128})
    for (int k : {16, 64, 128}) {
      check_operand({{element::bf16, k, 128, width, false}, operand_side::b});
      check_operand({shared_tile{element::f16, k, 192, width, false}.transpose(), operand_side::a});
      if (k >= 32) check_operand({{element::e4m3, k, 256, width, false}, operand_side::b});
    }
  check_operand({make_shared_tile(element::bf16, 64, 96), operand_side::b});
}

TEST_CASE("the descriptors measured on a Hopper card come out bit for bit") {
  const shared_tile t = make_shared_tile(element::bf16, 64, 128);
  CHECK(wgmma_descriptor_bits(t, operand_side::a) == ((1ULL << 16) | (64ULL << 32) | (1ULL << 62)));
  const matrix_operand k_major{t, operand_side::a}, mn_major{t, operand_side::b};
  CHECK(k_major.k_offset(1) == 32);
  CHECK(k_major.k_offset(4) == 8192);
  CHECK(mn_major.is_transposed());
  CHECK(wgmma_descriptor_bits(mn_major) == ((512ULL << 16) | (64ULL << 32) | (1ULL << 62)));
  CHECK(mn_major.k_offset(1) == 128 * 16);
  CHECK(mn_major.mn_offset(64) == 8192);
}

TEST_CASE("the Blackwell descriptor of a K-major 128-byte swizzled tile is the known one") {
  const shared_tile t = make_shared_tile(element::bf16, 128, 64);
  const std::uint64_t got = tcgen05_descriptor_bits(t, operand_side::a) | matrix_start(0x8000);
  const std::uint64_t known = (2ULL << 61) | (1ULL << 46) | ((1024ULL >> 4) << 32) | (1ULL << 16) | (0x8000 >> 4);
  CHECK(got == known);
  CHECK((tcgen05_descriptor_bits({element::bf16, 128, 64, 64, false}, operand_side::a) >> 61) == 4);
  CHECK((tcgen05_descriptor_bits({element::bf16, 128, 64, 32, false}, operand_side::a) >> 61) == 6);
  CHECK((tcgen05_descriptor_bits({element::bf16, 128, 64, 16, false}, operand_side::a) >> 61) == 0);
}

TEST_CASE("tiles that no descriptor can say are refused with the rule") {
  CHECK(broken_rule(matrix_operand{{element::bf16, 64, 64, 0, false}, operand_side::a}) != nullptr);
  CHECK(broken_rule(matrix_operand{{element::bf16, 60, 64, 128, false}, operand_side::a}) != nullptr);
  CHECK(broken_rule(matrix_operand{{element::bf16, 64, 24, 16, false}, operand_side::a}) != nullptr);
  CHECK(broken_rule(matrix_operand{{element::tf32, 64, 64, 128, false}, operand_side::b}) != nullptr);
  CHECK(broken_wgmma_rule(matrix_operand{{element::e4m3, 64, 128, 128, false}, operand_side::b}) != nullptr);
  CHECK(broken_wgmma_rule(matrix_operand{{element::bf16, 64, 64, 128, false}, operand_side::b}) == nullptr);
  CHECK_FALSE(matrix_operand{{element::bf16, 64, 192, 128, false}, operand_side::b}.can_start_at(96));  // a warp tile of 96 cuts an atom
}

TEST_CASE("instruction descriptors equal those of other compilers") {
  CHECK(tcgen05_idesc({.m = 128, .n = 256}) == 138413200U);
  CHECK(tcgen05_idesc({.m = 256, .n = 256}) == 272630928U);
  CHECK(tcgen05_idesc({.a = element::f16, .b = element::f16, .m = 64, .n = 8, .b_transposed = true}) == ((1U << 4) | (1U << 16) | (1U << 17) | (4U << 24)));
  CHECK(tcgen05_idesc({.d = element::s32, .a = element::s8, .b = element::u8, .m = 128, .n = 32, .saturate = true}) ==
        ((1U << 3) | (2U << 4) | (1U << 7) | (4U << 17) | (8U << 24)));
  CHECK(tcgen05_idesc({.a = element::e2m1, .b = element::e3m2, .m = 128, .n = 16, .negate_b = true}) ==
        ((1U << 4) | (5U << 7) | (4U << 10) | (1U << 14) | (2U << 17) | (8U << 24)));
}

TEST_CASE("shapes the tensor cores lack are refused") {
  using enum element;
  CHECK(wgmma_shape_problem(f32, bf16, bf16, 224) == nullptr);
  CHECK(wgmma_shape_problem(f32, bf16, bf16, 264) != nullptr);
  CHECK(wgmma_shape_problem(f32, bf16, f16, 64) != nullptr);
  CHECK(wgmma_shape_problem(f16, bf16, bf16, 64) != nullptr);
  CHECK(wgmma_shape_problem(f32, e4m3, e5m2, 64) == nullptr);
  CHECK(wgmma_shape_problem(s32, s8, u8, 40) != nullptr);
  CHECK(wgmma_shape_problem(f32, f32, f32, 64) != nullptr);
  CHECK(tcgen05_shape_problem(f32, bf16, bf16, 1, 128, 256) == nullptr);
  CHECK(tcgen05_shape_problem(f32, bf16, bf16, 1, 128, 8) != nullptr);
  CHECK(tcgen05_shape_problem(f32, bf16, bf16, 1, 64, 8) == nullptr);
  CHECK(tcgen05_shape_problem(f32, bf16, bf16, 1, 256, 128) != nullptr);
  CHECK(tcgen05_shape_problem(f32, bf16, bf16, 2, 256, 128) == nullptr);
  CHECK(tcgen05_shape_problem(f32, e4m3, e4m3, 2, 256, 48, true) != nullptr);
  CHECK(tcgen05_shape_problem(s32, s8, s8, 1, 128, 40) != nullptr);
}
