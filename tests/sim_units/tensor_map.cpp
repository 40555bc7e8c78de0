// Tensor maps: the rules one by one, the byte form, the box walk against one element at a time, swizzles against their bit definition.
#include "sim/units/tensor_map.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "tlx/support/error.hpp"

using namespace tlx::sim;
using tlx::device::map_element;
using map_t = tlx::device::tensor_map;

namespace {

map_t plain() {
  map_t m;
  m.base = 4096;
  m.element = map_element::bf16;
  m.rank = 2;
  m.extents = {100, 50, 1, 1, 1};
  m.strides_bytes = {256, 0, 0, 0};
  m.box = {64, 8, 1, 1, 1};
  m.swizzle_bytes = 128;
  return m;
}

decoded_map decoded(const map_t& m) {
  const map_blob blob = encode_tensor_map(m);
  decoded_map d;
  const complaint c = decode_tensor_map(blob, d);
  INFO(c.text);
  REQUIRE_FALSE(c);
  return d;
}

std::uint32_t bit(std::uint32_t a, int i) { return (a >> i) & 1U; }

}  // namespace

TEST_CASE("each rule of the driver is refused by name, and the limit itself is accepted") {
  CHECK(tensor_map_refusal(plain()).empty());
  const auto refuses = [](const std::function<void(map_t&)>& change, const char* word) {
    map_t m = plain();
    change(m);
    INFO(word, ": ", tensor_map_refusal(m));
    CHECK(tensor_map_refusal(m).find(word) != std::string::npos);
    CHECK_THROWS_AS(encode_tensor_map(m), tlx::user_error);
  };
  const auto accepts = [](const std::function<void(map_t&)>& change) {
    map_t m = plain();
    change(m);
    INFO(tensor_map_refusal(m));
    CHECK(tensor_map_refusal(m).empty());
  };
  refuses([](map_t& m) { m.rank = 0; }, "rank");
  refuses([](map_t& m) { m.rank = 6; }, "rank");
  refuses([](map_t& m) { m.base += 8; }, "base");
  accepts([](map_t& m) { m.base += 16; });
  refuses([](map_t& m) { m.extents[0] = (std::uint64_t{1} << 32) + 1; }, "extent");
  accepts([](map_t& m) { m.extents[0] = std::uint64_t{1} << 32; });
  refuses([](map_t& m) { m.strides_bytes[0] = 264; }, "stride");
  refuses([](map_t& m) { m.strides_bytes[0] = std::uint64_t{1} << 40; }, "stride");
  refuses([](map_t& m) { m.box[1] = 257; }, "box");
  accepts([](map_t& m) { m.box[1] = 256; });
  refuses([](map_t& m) { m.box[0] = 0; }, "box");
  refuses([](map_t& m) { m.box[0] = 12; }, "16 bytes");
  refuses([](map_t& m) { m.box[0] = 72; }, "exceeds the swizzle");
  refuses([](map_t& m) { m.swizzle_bytes = 32; }, "exceeds the swizzle");
  refuses([](map_t& m) { m.swizzle_bytes = 96; }, "swizzle");
  refuses([](map_t& m) { m.element_strides[1] = 9; }, "element stride");
  refuses([](map_t& m) { m.element = map_element::s32, m.box[0] = 32, m.oob_nan = true; }, "NaN");
  refuses([](map_t& m) { m.interleave_bytes = 16; }, "rank 3");
  refuses([](map_t& m) { m.rank = 3, m.strides_bytes[1] = 25600, m.interleave_bytes = 32; }, "32-byte swizzle");
  refuses([](map_t& m) { m.l2_promotion_bytes = 100; }, "L2");
  refuses([](map_t& m) { m.element = map_element::u4x16_align16, m.box[0] = 64, m.extents[0] = 256; }, "128 elements");
  refuses([](map_t& m) { m.element = map_element::u4x16_align16, m.box[0] = 128; }, "multiple of 128");
  refuses([](map_t& m) { m.element = map_element::u4x16_align16, m.box[0] = 128, m.extents[0] = 256, m.base = 4096 + 16; }, "multiple of 32");
}

