// Operand addressing against the canonical layouts written as shape:stride, and against what a swizzled tensor copy leaves in shared memory.
#include "sim/units/descriptor.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <set>

#include "sim/units/tensor_map.hpp"

using namespace tlx::sim;

namespace {

struct mode { operand_swizzle swizzle; int width; };
constexpr mode modes[] = {{operand_swizzle::none, 16}, {operand_swizzle::b32, 32}, {operand_swizzle::b64, 64}, {operand_swizzle::b128, 128}};

std::uint32_t xor_bits(operand_swizzle s, std::uint32_t a) {
  switch (s) {
    case operand_swizzle::none: return a;
    case operand_swizzle::b32: return swizzle_address(swizzle_mode::b32, a);
    case operand_swizzle::b64: return swizzle_address(swizzle_mode::b64, a);
    case operand_swizzle::b128: return swizzle_address(swizzle_mode::b128, a);
    case operand_swizzle::b128_atom32: return swizzle_address(swizzle_mode::b128_atom32, a);
  }
  return a;
}

std::uint64_t wgmma_bits(std::uint32_t start, std::uint32_t lbo, std::uint32_t sbo, std::uint64_t layout) {
  return (start >> 4) | std::uint64_t{lbo >> 4} << 16 | std::uint64_t{sbo >> 4} << 32 | layout << 62;
}

}  // namespace

TEST_CASE("K-major places are ((8,m),(T,2)) of the canonical layout") {
  for (const number element : {number::tf32, number::bf16, number::e4m3}) {
    const int size = bits_of(element) / 8, t = 16 / size, k_count = 32 / size;
    for (const mode& m : modes) {
      const shared_descriptor d{.start = 4096, .leading = 2048, .stride = 1024, .swizzle = m.swizzle};
      const operand_form f{.element = element, .rows = 64, .k = k_count};
      const int row_stride = m.swizzle == operand_swizzle::none ? t : m.width / size;
      for (int row = 0; row < 64; ++row)
        for (int k = 0; k < k_count; ++k) {
          const int along = m.swizzle == operand_swizzle::none ? k % t + k / t * (2048 / size) : k;
          const int elements = row % 8 * row_stride + row / 8 * (1024 / size) + along;
          const std::uint32_t want = xor_bits(m.swizzle, 4096 + static_cast<std::uint32_t>(elements * size));
          const element_place got = place_of(d, f, row, k);
          REQUIRE(got.address + got.bit / 8 == want);
        }
    }
  }
}

TEST_CASE("MN-major places are ((T,w,m),(8,k)) of the canonical layout") {
  for (const number element : {number::bf16, number::e4m3}) {
    const int size = bits_of(element) / 8, t = 16 / size, k_count = 32 / size;
    for (const mode& m : modes) {
      const std::uint32_t lbo = 8192, sbo = 1024;
      const shared_descriptor d{.start = 0, .leading = lbo, .stride = sbo, .swizzle = m.swizzle};
      const operand_form f{.element = element, .rows = 128, .k = k_count, .mn_major = true};
      for (int row = 0; row < 128; ++row)
        for (int k = 0; k < k_count; ++k) {
          const int w = m.width / 16;
          const int groups = m.swizzle == operand_swizzle::none ? row / t * static_cast<int>(sbo) / size : row / t % w * t + row / (t * w) * static_cast<int>(lbo) / size;
          const int ks = m.swizzle == operand_swizzle::none ? k % 8 * t + k / 8 * static_cast<int>(lbo) / size : k % 8 * w * t + k / 8 * static_cast<int>(sbo) / size;
          const std::uint32_t want = xor_bits(m.swizzle, static_cast<std::uint32_t>((row % t + groups + ks) * size));
          const element_place got = place_of(d, f, row, k);
          REQUIRE(got.address + got.bit / 8 == want);
        }
    }
  }
}

TEST_CASE("transposed tf32 has four k rows to an atom of 128-byte lines with 32-byte pieces") {
  const shared_descriptor d{.start = 0, .leading = 8192, .stride = 2048, .swizzle = operand_swizzle::b128_atom32};
  const operand_form f{.element = number::tf32, .rows = 64, .k = 8, .mn_major = true};
  for (int row = 0; row < 64; ++row)
    for (int k = 0; k < 8; ++k) {
      const std::uint32_t line = static_cast<std::uint32_t>(row % 32 * 4 + row / 32 * 8192 + k % 4 * 128 + k / 4 * 2048);
      const element_place got = place_of(d, f, row, k);
      REQUIRE(got.address + got.bit / 8 == swizzle_address(swizzle_mode::b128_atom32, line));
    }
}

