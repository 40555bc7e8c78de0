// Tensor memory: allocator scenarios, register maps as bijections, copies, layouts and scales.
#include "sim/units/tensor_memory.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>

#include "sim/units/matrix.hpp"

using namespace tlx::sim;

namespace {

std::unique_ptr<tensor_memory> full(int cta = 0) {
  auto t = std::make_unique<tensor_memory>();
  int column = -1;
  REQUIRE_FALSE(t->allocate(cta, 512, column));
  REQUIRE(column == 0);
  return t;
}

}  // namespace

TEST_CASE("columns are allocated in powers of two, block when full and come back") {
  tensor_memory t;
  int a = -1, b = -1, c = -1;
  CHECK(t.allocate(1, 48, a).kind == misuse::tmem_misuse);
  CHECK(t.allocate(1, 16, a).kind == misuse::tmem_misuse);
  CHECK(t.allocate(1, 1024, a).kind == misuse::tmem_misuse);
  REQUIRE_FALSE(t.allocate(1, 256, a));
  REQUIRE_FALSE(t.allocate(2, 128, b));
  CHECK(a == 0);
  CHECK(b == 256);
  REQUIRE_FALSE(t.allocate(2, 256, c));
  CHECK(c == -1);
  CHECK_FALSE(t.check_columns(1, 0, 256));
  CHECK(t.check_columns(1, 0, 257).kind == misuse::tmem_misuse);
  CHECK(t.check_columns(1, 384, 1).text.find("not allocated") != std::string::npos);
  CHECK(t.release(2, tmem_address(0, 0), 256).kind == misuse::tmem_misuse);
  CHECK(t.release(1, tmem_address(0, 0), 128).kind == misuse::tmem_misuse);
  CHECK(t.release(1, tmem_address(0, 32), 32).kind == misuse::tmem_misuse);
  REQUIRE_FALSE(t.release(1, tmem_address(0, 0), 256));
  CHECK(t.release(1, tmem_address(0, 0), 256).kind == misuse::tmem_misuse);
  REQUIRE_FALSE(t.allocate(2, 256, c));
  CHECK(c == 0);
  CHECK(t.allocation_lint(2, 512).kind == misuse::tmem_misuse);
  CHECK_FALSE(t.allocation_lint(2, 256));
  t.relinquish(2);
  CHECK(t.allocate(2, 32, a).kind == misuse::tmem_misuse);
  CHECK(t.end_of_cta(2).kind == misuse::tmem_misuse);
  CHECK_FALSE(t.end_of_cta(1));
  CHECK(t.owner(0) == -1);
}

TEST_CASE("each shape and repeat is a bijection onto its lanes and columns") {
  struct probe { tmem_shape shape; int lanes, columns_per; };
  for (const probe& p : {probe{tmem_shape::s32x32b, 32, 1}, {tmem_shape::s16x64b, 16, 2}, {tmem_shape::s16x128b, 16, 4}, {tmem_shape::s16x256b, 16, 8}})
    for (int n = 1; n <= 128; n *= 2) {
      tmem_access a{.shape = p.shape, .repeat = n, .address = tmem_address(64, 32), .warp = 6};
      const int registers = tmem_registers(p.shape, n);
      std::vector<std::uint32_t> words;
      if (registers == 0) {
        CHECK(tmem_map(a, words).kind == misuse::malformed);
        continue;
      }
      CHECK(registers * 32 == p.lanes * p.columns_per * n);
      REQUIRE_FALSE(tmem_map(a, words));
      std::set<std::uint32_t> distinct(words.begin(), words.end());
      CHECK(distinct.size() == static_cast<std::size_t>(registers * 32));
      for (const std::uint32_t w : distinct) {
        const int lane = static_cast<int>(w) / 512, column = static_cast<int>(w) % 512;
        REQUIRE(lane >= 64);
        REQUIRE(lane < 64 + p.lanes);
        REQUIRE(column >= 32);
        REQUIRE(column < 32 + p.columns_per * n);
      }
      if (2 * p.columns_per * n + 32 > 512) continue;
      a.packed = true;
      REQUIRE_FALSE(tmem_map(a, words));
      distinct = {words.begin(), words.end()};
      CHECK(distinct.size() == static_cast<std::size_t>(registers * 64));
      for (std::size_t i = 0; i < words.size(); i += 2) REQUIRE(words[i + 1] == words[i] + 1);
      CHECK(tmem_columns_of(a).count == 2 * p.columns_per * n);
    }
}

