#include "tlx/tile/shared_tile.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace tlx::tile;

TEST_CASE("a swizzle is its own inverse and stays inside its atom and its 128-byte line") {
  for (int width : {0, 16, 32, 64, 128})
    for (unsigned a = 0; a < 8192; ++a) {
      const unsigned s = swizzled(a, width);
      const unsigned atom = static_cast<unsigned>(swizzle_atom_bytes(width));
      if (swizzled(s, width) != a || s / atom != a / atom || s / 128 != a / 128 || s % 16 != a % 16) FAIL_CHECK(width << " at " << a);
    }
}

TEST_CASE("a swizzle is the XOR of the row in its atom into the 16-byte column") {
  for (int width : {32, 64, 128})
    for (unsigned row = 0; row < 64; ++row)
      for (unsigned column = 0; column < static_cast<unsigned>(width) / 16; ++column) {
        const unsigned address = row * static_cast<unsigned>(width) + column * 16;
        const unsigned line = address / 128;  // the row counts in 128-byte lines
        const unsigned expect = address - column * 16 + ((column ^ (line % (static_cast<unsigned>(width) / 16))) * 16);
        CHECK(swizzled(address, width) == expect);
      }
}

TEST_CASE("shared tiles place every element at a byte of its own and fill their size") {
  for (const shared_tile& t : {make_shared_tile(element::bf16, 64, 64), make_shared_tile(element::bf16, 64, 128), make_shared_tile(element::bf16, 64, 96),
                               make_shared_tile(element::bf16, 128, 48), make_shared_tile(element::f32, 8, 4), make_shared_tile(element::e4m3, 17, 48),
                               make_shared_tile(element::bf16, 16, 12), make_shared_tile(element::f32, 1, 256), make_shared_tile(element::bf16, 64, 128).transpose()}) {
    CAPTURE(t.cols);
    CHECK(broken_rule(t) == nullptr);
    std::set<int> seen;
    const int bytes = bits(t.type) / 8;
    for (int r = 0; r < t.rows; ++r)
      for (int c = 0; c < t.cols; ++c) {
        const int o = t.offset(r, c);
        REQUIRE(o % bytes == 0);
        seen.insert(o);
      }
    CHECK(static_cast<int>(seen.size()) == t.rows * t.cols);
    CHECK(*seen.begin() >= 0);
    // Whole atoms stay inside; a tile of fewer than 8 rows per chunk may be permuted beyond its last line only if that
    // line is cut, which row widths of whole swizzles rule out.
    CHECK(*seen.rbegin() + bytes <= t.size_bytes());
    CHECK(t.size_bytes() == t.rows * t.cols * bytes);
  }
}

TEST_CASE("the default swizzle is the widest that divides a row") {
  CHECK(make_shared_tile(element::bf16, 64, 64).swizzle_bytes == 128);
  CHECK(make_shared_tile(element::bf16, 64, 96).swizzle_bytes == 64);
  CHECK(make_shared_tile(element::bf16, 64, 48).swizzle_bytes == 32);
  CHECK(make_shared_tile(element::bf16, 64, 24).swizzle_bytes == 16);
  CHECK(make_shared_tile(element::bf16, 64, 12).swizzle_bytes == 0);
  CHECK(make_shared_tile(element::f32, 64, 192).swizzle_bytes == 128);
  CHECK(make_shared_tile(element::f32, 1, 64).swizzle_bytes == 0);
}

TEST_CASE("a swizzled tile is aligned to eight rows of its width") {
  CHECK(make_shared_tile(element::bf16, 64, 64).alignment() == 1024);
  CHECK(make_shared_tile(element::bf16, 64, 32).alignment() == 512);
  CHECK(make_shared_tile(element::bf16, 64, 16).alignment() == 256);
  CHECK(make_shared_tile(element::bf16, 64, 12).alignment() == 128);
}

TEST_CASE("chunks are stacked along the contiguous axis") {
  constexpr shared_tile t = make_shared_tile(element::bf16, 64, 128);
  static_assert(t.chunk_cols() == 64 && t.chunk_bytes() == 8192 && t.chunk_count() == 2 && t.size_bytes() == 16384);
  static_assert(t.linear_offset(3, 70) == 8192 + 3 * 128 + 12);
  static_assert(t.offset(3, 70) == 8192 + 3 * 128 + (12 ^ (3 << 4)));
  static_assert(t.transpose().offset(70, 3) == t.offset(3, 70));
  static_assert(t.transpose().transpose() == t);
}

TEST_CASE("a width that cuts a row is a broken rule") {
  CHECK(broken_rule(shared_tile{element::bf16, 64, 96, 128, false}) != nullptr);
  CHECK(broken_rule(shared_tile{element::bf16, 64, 96, 48, false}) != nullptr);
  CHECK(broken_rule(shared_tile{element::e2m1, 64, 63, 0, false}) != nullptr);
}
