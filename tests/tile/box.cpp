#include "tlx/tile/box.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tlx::tile;

TEST_CASE("one box lands all chunks of a tile stacked") {
  const tma_box b = box_of(make_shared_tile(element::bf16, 64, 128), 3);
  CHECK(b.rank == 4);
  CHECK(b.splits_inner);
  CHECK(b.extent == std::array<int, 5>{64, 64, 2, 1, 1});
  CHECK(b.bytes() == 64 * 128 * 2);
  CHECK_FALSE(check_box(b));
  const tma_box one = box_of(make_shared_tile(element::bf16, 64, 64), 3);
  CHECK(one.rank == 3);
  CHECK_FALSE(one.splits_inner);
  CHECK(one.extent == std::array<int, 5>{64, 64, 1, 1, 1});
}

TEST_CASE("boxes carry exactly the bytes of their tile") {
  for (const shared_tile& t : {make_shared_tile(element::bf16, 64, 96), make_shared_tile(element::f32, 8, 32), make_shared_tile(element::e4m3, 128, 256),
                               make_shared_tile(element::bf16, 128, 24), make_shared_tile(element::bf16, 64, 128).transpose(), make_shared_tile(element::f32, 1, 64)})
    for (int rank : {2, 3, 4, 5}) {
      const tma_box b = box_of(t, rank);
      CHECK(b.bytes() * b.box_count == t.size_bytes());
      CHECK_FALSE(check_box(b));
    }
  CHECK(box_of(make_shared_tile(element::bf16, 64, 128), 5).box_count == 2);
  CHECK(box_of(make_shared_tile(element::f32, 1, 64), 1).rank == 1);
}

TEST_CASE("a broken box names the rule, the number and the nearest legal value") {
  const auto problem = [](element e, int inner, int rows, int swizzle) { return check_box({.type = e, .rank = 2, .extent = {inner, rows, 1, 1, 1}, .swizzle_bytes = swizzle}); };
  CHECK(problem(element::f32, 1, 8, 0).nearest == 16);  // 4 bytes: ordinary loads
  CHECK(problem(element::bf16, 4, 8, 0).value == 8);
  CHECK(problem(element::bf16, 48, 8, 32).nearest == 32);
  CHECK(problem(element::bf16, 128, 8, 128).value == 256);
  CHECK(problem(element::bf16, 64, 257, 128).nearest == 256);
  CHECK(problem(element::bf16, 64, 0, 128).nearest == 1);
  CHECK(problem(element::bf16, 20, 8, 0).nearest == 32);
  CHECK(to_text(problem(element::bf16, 48, 8, 32)) ==
        "the inner dimension of a TMA box is at most the width of its swizzle; dimension 0 has 96, the nearest legal value is 32");
  CHECK(to_text(problem(element::bf16, 64, 64, 128)).empty());
  CHECK(check_box({.type = element::e2m1, .rank = 2, .extent = {64, 8, 1, 1, 1}}));
}

TEST_CASE("global tensors keep 16-byte addresses and strides") {
  tma_tensor t{.address = 0x1000, .rank = 2, .extent = {64, 100}, .stride_bytes = {128}};
  CHECK_FALSE(check_tensor(t));
  t.stride_bytes[0] = 130;
  CHECK(check_tensor(t).nearest == 128);
  t.stride_bytes[0] = 128;
  t.address = 0x1008;
  CHECK(check_tensor(t).nearest == 0x1000);
  t.address = 0x1000;
  t.extent[1] = 0;
  CHECK(check_tensor(t).dimension == 1);
  t.extent[1] = (std::int64_t{1} << 32) + 1;
  CHECK(check_tensor(t).nearest == std::int64_t{1} << 32);
}
