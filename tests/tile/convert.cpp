#include "tlx/tile/convert.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/tile/samples.hpp"
#include "tlx/support/error.hpp"
#include "tlx/tile/banks.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/layout_ops.hpp"

using namespace tlx::tile;

namespace {

int element_id(const layout& l, int r, int t, int w, int b) {
  const coordinate c = l.at(r, t, w, b);
  return c.row * l.cols + c.col;
}

// Carries out a plan on element numbers and checks that every thread of `to` ends with its own.
void run_plan(const layout& from, const layout& to, const conversion& c) {
  bool right = true;
  std::map<int, int> memory;
  if (c.kind == conversion_kind::shared)
    for (int b = 0; b < from.block_count(); ++b)
      for (int w = 0; w < from.warp_count(); ++w)
        for (int t = 0; t < 32; ++t)
          for (int r = 0; r < from.register_count(); ++r) memory[b * 1000000 + c.scratch.offset(from.at(r, t, w, b))] = element_id(from, r, t, w, b);
  for (int b = 0; b < to.block_count(); ++b)
    for (int w = 0; w < to.warp_count(); ++w) {
      std::vector<std::vector<int>> result(32, std::vector<int>(static_cast<std::size_t>(to.register_count()), -1));
      for (int t = 0; t < 32; ++t)
        for (int r = 0; r < to.register_count(); ++r) {
          int& into = result[static_cast<std::size_t>(t)][static_cast<std::size_t>(r)];
          if (c.kind == conversion_kind::none) into = element_id(from, r, t, w, b);
          else if (c.kind == conversion_kind::shared) into = memory[b * 1000000 + c.scratch.offset(to.at(r, t, w, b))];
          else if (c.source[static_cast<std::size_t>(r)] >= 0) into = element_id(from, c.source[static_cast<std::size_t>(r)], t, w, b);
        }
      for (const shuffle_round& round : c.rounds)
        for (unsigned t = 0; t < 32; ++t)
          if (round.into[t] >= 0)
            result[t][static_cast<std::size_t>(round.into[t])] = element_id(from, round.offer[static_cast<unsigned>(round.from[t])], round.from[t], w, b);
      for (int t = 0; t < 32; ++t)
        for (int r = 0; r < to.register_count(); ++r)
          if (result[static_cast<std::size_t>(t)][static_cast<std::size_t>(r)] != element_id(to, r, t, w, b)) right = false;
    }
  CHECK(right);
}

}  // namespace

TEST_CASE("a planned conversion brings every element to its thread, for all pairs of samples of one shape") {
  std::vector<layout> all = tests::sample_layouts();
  for (int cols : {8, 24, 64, 96}) {
    all.push_back(wgmma_accumulator(64, cols, 4));
    all.push_back(blocked(64, cols, 4, 4));
    all.push_back(transposed(blocked(cols, 64, 4, 2)));
    all.push_back(mma_sync_b(64, cols, 4));
    all.push_back(replicated(64, cols, 4));
    all.push_back(wgmma_accumulator(128, cols, 4));
    all.push_back(tmem_rows_32x32b(128, cols, 4));
    all.push_back(tmem_16x256b(128, cols, 4));
  }
  all.push_back(make_layout(64, 24, axis_map().add_repeat(3, {0, 8}).add_bit({8, 0}).add_repeat(2, {0, 1}), all.front().lane, all.front().warp));
  std::map<conversion_kind, int> seen;
  for (const layout& from : all)
    for (const layout& to : all) {
      if (from.rows != to.rows || from.cols != to.cols || from.warp_count() != to.warp_count() || from.block_count() != to.block_count()) continue;
      if (from.register_count() > 512 || to.register_count() > 512) continue;
      const std::string a = to_text(from), b = to_text(to);
      CAPTURE(a);
      CAPTURE(b);
      const conversion c = plan(from, to);
      ++seen[c.kind];
      run_plan(from, to, c);
    }
  CHECK(seen.size() == 4);  // the samples meet every kind
}