TEST_CASE("what a swizzled tensor load puts into shared memory is what the descriptor reads") {
  std::mt19937 random(8);
  for (const mode& m : modes) {
    if (m.swizzle == operand_swizzle::none) continue;
    const int columns = m.width / 2, rows = 64;
    std::vector<std::uint16_t> global(static_cast<std::size_t>(rows * columns));
    for (std::uint16_t& x : global) x = static_cast<std::uint16_t>((random() & 0x80FFU) | 0x3F00U);
    tlx::device::tensor_map t;
    t.base = 65536;
    t.element = tlx::device::map_element::bf16;
    t.rank = 2;
    t.extents = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows), 1, 1, 1};
    t.strides_bytes[0] = static_cast<std::uint64_t>(m.width);
    t.box = {static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows), 1, 1, 1};
    t.swizzle_bytes = m.width;
    decoded_map map;
    REQUIRE_FALSE(decode_tensor_map(encode_tensor_map(t), map));
    std::vector<std::byte> shared(32768);
    const std::uint32_t base = 2048;
    std::vector<box_piece> pieces;
    const std::int32_t at[2] = {0, 0};
    REQUIRE_FALSE(walk_tile(map, at, false, pieces));
    for (const box_piece& p : pieces)
      for_swizzled_parts(map.swizzle, base, p, [&](std::uint32_t a, std::uint32_t done, std::uint32_t bytes) {
        std::memcpy(shared.data() + a, reinterpret_cast<const std::byte*>(global.data()) + (p.global - t.base) + done, bytes);
      });
    for (int k0 = 0; k0 < columns; k0 += 16) {  // K-major, advanced by bytes inside the atom
      shared_descriptor d;
      const std::uint64_t layout = m.width == 128 ? 1 : m.width == 64 ? 2 : 3;
      REQUIRE_FALSE(decode_wgmma_descriptor(wgmma_bits(base + static_cast<std::uint32_t>(k0 * 2), 16, static_cast<std::uint32_t>(8 * m.width), layout), d));
      std::vector<float> dense(static_cast<std::size_t>(rows) * 16);
      REQUIRE_FALSE(gather_floats(d, {.element = number::bf16, .rows = rows, .k = 16}, shared, dense.data()));
      for (int r = 0; r < rows; ++r)
        for (int k = 0; k < 16; ++k) REQUIRE(dense[static_cast<std::size_t>(r * 16 + k)] == bf16_to_f32(global[static_cast<std::size_t>(r * columns + k0 + k)]));
    }
    for (int k0 = 0; k0 < rows; k0 += 16) {  // the same tile read as MN-major: its columns are rows of the operand
      shared_descriptor d;
      const std::uint64_t layout = m.width == 128 ? 1 : m.width == 64 ? 2 : 3;
      REQUIRE_FALSE(decode_wgmma_descriptor(wgmma_bits(base + static_cast<std::uint32_t>(k0 * m.width), 4096, static_cast<std::uint32_t>(8 * m.width), layout), d));
      std::vector<float> dense(static_cast<std::size_t>(columns) * 16);
      REQUIRE_FALSE(gather_floats(d, {.element = number::bf16, .rows = columns, .k = 16, .mn_major = true}, shared, dense.data()));
      for (int r = 0; r < columns; ++r)
        for (int k = 0; k < 16; ++k) REQUIRE(dense[static_cast<std::size_t>(r * 16 + k)] == bf16_to_f32(global[static_cast<std::size_t>((k0 + k) * columns + r)]));
    }
  }
}