TEST_CASE("the 16x256b fragment is the accumulator fragment of mma.sync") {
  std::vector<std::uint32_t> words;
  REQUIRE_FALSE(tmem_map({.shape = tmem_shape::s16x256b, .repeat = 4, .address = 0, .warp = 0}, words));
  for (int r = 0; r < 16; ++r)
    for (int lane = 0; lane < 32; ++lane) {
      const cell c = mma_c_cell(16, lane, r % 4);
      REQUIRE(words[static_cast<std::size_t>(r * 32 + lane)] == static_cast<std::uint32_t>(c.row * 512 + c.column + 8 * (r / 4)));
    }
}

TEST_CASE("16x32bx2 puts its upper lanes at the split") {
  std::vector<std::uint32_t> words;
  const tmem_access a{.shape = tmem_shape::s16x32bx2, .repeat = 2, .half_split = 64, .address = tmem_address(48, 8), .warp = 1};
  REQUIRE_FALSE(tmem_map(a, words));
  CHECK(words[3] == 51 * 512 + 8);
  CHECK(words[32 + 20] == (48 + 4) * 512 + 8 + 64 + 1);
  CHECK(tmem_columns_of(a).count == 66);
}

TEST_CASE("loads see what stores wrote, and poison where nobody wrote") {
  std::mt19937 random(15);
  for (const tmem_shape shape : {tmem_shape::s32x32b, tmem_shape::s16x64b, tmem_shape::s16x128b, tmem_shape::s16x256b, tmem_shape::s16x32bx2})
    for (const bool packed : {false, true}) {
      const auto t = full();
      const tmem_access a{.shape = shape, .repeat = 8, .packed = packed, .half_split = 128, .address = tmem_address(32, 40), .warp = 5};
      const int n = tmem_registers(shape, 8);
      std::vector<std::uint32_t> in(static_cast<std::size_t>(n * 32)), out(in.size()), poison(static_cast<std::size_t>(n));
      for (std::uint32_t& x : in) x = static_cast<std::uint32_t>(random());
      REQUIRE_FALSE(tmem_load(*t, a, out.data(), poison.data()));
      for (const std::uint32_t p : poison) CHECK(p == 0xFFFFFFFFU);
      REQUIRE_FALSE(tmem_store(*t, a, in.data()));
      REQUIRE_FALSE(tmem_load(*t, a, out.data(), poison.data()));
      CHECK(in == out);
      std::vector<std::uint32_t> words;
      REQUIRE_FALSE(tmem_map(a, words));
      for (std::size_t i = 0; i < in.size(); ++i) {
        const std::uint32_t got = packed ? (t->words()[words[2 * i]] & 0xFFFFU) | t->words()[words[2 * i + 1]] << 16 : t->words()[words[i]];
        REQUIRE(got == in[i]);
      }
      for (const std::uint32_t p : poison) CHECK(p == 0);
    }
}