TEST_CASE("a map survives being copied as bytes, and other bytes are no map") {
  map_t m = plain();
  m.oob_nan = true;
  m.element_strides[1] = 3;
  const map_blob blob = encode_tensor_map(m);
  map_blob copy{};
  std::memcpy(copy.data(), blob.data(), blob.size());
  decoded_map d;
  REQUIRE_FALSE(decode_tensor_map(copy, d));
  CHECK(d.map.base == m.base);
  CHECK(d.map.extents[0] == 100);
  CHECK(d.map.extents[1] == 50);
  CHECK(d.map.strides_bytes[0] == 256);
  CHECK(d.map.box[0] == 64);
  CHECK(d.map.element_strides[1] == 3);
  CHECK(d.map.oob_nan);
  CHECK(d.map.rank == 2);
  CHECK(d.swizzle == swizzle_mode::b128);
  copy[0] = std::byte{0};
  CHECK(decode_tensor_map(copy, d).kind == misuse::descriptor_misuse);
  CHECK(decode_tensor_map(map_blob{}, d).kind == misuse::descriptor_misuse);
}

TEST_CASE("tensormap.replace builds the same map from zero bytes") {
  map_blob blob{};
  const auto set = [&](map_field f, int i, std::uint64_t v) { REQUIRE_FALSE(replace_map_field(blob, f, i, v)); };
  set(map_field::global_address, 0, 4096);
  set(map_field::rank, 0, 1);
  set(map_field::box_dim, 0, 64);
  set(map_field::box_dim, 1, 8);
  set(map_field::global_dim, 0, 100);
  set(map_field::global_dim, 1, 50);
  set(map_field::global_stride, 0, 256);
  set(map_field::element_stride, 0, 1);
  set(map_field::element_stride, 1, 1);
  set(map_field::elemtype, 0, 10);
  set(map_field::interleave_layout, 0, 0);
  set(map_field::swizzle_mode, 0, 3);
  set(map_field::fill_mode, 0, 0);
  map_t m = plain();
  m.l2_promotion_bytes = 0;
  CHECK(blob == encode_tensor_map(m));
  CHECK(replace_map_field(blob, map_field::elemtype, 0, 16).kind == misuse::descriptor_misuse);
  CHECK(replace_map_field(blob, map_field::box_dim, 5, 1).kind == misuse::malformed);
  set(map_field::global_stride, 0, 250);
  decoded_map d;
  CHECK(decode_tensor_map(blob, d).kind == misuse::descriptor_misuse);
  set(map_field::global_stride, 0, 256);
  set(map_field::swizzle_atomicity, 0, 1);
  REQUIRE_FALSE(decode_tensor_map(blob, d));
  CHECK(d.swizzle == swizzle_mode::b128_atom32);
}

TEST_CASE("the walk equals one element at a time") {
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) { return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)); };
  for (int round = 0; round < 400; ++round) {
    map_t m;
    m.base = 1 << 20;
    m.element = round % 3 == 0 ? map_element::u8 : round % 3 == 1 ? map_element::bf16 : map_element::f32;
    const int size = element_bits(m.element) / 8;
    m.rank = pick(1, 5);
    m.box[0] = static_cast<std::uint32_t>(16 / size * pick(1, 4));
    std::uint64_t stride = 1024;
    for (std::size_t d = 0; d < static_cast<std::size_t>(m.rank); ++d) {
      m.extents[d] = static_cast<std::uint64_t>(pick(1, d == 0 ? 90 : 7));
      if (d > 0) {
        m.box[d] = static_cast<std::uint32_t>(pick(1, 4));
        m.element_strides[d] = static_cast<std::uint32_t>(pick(1, 3));
        m.strides_bytes[d - 1] = stride;
        stride *= 8;
      }
    }
    const decoded_map map = decoded(m);
    std::int32_t at[5];
    const bool store = round % 4 == 0;
    for (int d = 0; d < m.rank; ++d) at[d] = pick(store ? 0 : -9, d == 0 ? 95 : 8);
    at[0] = at[0] * size / 16 * 16 / size;  // anything but whole 16 bytes is an illegal instruction
    std::vector<box_piece> pieces;
    REQUIRE_FALSE(walk_tile(map, {at, static_cast<std::size_t>(m.rank)}, store, pieces));
    std::map<std::uint32_t, std::uint64_t> got;  // shared byte -> global byte, 0 for fill
    for (const box_piece& p : pieces)
      for (std::uint32_t i = 0; i < p.bytes; ++i) {
        REQUIRE(got.count(p.shared_offset + i) == 0);
        got[p.shared_offset + i] = p.kind == box_piece::what::fill ? 0 : p.global + i;
      }
    std::map<std::uint32_t, std::uint64_t> want;
    std::uint32_t offset = 0;
    const auto count = [&](std::size_t d) { return d >= static_cast<std::size_t>(m.rank) ? 1U : (m.box[d] + m.element_strides[d] - 1) / m.element_strides[d]; };
    for (std::uint32_t i4 = 0; i4 < count(4); ++i4)
      for (std::uint32_t i3 = 0; i3 < count(3); ++i3)
        for (std::uint32_t i2 = 0; i2 < count(2); ++i2)
          for (std::uint32_t i1 = 0; i1 < count(1); ++i1)
            for (std::uint32_t i0 = 0; i0 < m.box[0]; ++i0) {
              const std::uint32_t index[5] = {i0, i1, i2, i3, i4};
              bool inside = true;
              std::uint64_t address = m.base;
              for (std::size_t d = 0; d < static_cast<std::size_t>(m.rank); ++d) {
                const std::int64_t x = at[d] + std::int64_t{index[d]} * (d == 0 ? 1 : m.element_strides[d]);
                const std::int64_t extent = static_cast<std::int64_t>(m.extents[d]), piece = 16 / size;  // a store writes whole pieces of 16 bytes of a row
                inside = inside && x >= 0 && x < (store && d == 0 ? (extent + piece - 1) / piece * piece : extent);
                address += static_cast<std::uint64_t>(x) * (d == 0 ? static_cast<std::uint64_t>(size) : m.strides_bytes[d - 1]);
              }
              for (int b = 0; b < size; ++b, ++offset)
                if (inside || !store) want[offset] = inside ? address + static_cast<std::uint64_t>(b) : 0;
            }
    REQUIRE(got == want);
    CHECK(box_shared_bytes(map) == offset);
    CHECK(box_transaction_bytes(map) == offset);
  }
}