TEST_CASE("gathering agrees with single places for every element type") {
  std::mt19937 random(9);
  std::vector<std::byte> shared(65536);
  for (std::byte& b : shared) b = static_cast<std::byte>(random());
  struct probe { number element; int k; bool padded; };
  for (const probe& p : {probe{number::f16, 16, false}, {number::bf16, 16, false}, {number::tf32, 8, false}, {number::e4m3, 32, false}, {number::e5m2, 32, false},
                         {number::e2m1, 64, false}, {number::e2m1, 32, true}, {number::e3m2, 32, true}, {number::e2m3, 32, true}}) {
    const shared_descriptor d{.start = 1024, .leading = 16, .stride = 1024, .swizzle = operand_swizzle::b128};
    const operand_form f{.element = p.element, .rows = 128, .k = p.k, .padded = p.padded};
    std::vector<float> dense(static_cast<std::size_t>(f.rows * f.k));
    REQUIRE_FALSE(gather_floats(d, f, shared, dense.data()));
    std::vector<std::uint32_t> pieces;
    operand_pieces(d, f, pieces);
    const std::set<std::uint32_t> known(pieces.begin(), pieces.end());
    CHECK(known.size() == static_cast<std::size_t>(128 * 2));
    for (int r = 0; r < f.rows; ++r)
      for (int k = 0; k < f.k; ++k) {
        const element_place at = place_of(d, f, r, k);
        REQUIRE(known.count(at.address) == 1);
        std::uint64_t bits = 0;
        for (std::uint32_t i = 0; i < 8 && at.bit / 8 + i < 16; ++i) bits |= static_cast<std::uint64_t>(shared[at.address + at.bit / 8 + i]) << (8 * i);
        bits >>= at.bit % 8;
        const int width = bits_of(p.element);
        const float want = widen(p.element, static_cast<std::uint32_t>(bits & ((std::uint64_t{1} << width) - 1)));
        const float got = dense[static_cast<std::size_t>(r * f.k + k)];
        REQUIRE((got == want || (std::isnan(got) && std::isnan(want))));
      }
  }
  std::vector<std::int16_t> integers(64 * 32);
  const shared_descriptor d{.start = 0, .leading = 1024, .stride = 128};
  REQUIRE_FALSE(gather_integers(d, {.element = number::s8, .rows = 64, .k = 32}, shared, integers.data()));
  CHECK(integers[5 * 32 + 20] == static_cast<std::int8_t>(shared[5 * 16 + 1024 + 4]));
  std::vector<float> dense(64 * 16);
  CHECK(gather_floats({.start = 65520, .leading = 16, .stride = 128}, {}, shared, dense.data()).kind == misuse::out_of_bounds);
}

TEST_CASE("pieces merge to the bytes of the tile") {
  std::vector<std::uint32_t> pieces;
  operand_pieces({.start = 2048, .leading = 16, .stride = 1024, .swizzle = operand_swizzle::b128}, {.element = number::bf16, .rows = 64, .k = 64}, pieces);
  std::vector<byte_range> ranges;
  merge_pieces(pieces, ranges);
  REQUIRE(ranges.size() == 1);
  CHECK(ranges[0].begin == 2048);
  CHECK(ranges[0].end == 2048 + 64 * 128);
}

TEST_CASE("descriptor words decode and bad ones are refused") {
  shared_descriptor d;
  const std::uint64_t good = std::uint64_t{2} << 61 | std::uint64_t{1} << 46 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 16 | (0x8000 >> 4);
  REQUIRE_FALSE(decode_tcgen05_descriptor(good, d));
  CHECK(d.start == 0x8000);
  CHECK(d.stride == 1024);
  CHECK(d.leading == 16);
  CHECK(d.swizzle == operand_swizzle::b128);
  CHECK(decode_tcgen05_descriptor(good & ~(std::uint64_t{1} << 46), d).kind == misuse::descriptor_misuse);
  CHECK(decode_tcgen05_descriptor(good | std::uint64_t{1} << 61, d).kind == misuse::descriptor_misuse);
  CHECK(decode_tcgen05_descriptor(good | std::uint64_t{1} << 55, d).kind == misuse::descriptor_misuse);
  CHECK(decode_tcgen05_descriptor(good | std::uint64_t{1} << 52, d).kind == misuse::unsupported);
  CHECK(decode_wgmma_descriptor(std::uint64_t{1} << 53, d).kind == misuse::descriptor_misuse);
}

TEST_CASE("known instruction words decode to their shapes") {
  mma_instruction i;
  REQUIRE_FALSE(decode_instruction({.kind = mma_kind::f16}, 138413200U, i));  // bf16 to f32, 128 x 256
  CHECK(i.m == 128);
  CHECK(i.n == 256);
  CHECK(i.k == 16);
  CHECK(i.a == number::bf16);
  CHECK(i.d == number::f32);
  REQUIRE_FALSE(decode_instruction({.kind = mma_kind::f16, .cta_group = 2}, 272630928U, i));
  CHECK(i.m == 256);
  CHECK(form_of(i, false, 2).rows == 128);
  CHECK(decode_instruction({.kind = mma_kind::f16, .cta_group = 1}, 272630928U, i).kind == misuse::illegal_shape);
}