TEST_CASE("a warp reaches only its own lanes, and no column past the end") {
  std::vector<std::uint32_t> words;
  CHECK(tmem_map({.address = tmem_address(32, 0), .warp = 0}, words).kind == misuse::tmem_misuse);
  CHECK_FALSE(tmem_map({.address = tmem_address(32, 0), .warp = 5}, words));
  CHECK(tmem_map({.address = tmem_address(16, 0), .warp = 0}, words).kind == misuse::tmem_misuse);
  CHECK_FALSE(tmem_map({.shape = tmem_shape::s16x64b, .address = tmem_address(16, 0), .warp = 0}, words));
  CHECK(tmem_map({.repeat = 128, .address = tmem_address(0, 400), .warp = 0}, words).kind == misuse::tmem_misuse);
  CHECK(tmem_map({.repeat = 3, .warp = 0}, words).kind == misuse::malformed);
}

TEST_CASE("ld.red reduces each lane") {
  const tmem_access a{.repeat = 4};
  std::vector<std::uint32_t> r(128), out(32);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) r[static_cast<std::size_t>(i * 32 + lane)] = std::bit_cast<std::uint32_t>(static_cast<float>((i == 2 ? -10 : i) * (lane + 1)));
  REQUIRE_FALSE(tmem_reduce(a, tmem_reduction::max_f32, false, false, r.data(), out.data()));
  CHECK(std::bit_cast<float>(out[4]) == 15.0F);
  REQUIRE_FALSE(tmem_reduce(a, tmem_reduction::max_f32, true, false, r.data(), out.data()));
  CHECK(std::bit_cast<float>(out[4]) == 50.0F);
  REQUIRE_FALSE(tmem_reduce(a, tmem_reduction::min_s32, false, false, r.data(), out.data()));
  CHECK(static_cast<std::int32_t>(out[0]) < 0);
  CHECK(tmem_reduce(a, tmem_reduction::min_s32, true, false, r.data(), out.data()).kind == misuse::malformed);
  CHECK(tmem_reduce({.repeat = 1}, tmem_reduction::max_f32, false, false, r.data(), out.data()).kind == misuse::malformed);
}

TEST_CASE("cp puts row i where its shape says, in every copy") {
  // Source: rows of 32 bytes as two 16-byte columns 4096 bytes apart, 8-row groups 128 bytes apart; word j of row i is 1000 i + j.
  std::vector<std::byte> shared(16384);
  for (std::uint32_t i = 0; i < 128; ++i)
    for (std::uint32_t j = 0; j < 8; ++j) {
      const std::uint32_t value = 1000 * i + j;
      std::memcpy(shared.data() + i * 16 + j / 4 * 4096 + j % 4 * 4, &value, 4);
    }
  const shared_descriptor d{.start = 0, .leading = 4096, .stride = 128};
  struct probe { cp_shape shape; int rows, columns; std::vector<int> (*lanes)(int); };
  const probe probes[] = {
      {cp_shape::s128x256b, 128, 8, [](int i) { return std::vector<int>{i}; }},
      {cp_shape::s128x128b, 128, 4, [](int i) { return std::vector<int>{i}; }},
      {cp_shape::s64x128b_02_13, 64, 4, [](int i) { return std::vector<int>{i, i + 64}; }},
      {cp_shape::s64x128b_01_23, 64, 4, [](int i) { return i < 32 ? std::vector<int>{i, i + 32} : std::vector<int>{i + 32, i + 64}; }},
      {cp_shape::s32x128b_x4, 32, 4, [](int i) { return std::vector<int>{i, i + 32, i + 64, i + 96}; }},
      {cp_shape::s4x256b, 4, 8, [](int i) { return std::vector<int>{32 * i}; }},
  };
  for (const probe& p : probes) {
    const auto t = full();
    REQUIRE_FALSE(tmem_copy(*t, p.shape, cp_unpack::none, tmem_address(0, 100), d, shared));
    std::size_t written = 0;
    for (int w = 0; w < tmem_words; ++w) written += t->poisoned(w) ? 0 : 1;
    CHECK(written == static_cast<std::size_t>(p.rows * p.columns) * p.lanes(0).size());
    for (int i = 0; i < p.rows; ++i)
      for (const int lane : p.lanes(i))
        for (int c = 0; c < p.columns; ++c) REQUIRE(t->row(lane)[100 + c] == static_cast<std::uint32_t>(1000 * i + c));
  }
  const auto t = full();
  CHECK(tmem_copy(*t, cp_shape::s128x256b, cp_unpack::none, tmem_address(0, 508), d, shared).kind == misuse::tmem_misuse);
  CHECK(tmem_copy(*t, cp_shape::s128x128b, cp_unpack::none, tmem_address(32, 0), d, shared).kind == misuse::tmem_misuse);
  CHECK(tmem_copy(*t, cp_shape::s128x128b, cp_unpack::none, 0, {.start = 16000, .stride = 128}, shared).kind == misuse::out_of_bounds);
}

