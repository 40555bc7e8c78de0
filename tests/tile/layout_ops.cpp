#include "tlx/tile/layout_ops.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/tile/samples.hpp"
#include "tlx/tile/fragments.hpp"

using namespace tlx::tile;

TEST_CASE("the text form round trips for every sample") {
  for (const layout& l : tests::sample_layouts()) {
    const std::string text = to_text(l);
    CAPTURE(text);
    const auto back = parse_layout(text);
    REQUIRE(back.has_value());
    CHECK(*back == l);
    CHECK(to_text(*back) == text);
  }
  CHECK(to_text(wgmma_accumulator(64, 96, 4)) == "layout<64x96 reg[(0,1),(8,0),(0,8),(0,16),3*(0,32)] lane[(0,2),(0,4),(1,0),(2,0),(4,0)] warp[(16,0),(32,0)]>");
}

TEST_CASE("text that is no layout does not parse") {
  const std::string good = "layout<32x1 reg[] lane[(1,0),(2,0),(4,0),(8,0),(16,0)]>";
  REQUIRE(parse_layout(good).has_value());
  for (std::size_t n = 0; n < good.size(); ++n) CHECK_FALSE(parse_layout(good.substr(0, n)).has_value());
  for (const char* bad : {"layout<32x1 reg[] lane[(1,0)]>", "layout<0x1 reg[] lane[(1,0),(2,0),(4,0),(8,0),(16,0)]>", "layout<32x1 reg[] lane[(1,0),(2,0),(4,0),(8,0),(16,0)]> x",
                          "layout<32x1 reg[1*(0,1)] lane[(1,0),(2,0),(4,0),(8,0),(16,0)]>", "layout<32x1 reg[2*(0,1),(0,2)] lane[(1,0),(2,0),(4,0),(8,0),(16,0)]>"})
    CHECK_FALSE(parse_layout(bad).has_value());
}

TEST_CASE("transposing twice changes nothing, once exchanges the coordinates") {
  for (const layout& l : tests::sample_layouts()) {
    CHECK(transposed(transposed(l)) == l);
    const coordinate a = l.at(l.register_count() - 1, 19, l.warp_count() - 1), b = transposed(l).at(l.register_count() - 1, 19, l.warp_count() - 1);
    CHECK(a == coordinate{b.col, b.row});
  }
}

namespace {
void check_slice(const layout& l, int first, int count) {
  CAPTURE(to_text(l));
  CAPTURE(first);
  CAPTURE(count);
  const column_slice s = slice_columns(l, first, count);
  REQUIRE(s.ok);
  REQUIRE(s.part.register_count() == s.count);
  CHECK(covers(s.part));
  bool right = true;
  for (int b = 0; b < l.block_count(); ++b)
    for (int w = 0; w < l.warp_count(); ++w)
      for (int t = 0; t < 32; ++t)
        for (int i = 0; i < s.count; ++i)
          if (!(s.part.at(i, t, w, b) + coordinate{0, first} == l.at(s.source[static_cast<unsigned>(i)], t, w, b))) right = false;
  CHECK(right);
}
}  // namespace

TEST_CASE("a slice of columns is a layout over the source registers it names") {
  for (int n : {8, 24, 32, 64})
    for (int first = 0; first + n <= 192; first += n) {
      check_slice(wgmma_accumulator(128, 192, 4), first, n);
      check_slice(wgmma_accumulator(192, 192, 12), first, n);
      check_slice(tmem_rows_32x32b(128, 192, 4), first, n);
      check_slice(tmem_16x256b(128, 192, 4), first, n);
    }
  check_slice(wgmma_accumulator(64, 224, 4), 96, 32);
  check_slice(tmem_rows_32x32b(256, 64, 4, 2), 5, 3);
  check_slice(blocked(64, 256, 4, 8), 0, 256);
}

TEST_CASE("a slice that cuts what lanes or warps share is refused") {
  CHECK_FALSE(slice_columns(wgmma_accumulator(64, 64, 4), 4, 8).ok);
  CHECK_FALSE(slice_columns(wgmma_accumulator(64, 64, 4), 0, 4).ok);
  CHECK_FALSE(slice_columns(wgmma_accumulator(64, 64, 4), 56, 16).ok);
  CHECK_FALSE(slice_columns(tmem_rows_32x32b(128, 128, 8), 0, 32).ok);  // the halves belong to different warps
  CHECK_FALSE(slice_columns(tmem_rows_32x32b(128, 192, 8), 0, 32).ok);
}

