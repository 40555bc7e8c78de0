// The closed forms of the ISA's register maps, written out again and compared with the layouts.
#include "tlx/tile/fragments.hpp"

#include <doctest/doctest.h>

#include "tlx/support/error.hpp"

using namespace tlx::tile;

TEST_CASE("wgmma accumulators follow the closed form for every column count") {
  for (int cols = 8; cols <= 256; cols += 8) {
    const layout l = wgmma_accumulator(64, cols, 4);
    REQUIRE(l.register_count() == cols / 2);
    bool right = true;
    for (int t = 0; t < 128; ++t)
      for (int d = 0; d < cols / 2; ++d)
        if (!(l.at(d, t % 32, t / 32) == coordinate{16 * (t / 32) + (t % 32) / 4 + 8 * ((d >> 1) & 1), 2 * (t % 4) + (d & 1) + 8 * (d >> 2)})) right = false;
    CHECK(right);
  }
}

TEST_CASE("more rows are more instructions, then more warpgroups") {
  const layout l = wgmma_accumulator(384, 40, 12);  // three warpgroups, two instructions each
  REQUIRE(l.register_count() == 40);
  bool right = true;
  for (int w = 0; w < 12; ++w)
    for (int t = 0; t < 32; ++t)
      for (int r = 0; r < 40; ++r) {
        const int group = w / 4, instruction = r / 20, d = r % 20;
        const coordinate expect{128 * group + 64 * instruction + 16 * (w % 4) + t / 4 + 8 * ((d >> 1) & 1), 2 * (t % 4) + (d & 1) + 8 * (d >> 2)};
        if (!(l.at(r, t, w) == expect)) right = false;
      }
  CHECK(right);
}

TEST_CASE("a cast wgmma accumulator is a register A operand as it is") {
  CHECK(wgmma_a_operand_16bit(64, 96, 4) == wgmma_accumulator(64, 96, 4));
  const layout a = wgmma_a_operand_16bit(64, 64, 4);
  bool right = true;
  for (int t = 0; t < 128; ++t)
    for (int step = 0; step < 4; ++step)
      for (int v = 0; v < 8; ++v) {
        const coordinate expect{16 * (t / 32) + (t % 32) / 4 + 8 * ((v >> 1) & 1), 16 * step + 2 * (t % 4) + (v & 1) + 8 * (v >> 2)};
        if (!(a.at(8 * step + v, t % 32, t / 32) == expect)) right = false;
      }
  CHECK(right);
}

TEST_CASE("mma.sync m16n8k16 fragments follow the ISA's groupID formulas") {
  const layout c = mma_sync_accumulator(16, 8, 1), a = mma_sync_a(16, 16, 1), b = mma_sync_b(16, 8, 1);
  bool right = c.register_count() == 4 && a.register_count() == 8 && b.register_count() == 4;
  for (int t = 0; t < 32; ++t) {
    const int group = t >> 2, in_group = t % 4;
    for (int i = 0; i < 4; ++i) {
      if (!(c.at(i, t) == coordinate{i < 2 ? group : group + 8, in_group * 2 + (i & 1)})) right = false;
      if (!(b.at(i, t) == coordinate{in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0), group})) right = false;
    }
    for (int i = 0; i < 8; ++i) {
      const bool low_row = (i >= 0 && i < 2) || (i >= 4 && i < 6);
      if (!(a.at(i, t) == coordinate{low_row ? group : group + 8, in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)})) right = false;
    }
  }
  CHECK(right);
}

TEST_CASE("32x32b: the thread is the lane, the register is the column") {
  const layout l = tmem_rows_32x32b(128, 96, 4);
  bool right = true;
  for (int w = 0; w < 4; ++w)
    for (int t = 0; t < 32; ++t)
      for (int r = 0; r < 96; ++r)
        if (!(l.at(r, t, w) == coordinate{32 * w + t, r})) right = false;
  CHECK(right);
  const layout half = tmem_rows_32x32b(128, 192, 8);  // 96 columns per warpgroup: no power of two
  for (int w = 0; w < 8; ++w)
    for (int r = 0; r < 96; ++r)
      if (!(half.at(r, 5, w) == coordinate{32 * (w % 4) + 5, 96 * (w / 4) + r})) right = false;
  CHECK(right);
}

TEST_CASE("16x256b follows the tcgen05.ld table for 64 and 128 rows") {
  const layout f = tmem_16x256b(64, 40, 4), full = tmem_16x256b(128, 40, 4);
  bool right = f.register_count() == 20 && full.register_count() == 40;
  for (int w = 0; w < 4; ++w)
    for (int t = 0; t < 32; ++t)
      for (int r = 0; r < 20; ++r) {
        const int lane = (t >> 2) + 8 * ((r >> 1) & 1), col = 2 * (t & 3) + (r & 1) + 8 * (r >> 2);
        if (!(f.at(r, t, w) == coordinate{16 * w + lane, col})) right = false;  // layout F: row = 16 * quarter + lane
        if (!(full.at(r, t, w) == coordinate{32 * w + lane, col})) right = false;
        if (!(full.at(20 + r, t, w) == coordinate{32 * w + 16 + lane, col})) right = false;
      }
  CHECK(right);
  CHECK(f == wgmma_accumulator(64, 40, 4));
}

TEST_CASE("an accumulator of 128 rows over a pair splits its columns over the lanes") {
  const layout l = tmem_pair_128_32x32b(96, 4);
  bool right = l.block_count() == 2;
  for (int b = 0; b < 2; ++b)
    for (int lane = 0; lane < 128; ++lane)
      for (int r = 0; r < 48; ++r)
        if (!(l.at(r, lane % 32, lane / 32, b) == coordinate{64 * b + lane % 64, 48 * (lane / 64) + r})) right = false;
  CHECK(right);
}

TEST_CASE("blocked layouts give neighbouring lanes neighbouring vectors") {
  const layout l = blocked(64, 64, 4, 8);
  CHECK(l.register_count() == 32);
  CHECK(l.at(0, 1) == coordinate{0, 8});
  CHECK(l.at(7, 0) == coordinate{0, 7});
  CHECK(l.at(0, 8) == coordinate{1, 0});
  CHECK(l.at(0, 0, 1) == coordinate{4, 0});
  CHECK(blocked(64, 10, 4, 4).at(1, 0) == coordinate{0, 1});  // a vector of 4 does not divide 10: 2
  CHECK(row_vector(128, 4).register_count() == 1);
  CHECK(column_vector(128, 4).at(0, 3, 2) == coordinate{67, 0});
}

TEST_CASE("an extent that no instruction has is an error that names it") {
  auto id_and_text = [](auto make) {
    try {
      (void)make();
    } catch (const tlx::user_error& e) {
      return e.id() + ": " + e.parts().what;
    }
    return std::string("nothing");
  };
  CHECK(id_and_text([] { return wgmma_accumulator(64, 20, 4); }) == "layout-extent-invalid: wgmma tiles have a multiple of 8 columns (columns, 8): 20 and 8");
  CHECK(id_and_text([] { return wgmma_accumulator(96, 16, 4); }).find("96 and 64") != std::string::npos);
  CHECK(id_and_text([] { return tmem_rows_32x32b(64, 16, 4); }).find("64 and 128") != std::string::npos);
}