TEST_CASE("unpacked 4- and 6-bit elements read back as an A operand") {
  std::mt19937 random(16);
  std::vector<std::byte> shared(8192);
  for (std::byte& b : shared) b = static_cast<std::byte>(random());
  const shared_descriptor d{.start = 0, .leading = 2048, .stride = 128};
  for (const number element : {number::e2m1, number::e3m2, number::e2m3}) {
    const operand_form f{.element = element, .rows = 128, .k = 32, .padded = true};
    const auto t = full();
    REQUIRE_FALSE(tmem_copy(*t, cp_shape::s128x256b, element == number::e2m1 ? cp_unpack::b4x16_p64 : cp_unpack::b6x16_p32, tmem_address(0, 16), d, shared));
    std::vector<float> from_shared(128 * 32), from_tensor(128 * 32);
    REQUIRE_FALSE(gather_floats(d, f, shared, from_shared.data()));
    REQUIRE_FALSE(gather_tmem_floats(*t, tmem_layout::d, tmem_address(0, 16), f, from_tensor.data()));
    CHECK(from_shared == from_tensor);
  }
}

TEST_CASE("shift moves 31 rows up by one") {
  const auto t = full();
  for (int lane = 0; lane < 128; ++lane)
    for (int c = 0; c < 16; ++c) t->row(lane)[c] = static_cast<std::uint32_t>(lane * 100 + c), t->set_poison(lane * 512 + c, false);
  REQUIRE_FALSE(tmem_shift(*t, tmem_address(32, 4)));
  CHECK(t->row(32)[4] == 3304);
  CHECK(t->row(62)[11] == 6311);
  CHECK(t->row(63)[4] == 6304);
  CHECK(t->row(32)[3] == 3203);
  CHECK(t->row(32)[12] == 3212);
  CHECK(t->row(31)[4] == 3104);
  CHECK(tmem_shift(*t, tmem_address(8, 0)).kind == misuse::tmem_misuse);
}

TEST_CASE("accumulator layouts are injective and stay in their lanes and columns") {
  struct probe { int m, group; bool ws, sparse; tmem_layout want; };
  for (const probe& p : {probe{256, 2, false, false, tmem_layout::a}, {128, 2, false, false, tmem_layout::b}, {128, 2, false, true, tmem_layout::c},
                         {128, 1, false, false, tmem_layout::d}, {64, 1, true, false, tmem_layout::e}, {64, 1, false, false, tmem_layout::f}, {32, 1, true, false, tmem_layout::g}})
    for (int n = 64; n <= 256; n += 64) {
      tmem_layout layout{};
      REQUIRE_FALSE(layout_of(p.m, p.group, p.ws, p.sparse, layout));
      CHECK(layout == p.want);
      std::set<int> seen;
      for (int row = 0; row < p.m; ++row)
        for (int c = 0; c < n; ++c) {
          const tmem_place at = accumulator_place(layout, row, c, n);
          REQUIRE(at.cta < p.group);
          REQUIRE(at.lane < 128);
          REQUIRE(at.column < accumulator_columns(layout, n));
          seen.insert((at.cta * 128 + at.lane) * 512 + at.column);
        }
      CHECK(seen.size() == static_cast<std::size_t>(p.m * n));
    }
  tmem_layout none{};
  CHECK(layout_of(96, 1, false, false, none).kind == misuse::illegal_shape);
  CHECK(layout_of(32, 1, false, false, none).kind == misuse::illegal_shape);
  CHECK(accumulator_place(tmem_layout::f, 20, 3, 64).lane == 36);
  CHECK(accumulator_place(tmem_layout::b, 70, 40, 64).cta == 1);
  CHECK(accumulator_place(tmem_layout::b, 70, 40, 64).lane == 6 + 64);
  CHECK(accumulator_place(tmem_layout::b, 70, 40, 64).column == 8);
}