TEST_CASE("reducing leaves each thread the rows or columns it had, once each") {
  for (const layout& l : tests::sample_layouts())
    for (axis gone : {axis::rows, axis::cols}) {
      const layout v = reduced(l, gone);
      CAPTURE(to_text(l));
      CHECK(covers(v));
      CHECK(v.rows == (gone == axis::rows ? 1 : l.rows));
      CHECK(v.cols == (gone == axis::cols ? 1 : l.cols));
      CHECK(broadcastable(v, l));
      bool right = true;
      for (int b = 0; b < l.block_count(); ++b)
        for (int w = 0; w < l.warp_count(); ++w)
          for (int t = 0; t < 32; t += 5)
            for (int r = 0; r < l.register_count(); ++r) {
              const coordinate c = l.at(r, t, w, b), want = gone == axis::cols ? coordinate{c.row, 0} : coordinate{0, c.col};
              if (!(v.at(broadcast_register(v, l, r), t, w, b) == want)) right = false;
            }
      CHECK(right);
    }
  const layout row_max = reduced(wgmma_accumulator(64, 96, 4), axis::cols);
  CHECK(row_max.register_count() == 2);
  CHECK(row_max.is_replicated_over_lanes());
  CHECK_FALSE(row_max.is_replicated_over_warps());
  CHECK(reduced(tmem_rows_32x32b(128, 96, 4), axis::cols).register_count() == 1);
  CHECK_FALSE(broadcastable(row_max, tmem_16x256b(128, 96, 4)));
  CHECK_FALSE(broadcastable(row_vector(96, 4), wgmma_accumulator(64, 96, 4)));
  CHECK(broadcastable(replicated(1, 96, 4), replicated(5, 96, 4)));
}

TEST_CASE("a tile is its instruction times an arrangement, and division finds the arrangement") {
  const layout inner = wgmma_accumulator(64, 8, 4);
  for (const layout& whole : {wgmma_accumulator(64, 224, 4), wgmma_accumulator(128, 96, 4), wgmma_accumulator(192, 64, 12), wgmma_accumulator(256, 40, 8)}) {
    CAPTURE(to_text(whole));
    const auto q = quotient(whole, inner);
    REQUIRE(q.has_value());
    CHECK(product(inner, *q) == whole);
    CHECK(q->register_count() == whole.register_count() / 4);
  }
  const layout odd = mma_sync_accumulator(48, 24, 1);  // nothing a power of two
  const layout twice = product(odd, make_layout_part(4, 2, axis_map().add_bit({0, 1}), {}, axis_map().add_bit({1, 0}).add_bit({2, 0})));
  CHECK(covers(twice));
  CHECK(twice.at(36, 0, 3) == coordinate{144, 24});
  CHECK_FALSE(quotient(tmem_rows_32x32b(128, 64, 4), inner).has_value());
  CHECK_FALSE(quotient(wgmma_accumulator(64, 64, 4), wgmma_accumulator(64, 24, 4)).has_value());
}

TEST_CASE("contiguous columns are what one thread can move at once") {
  CHECK(contiguous_columns(wgmma_accumulator(64, 64, 4)) == 2);
  CHECK(contiguous_columns(tmem_rows_32x32b(128, 96, 4)) == 32);
  CHECK(contiguous_columns(blocked(64, 64, 4, 8)) == 8);
  CHECK(contiguous_columns(blocked(64, 24, 4, 8)) == 8);
  CHECK(contiguous_columns(mma_sync_b(16, 8, 1)) == 1);
}

TEST_CASE("slices and reductions work at compile time") {
  constexpr layout acc = wgmma_accumulator(64, 256, 4);
  constexpr column_slice s = slice_columns(acc, 64, 32);
  static_assert(s.ok && s.count == 16 && s.source[0] == 32);
  static_assert(s.part == wgmma_accumulator(64, 32, 4));
  static_assert(reduced(acc, axis::cols).register_count() == 2);
}

TEST_CASE("widths that are no powers of two broadcast and reduce on 128 threads") {
  for (int width : {24, 40, 48, 96, 100, 120, 127})
    for (int vector : {1, 2, 4, 8}) {
      CAPTURE(width);
      const layout l = blocked(128, width, 4, vector);
      CHECK(covers(l));
      const layout row_sums = reduced(l, axis::cols), column_sums = reduced(l, axis::rows);
      CHECK(broadcastable(row_sums, l));
      CHECK(broadcastable(column_sums, l));
      CHECK(covers(row_sums));
      CHECK(covers(column_sums));
    }
}

TEST_CASE("every other column lies in every other register of the same thread, and doubling undoes halving") {
  for (const layout& l : {wgmma_accumulator(64, 64, 4), wgmma_accumulator(128, 96, 8), blocked(64, 96, 4, 8), tmem_rows_32x32b(128, 64, 8), tmem_16x256b_by_rows(64)}) {
    REQUIRE(pairs_columns(l));
    const layout half = halved_columns(l);
    CHECK(half.cols == l.cols / 2);
    CHECK(doubled_columns(half) == l);
    for (int warp = 0; warp < l.warp_count(); ++warp)
      for (int lane = 0; lane < warp_lanes; ++lane)
        for (int r = 0; r < half.register_count(); ++r)
          for (int first : {0, 1}) CHECK(l.at(2 * r + first, lane, warp) == coordinate{half.at(r, lane, warp).row, 2 * half.at(r, lane, warp).col + first});
  }
  CHECK_FALSE(pairs_columns(blocked(32, 64, 1)));  // neighbours are neighbouring lanes
}