// Seen on an H200, as the next: tests/compare/tensor_copies.cpp.
TEST_CASE("a store writes the 16-byte piece that the tensor's end cuts, in rows of the tensor only, and a load fills it") {
  map_t m = plain();  // rows of 200 bytes, 256 apart
  m.box = {64, 2, 1, 1, 1};
  const decoded_map map = decoded(m);
  std::vector<box_piece> pieces;
  const std::int32_t at[2] = {64, 49};
  REQUIRE_FALSE(walk_tile(map, at, true, pieces));
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].global == 4096 + 49 * 256 + 128);
  CHECK(pieces[0].bytes == 80);
  REQUIRE_FALSE(walk_tile(map, at, false, pieces));
  CHECK(pieces[0].bytes == 72);
  const std::int32_t beyond[2] = {104, 0};
  REQUIRE_FALSE(walk_tile(map, beyond, true, pieces));
  CHECK(pieces.empty());
}

TEST_CASE("a load of tf32 rounds to nearest") {
  const auto loaded = [](map_element e, std::uint32_t word) {
    convert_loaded(e, reinterpret_cast<std::byte*>(&word), 4);
    return word;
  };
  CHECK(loaded(map_element::tf32, 0x3F34F692) == 0x3F350000);
  CHECK(loaded(map_element::tf32, 0x3F34E768) == 0x3F34E000);
  CHECK(loaded(map_element::tf32_ftz, 0x3F34F692) == 0x3F350000);
  CHECK(loaded(map_element::f32, 0x3F34F692) == 0x3F34F692);
  CHECK(loaded(map_element::f32_ftz, 0x80000001) == 0x80000001);
  CHECK(loaded(map_element::tf32_ftz, 0x80010000) == 0x80010000);
  CHECK(loaded(map_element::f32_ftz, 0x3F34F692) == 0x3F34F692);
}

TEST_CASE("an inner coordinate off a multiple of 16 bytes is refused, and a row of a swizzled box takes the swizzle") {
  map_t m = plain();
  m.box[0] = 16;
  m.box[1] = 4;
  m.swizzle_bytes = 128;
  const decoded_map map = decoded(m);
  const int size = element_bits(m.element) / 8;
  std::vector<box_piece> pieces;
  const std::int32_t off[2] = {1, 0}, on[2] = {16 / size, 0};
  CHECK(walk_tile(map, off, false, pieces).kind == misuse::misaligned);
  REQUIRE_FALSE(walk_tile(map, on, false, pieces));
  CHECK(pieces.size() >= 4);
  CHECK(pieces.back().shared_offset + pieces.back().bytes == static_cast<std::uint32_t>(3 * 128 + 16 * size));
  CHECK(box_shared_bytes(map) == static_cast<std::uint32_t>(3 * 128 + 16 * size));
  CHECK(box_transaction_bytes(map) == static_cast<std::uint32_t>(4 * 16 * size));
}