TEST_CASE("operand A of 16 bits is two to a column, and unwritten words are found") {
  const auto t = full();
  for (int lane = 0; lane < 128; ++lane)
    for (int c = 0; c < 8; ++c) {
      const std::uint32_t low = f32_to_bf16_rn(static_cast<float>(lane)), high = f32_to_bf16_rn(static_cast<float>(-2 * c - 1));
      t->row(lane)[64 + c] = low | high << 16;
      t->set_poison(lane * 512 + 64 + c, false);
    }
  std::vector<float> dense(128 * 16);
  REQUIRE_FALSE(gather_tmem_floats(*t, tmem_layout::d, tmem_address(0, 64), {.element = number::bf16, .rows = 128, .k = 16}, dense.data()));
  CHECK(dense[5 * 16 + 6] == 5.0F);
  CHECK(dense[5 * 16 + 7] == -7.0F);
  CHECK(gather_tmem_floats(*t, tmem_layout::d, tmem_address(0, 65), {.element = number::bf16, .rows = 128, .k = 16}, dense.data()).kind == misuse::uninitialized);
}

TEST_CASE("scales copied with 32x128b.warpx4 come back per row and step") {
  std::mt19937 random(17);
  std::vector<std::byte> unit(512);  // byte (r % 32) * 16 + (r / 32) * 4 + k
  for (std::byte& b : unit) b = static_cast<std::byte>(100 + random() % 50);
  const auto t = full();
  REQUIRE_FALSE(tmem_copy(*t, cp_shape::s32x128b_x4, cp_unpack::none, tmem_address(0, 320), {.start = 0, .leading = 0, .stride = 128}, unit));
  std::vector<float> dense(256);
  for (int k = 0; k < 4; ++k) {
    REQUIRE_FALSE(gather_scales(*t, {.id = k}, tmem_address(0, 320), 128, dense.data()));
    for (int r = 0; r < 128; ++r)
      REQUIRE(dense[static_cast<std::size_t>(r)] == widen(number::ue8m0, std::to_integer<std::uint32_t>(unit[static_cast<std::size_t>(r % 32 * 16 + r / 32 * 4 + k)])));
  }
  REQUIRE_FALSE(gather_scales(*t, {.scale = number::ue4m3, .id = 2, .per_row = 2}, tmem_address(0, 320), 128, dense.data()));
  CHECK(dense[2 * 70 + 1] == widen(number::ue4m3, std::to_integer<std::uint32_t>(unit[70 % 32 * 16 + 2 * 4 + 3])));
  t->row(96)[320] ^= 0xFF;
  CHECK(gather_scales(*t, {.id = 0}, tmem_address(0, 320), 128, dense.data()).kind == misuse::tmem_misuse);
  t->set_poison(5 * 512 + 321, true);
  CHECK(gather_scales(*t, {.id = 1}, tmem_address(0, 320), 128, dense.data()).kind == misuse::uninitialized);
  // A pair with M 128 splits the columns of B: the upper half of N lives in lanes 64 and up.
  const scale_place p = place_of_scale({.split_b = true}, tmem_address(0, 0), 200, 0, 256);
  CHECK(p.word == static_cast<std::uint32_t>((200 % 32 + 64) * 512 + (200 - 128) / 32));
}