TEST_CASE("instruction words and descriptors that another compiler emits decode") {
  mma_instruction i;
  REQUIRE_FALSE(decode_instruction({.kind = mma_kind::tf32}, 135268624U, i));
  CHECK(i.m == 128);
  CHECK(i.n == 64);
  CHECK(i.k == 8);
  REQUIRE_FALSE(decode_instruction({.kind = mma_kind::mxf8f6f4}, 1218445344U, i));
  CHECK(i.m == 128);
  CHECK(i.n == 128);
  CHECK(i.scale_a_id == 2);
  CHECK(i.scale_b_id == 2);
  REQUIRE_FALSE(decode_instruction({.kind = mma_kind::mxf4, .scale_block = 32}, 1218446496U, i));
  CHECK(i.k == 64);
  CHECK(i.scale_a_id == 2);
  shared_descriptor d;
  REQUIRE_FALSE(decode_tcgen05_descriptor(4611756662049472514U, d));
  CHECK(d.start == 32);
  CHECK(d.stride == 1024);
  CHECK(d.swizzle == operand_swizzle::b128);
  REQUIRE_FALSE(decode_wgmma_descriptor(4611686293305295360U, d));
  CHECK(d.start == 8192);
  CHECK(d.stride == 1024);
  CHECK(d.swizzle == operand_swizzle::b128);
}

TEST_CASE("transposed operands need the swizzle of their kind") {
  mma_instruction i;
  const shared_descriptor wide{.swizzle = operand_swizzle::b128}, atoms{.swizzle = operand_swizzle::b128_atom32};
  i.transpose_b = true;
  i.kind = mma_kind::tf32;
  CHECK(check_operand(i, wide, true, {}).kind == misuse::descriptor_misuse);
  CHECK_FALSE(check_operand(i, atoms, true, {}));
  CHECK_FALSE(check_operand(i, wide, false, {}));
  i.kind = mma_kind::f16;
  CHECK(check_operand(i, atoms, true, {}).kind == misuse::descriptor_misuse);
  CHECK_FALSE(check_operand(i, wide, true, {}));
}

TEST_CASE("every legal dense shape is accepted and its neighbours are refused") {
  const auto word = [](int m, int n, std::uint32_t a, std::uint32_t b, std::uint32_t d) {
    return static_cast<std::uint32_t>(m >> 4) << 24 | static_cast<std::uint32_t>(n >> 3) << 17 | b << 10 | a << 7 | d << 4;
  };
  mma_instruction i;
  for (int group = 1; group <= 2; ++group)
    for (int m = 16; m <= 256; m += 16)
      for (int n = 8; n <= 256; n += 8) {
        const bool m_ok = group == 1 ? m == 64 || m == 128 : m == 128 || m == 256;
        CHECK(!decode_instruction({.kind = mma_kind::f16, .cta_group = group}, word(m, n, 1, 1, 1), i) == (m_ok && n % (8 * group) == 0));
        CHECK(!decode_instruction({.kind = mma_kind::tf32, .cta_group = group}, word(m, n, 2, 2, 1), i) == (m_ok && n % (8 * group) == 0));
        CHECK(!decode_instruction({.kind = mma_kind::f8f6f4, .cta_group = group}, word(m, n, 0, 5, 1) | 0U, i) == (m_ok && n % (8 * group) == 0));
        CHECK(!decode_instruction({.kind = mma_kind::f8f6f4, .cta_group = group}, word(m, n, 0, 0, 1) | 1U << 16, i) == (m_ok && n % (16 * group) == 0));
        const bool integer = group == 2 ? n % 32 == 0 : n == 8 || n == 24 || n % 16 == 0;
        CHECK(!decode_instruction({.kind = mma_kind::i8, .cta_group = group}, word(m, n, 1, 0, 2), i) == (m_ok && integer));
      }
  CHECK(decode_instruction({.kind = mma_kind::f16}, word(128, 64, 0, 1, 1), i).kind == misuse::descriptor_misuse);   // types do not mix
  CHECK(decode_instruction({.kind = mma_kind::f16}, word(128, 64, 1, 1, 0), i).kind == misuse::descriptor_misuse);   // bf16 into f16
  CHECK(decode_instruction({.kind = mma_kind::f16}, word(128, 64, 1, 1, 1) | 1U << 29, i).kind == misuse::descriptor_misuse);
  CHECK(decode_instruction({.kind = mma_kind::i8, .sm = 103}, word(128, 64, 1, 1, 2), i).kind == misuse::malformed);
  CHECK(decode_instruction({.kind = mma_kind::f16, .weight_stationary = true}, word(32, 64, 1, 1, 1), i).kind == misuse::none);
  CHECK(decode_instruction({.kind = mma_kind::f16, .weight_stationary = true}, word(32, 32, 1, 1, 1), i).kind == misuse::illegal_shape);
}

