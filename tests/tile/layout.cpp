#include "tlx/tile/layout.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "tests/tile/samples.hpp"
#include "tlx/support/error.hpp"
#include "tlx/tile/fragments.hpp"

using namespace tlx::tile;

namespace tests {

std::vector<layout> sample_layouts() {
  return {wgmma_accumulator(64, 8, 4),     wgmma_accumulator(64, 224, 4),   wgmma_accumulator(128, 96, 4), wgmma_accumulator(128, 256, 8),
          wgmma_accumulator(192, 64, 12),  mma_sync_accumulator(64, 40, 4), mma_sync_b(64, 24, 4),         tmem_rows_32x32b(128, 96, 4),
          tmem_rows_32x32b(128, 192, 8),   tmem_rows_32x32b(256, 64, 4, 2), tmem_16x256b(64, 96, 4),       tmem_16x256b(128, 64, 8),
          tmem_pair_128_32x32b(192, 4),    blocked(64, 64, 4, 8),           blocked(63, 24, 4, 4),         blocked(1, 127, 4, 2),
          row_vector(24, 4),               row_vector(120, 4, 4),           column_vector(100, 4),         replicated(2, 24, 4),
          blocked(128, 48, 3, 3)};
}

}  // namespace tests

TEST_CASE("every element of every sample layout has an owner and nobody holds anything outside") {
  for (const layout& l : tests::sample_layouts()) {
    CAPTURE(l.rows);
    CAPTURE(l.cols);
    std::vector<int> count(static_cast<std::size_t>(l.rows * l.cols));
    bool inside = true;
    for (int b = 0; b < l.block_count(); ++b)
      for (int w = 0; w < l.warp_count(); ++w)
        for (int t = 0; t < 32; ++t)
          for (int r = 0; r < l.register_count(); ++r) {
            const coordinate c = l.at(r, t, w, b);
            if (c.row < 0 || c.row >= l.rows || c.col < 0 || c.col >= l.cols) inside = false;
            else ++count[static_cast<std::size_t>(c.row * l.cols + c.col)];
          }
    CHECK(inside);
    const inverse_layout inv = inverse(l);
    bool same = true;
    for (int r = 0; r < l.rows; ++r)
      for (int c = 0; c < l.cols; ++c) {
        const int n = count[static_cast<std::size_t>(r * l.cols + c)];
        if (n == 0 || n != inv.count({r, c})) same = false;
      }
    CHECK(same);
    CHECK(covers(l));
  }
}

TEST_CASE("a layout composed with its inverse is the identity, or leads to the smallest of the equal owners") {
  for (const layout& l : tests::sample_layouts()) {
    CAPTURE(l.rows);
    CAPTURE(l.cols);
    const transfer t = compose(inverse(l), l);
    bool identity = true, smallest = true;
    for (int b = 0; b < l.block_count(); ++b)
      for (int w = 0; w < l.warp_count(); ++w)
        for (int lane = 0; lane < 32; ++lane)
          for (int r = 0; r < l.register_count(); ++r) {
            const owner o{r, lane, w, b}, back = t(o);
            if (!(back == o)) identity = false;
            if (!(l.at(back) == l.at(o)) || o.before(back)) smallest = false;
          }
    CHECK(smallest);
    CHECK(identity == (l.replication() == 1));
  }
}

TEST_CASE("replication is known: which index it runs over") {
  CHECK_FALSE(wgmma_accumulator(64, 96, 4).is_replicated_over_lanes());
  CHECK_FALSE(wgmma_accumulator(64, 96, 4).is_replicated_over_warps());
  CHECK(mma_sync_b(16, 8, 4).is_replicated_over_warps());
  CHECK_FALSE(mma_sync_b(16, 8, 4).is_replicated_over_lanes());
  CHECK(row_vector(24, 4).is_replicated_over_lanes());
  CHECK(row_vector(24, 4).replication() == 16);
  CHECK(replicated(2, 2, 3).is_replicated_over_warps());
}

TEST_CASE("two spellings of one placement are equal after normalising") {
  const axis_map lanes = detail::row_lanes();
  CHECK(make_layout(32, 32, axis_map().add_repeat(32, {0, 1}), lanes) ==
        make_layout(32, 32, axis_map().add_bit({0, 1}).add_bit({0, 2}).add_repeat(8, {0, 4}), lanes));
  CHECK(make_layout(32, 48, axis_map().add_repeat(3, {0, 1}).add_repeat(16, {0, 3}), lanes) == make_layout(32, 48, axis_map().add_repeat(48, {0, 1}), lanes));
  CHECK_FALSE(make_layout(32, 48, axis_map().add_repeat(3, {0, 16}).add_repeat(16, {0, 1}), lanes) ==
              make_layout(32, 48, axis_map().add_repeat(48, {0, 1}), lanes));
}

TEST_CASE("find_register finds what the thread holds and only that") {
  for (const layout& l : tests::sample_layouts()) {
    bool right = true;
    for (int w = 0; w < l.warp_count(); ++w)
      for (int t = 0; t < 32; t += 7)
        for (int r = 0; r < l.register_count(); ++r) {
          const int found = find_register(l, l.at(r, t, w), t, w);
          if (found < 0 || found > r || !(l.at(found, t, w) == l.at(r, t, w))) right = false;
        }
    CHECK(right);
  }
  CHECK(find_register(wgmma_accumulator(64, 32, 4), {1, 0}, 0) == -1);
}

TEST_CASE("a coordinate outside the tile has no owner, and asking for one names the numbers") {
  const layout l = wgmma_accumulator(64, 24, 4);
  CHECK(l.owners(64, 0) == 0);
  CHECK(l.owners(0, 24) == 0);
  try {
    (void)inverse(l)({0, 24});
    FAIL("found an owner");
  } catch (const tlx::user_error& e) {
    CHECK(e.id() == "layout-has-no-owner");
    CHECK(e.parts().what.find("0 and 24") != std::string::npos);
  }
}

TEST_CASE("layouts are made and asked at compile time") {
  constexpr layout l = wgmma_accumulator(128, 96, 8);
  static_assert(l.register_count() == 48 && l.warp_count() == 8);
  static_assert(l.at(2, 1, 5) == coordinate{64 + 16 + 8, 2});
  constexpr owner o = inverse(l)({64 + 16 + 8, 2});
  static_assert(o == owner{2, 1, 5, 0});
}