TEST_CASE("the kind is the cheapest there is") {
  CHECK(plan(wgmma_accumulator(64, 64, 4), wgmma_a_operand_16bit(64, 64, 4)).kind == conversion_kind::none);
  const layout l = wgmma_accumulator(64, 16, 4);
  const layout other = make_layout(64, 16, axis_map().add_bit({8, 0}).add_bit({0, 1}).add_bit({0, 8}), l.lane, l.warp);
  const conversion moved = plan(l, other);
  CHECK(moved.kind == conversion_kind::registers);
  CHECK(moved.source[1] == 2);
  // Rows of 16 over a warp: from quads to lanes along columns, all inside the warp.
  const layout rows = make_layout(64, 16, axis_map().add_repeat(8, {2, 0}), axis_map().add_bit({0, 1}).add_bit({0, 2}).add_bit({0, 4}).add_bit({0, 8}).add_bit({1, 0}), l.warp);
  const conversion shuffled = plan(l, rows);
  CHECK(shuffled.kind == conversion_kind::shuffle);
  CHECK(shuffled.rounds.size() >= 8);
  CHECK(shuffled.rounds.size() <= 16);
  CHECK(plan(tmem_rows_32x32b(128, 64, 4), wgmma_accumulator(128, 64, 4)).kind == conversion_kind::shared);
  CHECK(plan(row_vector(96, 4), replicated(1, 96, 4)).kind == conversion_kind::shuffle);
  CHECK(plan(replicated(16, 8, 1), mma_sync_accumulator(16, 8, 1)).kind == conversion_kind::shuffle);  // the register differs from lane to lane
}

TEST_CASE("the scratch of a fragment keeps banks nearly free of conflicts") {
  const conversion c = plan(wgmma_accumulator(128, 64, 4), tmem_rows_32x32b(128, 64, 4), element::f32);
  REQUIRE(c.kind == conversion_kind::shared);
  CHECK(c.write_conflicts <= 2);
  CHECK(c.read_conflicts == 1);
  CHECK(c.read_bytes == 16);
}

TEST_CASE("bank conflicts count distinct words in a bank") {
  const layout row_per_lane = tmem_rows_32x32b(128, 64, 4);
  const shared_tile plain{element::bf16, 128, 64, 0, false}, swizzled_tile{element::bf16, 128, 64, 128, false};
  CHECK(widest_access(row_per_lane, swizzled_tile) == 16);
  CHECK(bank_conflicts(row_per_lane, plain, 16) == 8);  // eight lanes of a quarter phase hit one 16-byte column
  CHECK(bank_conflicts(row_per_lane, swizzled_tile, 16) == 1);
  CHECK(bank_conflicts(row_per_lane, plain, 4) == 32);
  CHECK(bank_conflicts(blocked(64, 64, 4, 8), shared_tile{element::bf16, 64, 64, 0, false}, 16) == 1);
  CHECK(bank_conflicts(wgmma_accumulator(64, 64, 4), shared_tile{element::bf16, 64, 64, 128, false}, 4) == 1);
  CHECK(bank_conflicts(wgmma_accumulator(64, 64, 4), shared_tile{element::bf16, 64, 64, 0, false}, 4) == 8);
  CHECK(bank_conflicts(wgmma_accumulator(64, 64, 4), shared_tile{element::bf16, 64, 64, 128, false}, 8) == 0);  // wider than its pairs
  CHECK(bank_conflicts(replicated(8, 8, 4), shared_tile{element::f32, 8, 8, 0, false}, 16) == 1);              // equal words merge
}

TEST_CASE("layouts of other shapes or warps have no conversion") {
  for (const auto& [from, to] : {std::pair(wgmma_accumulator(64, 64, 4), wgmma_accumulator(64, 32, 4)), std::pair(blocked(64, 64, 4), blocked(64, 64, 8))}) {
    try {
      (void)plan(from, to);
      FAIL("planned");
    } catch (const tlx::user_error& e) {
      CHECK(e.id() == "layout-conversion-impossible");
    }
  }
}