TEST_CASE("block-scaled words check scale types, ids and shapes") {
  const auto word = [](int m, int n, std::uint32_t a, std::uint32_t b, std::uint32_t ue8m0, std::uint32_t sfa, std::uint32_t sfb) {
    return static_cast<std::uint32_t>(m >> 7) << 27 | static_cast<std::uint32_t>(n >> 3) << 17 | b << 10 | a << 7 | ue8m0 << 23 | sfa << 29 | sfb << 4;
  };
  mma_instruction i;
  REQUIRE_FALSE(decode_instruction({.kind = mma_kind::mxf8f6f4}, word(128, 256, 0, 5, 1, 3, 1), i));
  CHECK(i.scale_a_id == 3);
  CHECK(i.scale_b_id == 1);
  CHECK(i.b == number::e2m1);
  CHECK(form_of(i, true, 1).padded);
  CHECK(decode_instruction({.kind = mma_kind::mxf8f6f4}, word(128, 256, 0, 0, 0, 0, 0), i).kind == misuse::descriptor_misuse);
  CHECK(decode_instruction({.kind = mma_kind::mxf8f6f4}, word(256, 256, 0, 0, 1, 0, 0), i).kind == misuse::illegal_shape);
  CHECK_FALSE(decode_instruction({.kind = mma_kind::mxf8f6f4, .cta_group = 2}, word(256, 256, 0, 0, 1, 0, 0), i));
  CHECK_FALSE(decode_instruction({.kind = mma_kind::mxf4}, word(128, 64, 1, 1, 1, 2, 0), i));
  CHECK(i.k == 64);
  CHECK_FALSE(form_of(i, false, 1).padded);
  CHECK(decode_instruction({.kind = mma_kind::mxf4}, word(128, 64, 1, 1, 1, 1, 0), i).kind == misuse::descriptor_misuse);
  CHECK(decode_instruction({.kind = mma_kind::mxf4nvf4}, word(128, 64, 1, 1, 0, 0, 0), i).kind == misuse::malformed);
  CHECK_FALSE(decode_instruction({.kind = mma_kind::mxf4nvf4, .scale_block = 16}, word(128, 64, 1, 1, 0, 0, 0), i));
  CHECK(decode_instruction({.kind = mma_kind::mxf4nvf4, .scale_block = 32}, word(128, 64, 1, 1, 0, 0, 0), i).kind == misuse::descriptor_misuse);
}

TEST_CASE("wgmma shapes and types") {
  CHECK_FALSE(check_wgmma({64, 256, 16}, number::bf16, number::bf16, number::f32, true, true, false));
  CHECK(check_wgmma({64, 12, 16}, number::bf16, number::bf16, number::f32, false, false, false).kind == misuse::illegal_shape);
  CHECK(check_wgmma({64, 64, 32}, number::bf16, number::bf16, number::f32, false, false, false).kind == misuse::illegal_shape);
  CHECK(check_wgmma({64, 64, 16}, number::bf16, number::f16, number::f32, false, false, false).kind == misuse::malformed);
  CHECK_FALSE(check_wgmma({64, 64, 32}, number::e4m3, number::e5m2, number::f16, false, false, false));
  CHECK(check_wgmma({64, 64, 32}, number::e4m3, number::e5m2, number::f16, false, true, false).kind == misuse::malformed);
  CHECK(check_wgmma({64, 40, 32}, number::s8, number::u8, number::s32, false, false, false).kind == misuse::illegal_shape);
  CHECK_FALSE(check_wgmma({64, 48, 32}, number::s8, number::u8, number::s32, false, false, false));
  CHECK(check_wgmma({64, 64, 16}, number::bf16, number::bf16, number::f32, true, false, true).kind == misuse::malformed);
}