TEST_CASE("stores refuse negative starts and loads do not") {
  const decoded_map map = decoded(plain());
  std::vector<box_piece> pieces;
  const std::int32_t at[2] = {-8, 0};
  CHECK(walk_tile(map, at, true, pieces).kind == misuse::out_of_bounds);
  CHECK_FALSE(walk_tile(map, at, false, pieces));
  CHECK(walk_tile(map, std::span(at, 1), false, pieces).kind == misuse::descriptor_misuse);
}

TEST_CASE("an empty tensor is all outside: loads fill, stores do nothing") {
  map_t m = plain();
  m.base = 0;
  m.extents[1] = 0;
  const decoded_map map = decoded(m);
  CHECK(map.map.extents[1] == 0);
  CHECK(map.map.extents[0] == 100);
  std::vector<box_piece> pieces;
  const std::int32_t at[2] = {0, 0};
  REQUIRE_FALSE(walk_tile(map, at, false, pieces));
  REQUIRE(pieces.size() == 1);
  CHECK(pieces[0].kind == box_piece::what::fill);
  CHECK(pieces[0].bytes == 1024);
  REQUIRE_FALSE(walk_tile(map, at, true, pieces));
  CHECK(pieces.empty());
}

TEST_CASE("the fill is zero, or a NaN of the element") {
  map_t m = plain();
  CHECK(fill_pattern(decoded(m)) == std::array<std::byte, 16>{});
  m.oob_nan = true;
  std::uint16_t first = 0;
  std::memcpy(&first, fill_pattern(decoded(m)).data(), 2);
  CHECK(first == 0x7FF7);  // as an H200, for every element
  for (const map_element e : {map_element::f16, map_element::f32, map_element::f64, map_element::tf32}) {
    m.element = e;
    m.box[0] = 16;
    m.extents[0] = 16;
    CHECK(fill_pattern(decoded(m))[4] == std::byte{0xF7});
    CHECK(fill_pattern(decoded(m))[5] == std::byte{0x7F});
  }
}

TEST_CASE("gather4 stacks four rows and fills those outside") {
  map_t m = plain();
  m.box[1] = 1;
  const decoded_map map = decoded(m);
  std::vector<box_piece> pieces;
  const std::int32_t rows[4] = {3, 49, 50, -1};
  REQUIRE_FALSE(walk_rows(map, 0, rows, false, pieces));
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].global == 4096 + 3 * 256);
  CHECK(pieces[0].bytes == 128);
  CHECK(pieces[1].global == 4096 + 49 * 256);
  CHECK(pieces[1].shared_offset == 128);
  CHECK(pieces[2].kind == box_piece::what::fill);
  CHECK(pieces[2].bytes == 256);
  CHECK(box_transaction_bytes(map, true) == 512);
  CHECK(walk_rows(map, 0, rows, true, pieces).kind == misuse::out_of_bounds);
}

TEST_CASE("padded sub-byte loads leave the pad alone") {
  map_t m = plain();
  m.element = map_element::u6x16_align16;
  m.extents[0] = 256;
  m.box = {128, 2, 1, 1, 1};
  const decoded_map map = decoded(m);
  std::vector<box_piece> pieces;
  const std::int32_t at[2] = {128, 1};
  REQUIRE_FALSE(walk_tile(map, at, false, pieces));
  REQUIRE(pieces.size() == 32);
  CHECK(pieces[0].bytes == 12);
  CHECK(pieces[0].global == 4096 + 256 + 96);
  CHECK(pieces[1].kind == box_piece::what::pad);
  CHECK(pieces[1].bytes == 4);
  CHECK(pieces[2].shared_offset == 16);
  CHECK(pieces[2].global == pieces[0].global + 12);
  CHECK(box_shared_bytes(map) == 256);
  CHECK(box_transaction_bytes(map) == 192);
}

TEST_CASE("every swizzle is its bit definition and a bijection") {
  for (std::uint32_t a = 0; a < 4096; ++a) {
    CHECK(swizzle_address(swizzle_mode::none, a) == a);
    std::uint32_t want = a;
    for (int i = 0; i < 3; ++i) want ^= bit(a, 7 + i) << (4 + i);
    REQUIRE(swizzle_address(swizzle_mode::b128, a) == want);
    want = a ^ bit(a, 7) << 4 ^ bit(a, 8) << 5;
    REQUIRE(swizzle_address(swizzle_mode::b64, a) == want);
    REQUIRE(swizzle_address(swizzle_mode::b32, a) == (a ^ bit(a, 7) << 4));
    want = a ^ bit(a, 7) << 5 ^ bit(a, 8) << 6;
    REQUIRE(swizzle_address(swizzle_mode::b128_atom32, a) == want);
    REQUIRE(swizzle_address(swizzle_mode::b128_atom32_flip8, a) == (want ^ bit(a, 7) << 3));
    REQUIRE(swizzle_address(swizzle_mode::b128_atom64, a) == (a ^ bit(a, 7) << 6));
  }
  for (const swizzle_mode mode : {swizzle_mode::b32, swizzle_mode::b64, swizzle_mode::b128, swizzle_mode::b128_atom32, swizzle_mode::b128_atom32_flip8,
                                  swizzle_mode::b128_atom64, swizzle_mode::b96}) {
    std::vector<bool> hit(4096);
    for (std::uint32_t a = 0; a < 4096; ++a) {
      const std::uint32_t s = swizzle_address(mode, a + (3U << 24));
      REQUIRE((s >> 24) == 3);
      REQUIRE_FALSE(hit[s & 0xFFFFFFU]);
      hit[s & 0xFFFFFFU] = true;
    }
  }
}

