#include "tlx/tile/tensor_memory.hpp"

#include <doctest/doctest.h>

#include <set>
#include <tuple>

#include "tlx/tile/fragments.hpp"

using namespace tlx::tile;

TEST_CASE("every element has a place of its own inside the columns counted") {
  for (const tensor_tile& t : {tensor_tile{element::f32, 128, 96, 1, false}, tensor_tile{element::f32, 64, 40, 1, false}, tensor_tile{element::f32, 256, 64, 2, false},
                               tensor_tile{element::f32, 128, 96, 2, false}, tensor_tile{element::bf16, 128, 64, 1, true}, tensor_tile{element::e4m3, 128, 64, 1, true},
                               tensor_tile{element::f16, 128, 64, 1, false}}) {
    CAPTURE(t.letter());
    REQUIRE(broken_rule(t) == nullptr);
    std::set<std::tuple<int, int, int, int>> seen;
    int last = 0;
    for (int r = 0; r < t.rows; ++r)
      for (int c = 0; c < t.cols; ++c) {
        const tensor_position p = t.at(r, c);
        CHECK(p.lane < tensor_memory_lanes);
        CHECK(p.cta < t.ctas);
        last = p.column > last ? p.column : last;
        seen.insert({p.cta, p.lane, p.column, p.bit});
      }
    CHECK(static_cast<int>(seen.size()) == t.rows * t.cols);
    CHECK(last + 1 == t.column_count());
  }
}

TEST_CASE("register layouts of tensor memory reads agree with the places they read") {
  // 32x32b: lane of the thread and register number are lane and column.
  const tensor_tile d{element::f32, 128, 96, 1, false}, a{element::f32, 256, 64, 2, false}, b{element::f32, 128, 96, 2, false}, f{element::f32, 64, 48, 1, false};
  bool right = true;
  const auto check = [&](const tensor_tile& t, const layout& l) {
    for (int block = 0; block < l.block_count(); ++block)
      for (int w = 0; w < 4; ++w)
        for (int lane = 0; lane < 32; ++lane)
          for (int r = 0; r < l.register_count(); ++r) {
            const coordinate c = l.at(r, lane, w, block);
            if (!(t.at(c.row, c.col) == tensor_position{block, 32 * w + lane, r, 0})) right = false;
          }
  };
  check(d, tmem_rows_32x32b(128, 96, 4));
  check(a, tmem_rows_32x32b(256, 64, 4, 2));
  check(b, tmem_pair_128_32x32b(96, 4));
  CHECK(right);
  // 16x256b on layout F: lane (t>>2) + 8*((r>>1)&1), column 2*(t&3) + (r&1) + 8*(r>>2), from the warp's lane base.
  const layout lf = tmem_16x256b(64, 48, 4);
  for (int w = 0; w < 4; ++w)
    for (int t = 0; t < 32; ++t)
      for (int r = 0; r < lf.register_count(); ++r) {
        const coordinate c = lf.at(r, t, w);
        if (!(f.at(c.row, c.col) == tensor_position{0, 32 * w + (t >> 2) + 8 * ((r >> 1) & 1), 2 * (t & 3) + (r & 1) + 8 * (r >> 2), 0})) right = false;
      }
  CHECK(right);
}

TEST_CASE("allocations are powers of two from 32 to 512") {
  CHECK(tensor_allocation(1) == 32);
  CHECK(tensor_allocation(32) == 32);
  CHECK(tensor_allocation(33) == 64);
  CHECK(tensor_allocation(384) == 512);
  CHECK(tensor_allocation(512) == 512);
  CHECK_FALSE(tensor_allocation(513).has_value());
  CHECK_FALSE(tensor_allocation(0).has_value());
}

TEST_CASE("addresses carry the lane in the upper half") {
  CHECK(tensor_address(64, 7) == 0x400007U);
  CHECK(warp_lane_base(6) == tensor_address(64, 0));
}

TEST_CASE("rows that no accumulator has and tiles that do not fit are refused") {
  CHECK(broken_rule(tensor_tile{element::f32, 96, 64, 1, false}) != nullptr);
  CHECK(broken_rule(tensor_tile{element::f32, 64, 64, 2, false}) != nullptr);
  CHECK(broken_rule(tensor_tile{element::f32, 128, 513, 1, false}) != nullptr);
  CHECK(broken_rule(tensor_tile{element::bf16, 128, 1, 1, true}) != nullptr);
  CHECK(broken_rule(tensor_tile{element::f32, 128, 512, 1, false}) == nullptr);
}