TEST_CASE("swizzled parts cover a piece byte by byte") {
  const box_piece piece{.shared_offset = 200, .bytes = 300};
  for (const swizzle_mode mode : {swizzle_mode::none, swizzle_mode::b128, swizzle_mode::b128_atom32_flip8}) {
    std::uint32_t covered = 0;
    for_swizzled_parts(mode, 1024, piece, [&](std::uint32_t address, std::uint32_t done, std::uint32_t bytes) {
      for (std::uint32_t i = 0; i < bytes; ++i) REQUIRE(address + i == swizzle_address(mode, 1024 + 200 + done + i));
      covered += bytes;
    });
    CHECK(covered == 300);
  }
}

TEST_CASE("reductions work element by element") {
  const auto one = [](reduce_op op, reduce_type t, auto x, auto y) {
    decltype(x) to = x, from = y;
    reduce_elements(op, t, reinterpret_cast<std::byte*>(&to), reinterpret_cast<const std::byte*>(&from), sizeof to);
    return to;
  };
  CHECK(one(reduce_op::add, reduce_type::u32, 0xFFFFFFFFU, 3U) == 2);
  CHECK(one(reduce_op::min, reduce_type::s32, std::uint32_t{5}, ~0U) == ~0U);
  CHECK(one(reduce_op::min, reduce_type::u32, std::uint32_t{5}, ~0U) == 5);
  CHECK(one(reduce_op::max, reduce_type::s64, std::int64_t{-5}, std::int64_t{-7}) == -5);
  CHECK(one(reduce_op::inc, reduce_type::u32, 7U, 7U) == 0);
  CHECK(one(reduce_op::inc, reduce_type::u32, 6U, 7U) == 7);
  CHECK(one(reduce_op::dec, reduce_type::u32, 0U, 7U) == 7);
  CHECK(one(reduce_op::dec, reduce_type::u32, 9U, 7U) == 7);
  CHECK(one(reduce_op::dec, reduce_type::u32, 5U, 7U) == 4);
  CHECK(one(reduce_op::logic_xor, reduce_type::b64, std::uint64_t{6}, std::uint64_t{3}) == 5);
  CHECK(one(reduce_op::add, reduce_type::f32, 1.5F, 2.0F) == 3.5F);
  CHECK(one(reduce_op::add, reduce_type::f32, 1e-40F, 0.0F) == 1e-40F);
  float tiny = 1e-40F, nothing = 0;
  reduce_elements(reduce_op::add, reduce_type::f32, reinterpret_cast<std::byte*>(&tiny), reinterpret_cast<const std::byte*>(&nothing), 4, true);
  CHECK(tiny == 0.0F);
  CHECK(one(reduce_op::add, reduce_type::f64, 1.5, 1e-320) == 1.5);
  CHECK(one(reduce_op::add, reduce_type::f16, std::uint16_t{1}, std::uint16_t{1}) == 2);
  CHECK(one(reduce_op::max, reduce_type::bf16, std::uint16_t{0x7FFF}, std::uint16_t{0x3F80}) == 0x3F80);
  CHECK_FALSE(reduce_allowed(reduce_op::add, reduce_type::f64, reduce_place::global_bulk));
  CHECK(reduce_allowed(reduce_op::add, reduce_type::f64, reduce_place::global_tensor).kind == misuse::malformed);
  CHECK(reduce_allowed(reduce_op::add, reduce_type::f32, reduce_place::shared_cluster).kind == misuse::malformed);
  reduce_type t{};
  CHECK_FALSE(reduce_type_of(map_element::s32, reduce_op::logic_and, t));
  CHECK(t == reduce_type::b32);
  CHECK(reduce_type_of(map_element::u8, reduce_op::add, t).kind == misuse::malformed);
}
