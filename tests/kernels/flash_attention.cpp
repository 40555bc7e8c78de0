// host::flash_attention and its backward pass against float64 on every machine of the run.
#include <doctest/doctest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/flash_attention.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/skip.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using problems::flash_case;
constexpr auto half = tile::element::f16;

namespace {

void expect_pass(test::machine_under_test& m, const flash_case& c, std::uint64_t seed = 1) {
  const auto list = [](const std::vector<int>& all) {
    std::string text;
    for (int l : all) text += cat(l, " ");
    return text;
  };
  CAPTURE(cat(tile::name(c.type), " batch ", c.batch, " heads ", c.heads, "/", c.key_heads, " queries ", c.queries, " keys ", c.keys, " D ", c.dimension, " left ", c.left, " right ", c.right, " lengths ",
              list(c.lengths), "and ", list(c.key_lengths), " cap ", c.soft_cap, c.slopes ? " slopes" : "", c.head_major ? " head-major" : "", c.backward ? " both passes" : "", c.any_order ? ", any order" : ""));
  try {
    problems::flash_problem p(*m.on, c, seed);
    p.run(*m.with);
    const problems::verdict v = p.check();
    CHECK_MESSAGE(v.ok, v.why);
  } catch (const error& e) {
    FAIL_CHECK(std::string(e.what()));
  }
}

// Both passes.
void expect(test::machine_under_test& m, flash_case c, std::uint64_t seed = 1) {
  c.backward = c.lse;
  expect_pass(m, c, seed);
}

}  // namespace

TEST_CASE("flash: every number of queries and keys around a block is right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128})
      for (const tile::element type : {tile::element::bf16, half}) {
        for (const int keys : {1, 127, 128, 129, 300}) expect(m, {.queries = 5, .keys = keys, .dimension = d, .type = type});
        for (const int queries : {1, 127, 128, 129}) expect(m, {.queries = queries, .keys = 130, .dimension = d, .type = type}, 2);
      }
  });
}

TEST_CASE("flash: no queries, no heads and no batch are no work") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.queries = 0, .keys = 10});
    expect(m, {.batch = 0, .queries = 3, .keys = 10});
  });
}

TEST_CASE("flash: no keys give zeros") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128}) expect(m, {.batch = 2, .heads = 2, .queries = 70, .keys = 0, .dimension = d, .right = 0});
    expect(m, {.heads = 2, .dimension = 64, .type = half, .lengths = {70, 0, 3}, .key_lengths = {0, 0, 0}});
  });
}

TEST_CASE("flash: batches, heads and strides are right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.batch = 2, .heads = 3, .queries = 130, .keys = 140, .dimension = 64});
    expect(m, {.batch = 2, .heads = 4, .key_heads = 2, .queries = 20, .keys = 200, .pad = 8});
    expect(m, {.batch = 2, .heads = 4, .key_heads = 1, .queries = 20, .keys = 70, .dimension = 64, .type = half, .head_major = true, .lse = false});
  });
}

TEST_CASE("flash: causal, with fewer and more queries than keys") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128})
      for (const auto& [queries, keys] : {std::pair(300, 300), std::pair(70, 330), std::pair(300, 60), std::pair(1, 200), std::pair(128, 256)})
        expect(m, {.heads = 2, .queries = queries, .keys = keys, .dimension = d, .right = 0}, 3);
  });
}

TEST_CASE("flash: windows") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const auto& [left, right] : {std::pair(0, 0), std::pair(40, 0), std::pair(200, 30), std::pair(-1, 130), std::pair(64, -1), std::pair(1000, 1000)}) {
      expect(m, {.queries = 400, .keys = 400, .dimension = 64, .left = left, .right = right}, 4);
      expect(m, {.queries = 130, .keys = 290, .left = left, .right = right}, 5);
      expect(m, {.queries = 290, .keys = 130, .dimension = 64, .left = left, .right = right}, 5);
    }
  });
}

TEST_CASE("flash: sequences of any lengths among NaN") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128}) {
      expect(m, {.heads = 2, .dimension = d, .lengths = {1, 0, 127, 128, 129, 5}});
      expect(m, {.dimension = d, .lengths = {10, 200, 3, 1}, .key_lengths = {300, 0, 129, 128}, .poisoned = {2}}, 2);
      expect(m, {.heads = 4, .key_heads = 2, .dimension = d, .right = 0, .type = half, .lengths = {150, 2, 64, 140}, .poisoned = {1, 3}, .pad = 8}, 3);
      expect(m, {.dimension = d, .left = 50, .right = 0, .lengths = {0, 0, 300}, .key_lengths = {7, 0, 310}}, 4);
    }
  });
}

TEST_CASE("flash: capped and lowered scores") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.queries = 140, .keys = 270, .sigma = 3, .soft_cap = 5});
    expect(m, {.heads = 3, .queries = 140, .keys = 270, .right = 0, .slopes = true});
  });
}

TEST_CASE("flash: large scores do not overflow the softmax") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.queries = 64, .keys = 300, .dimension = 64, .sigma = 8});
    expect(m, {.queries = 64, .keys = 300, .type = half, .sigma = 6});
  });
}

TEST_CASE("flash: a backward pass that adds in any order") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const auto expect_any_order = [&](flash_case c, std::uint64_t seed) {
      c.any_order = true;
      expect(m, c, seed);
    };
    for (const int keys : {1, 127, 128, 129, 300}) expect_any_order({.queries = 5, .keys = keys}, 1);
    for (const int queries : {1, 63, 64, 65, 200}) expect_any_order({.queries = queries, .keys = 130, .type = half}, 2);
    expect_any_order({.batch = 2, .heads = 4, .key_heads = 2, .queries = 140, .keys = 200, .pad = 8}, 3);
    expect_any_order({.batch = 2, .heads = 2, .queries = 70, .keys = 140, .head_major = true}, 4);
    for (const auto& [queries, keys] : {std::pair(300, 300), std::pair(70, 330), std::pair(300, 60)}) expect_any_order({.heads = 2, .queries = queries, .keys = keys, .right = 0}, 5);
    expect_any_order({.queries = 400, .keys = 400, .left = 40, .right = 0}, 6);
    expect_any_order({.queries = 130, .keys = 290, .left = 64}, 7);
    expect_any_order({.queries = 140, .keys = 270, .sigma = 3, .soft_cap = 5}, 8);
    expect_any_order({.heads = 3, .queries = 140, .keys = 270, .right = 0, .slopes = true}, 9);
    expect_any_order({.queries = 64, .keys = 300, .sigma = 8}, 10);
    expect_any_order({.queries = 70, .keys = 0}, 11);
  });
}

TEST_CASE("flash: the order in which the simulator runs warps does not change the result") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    if (!m.simulator()) return;
    for (const std::uint64_t seed : {2, 3, 4}) {
      m.simulator()->set_seed(seed);
      CAPTURE(seed);
      expect(m, {.heads = 3, .queries = 270, .keys = 520, .right = 0});
      expect(m, {.dimension = 64, .lengths = {100, 300, 3}, .key_lengths = {129, 700, 40}});
    }
    m.simulator()->set_seed(1);
  });
}

TEST_CASE("flash: what cannot be is an error") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const auto id = [&](const host::flash_attention_problem& p) { return test::error_of([&] { host::flash_attention(*m.with, {}, {}, {}, {}, 0, p); }); };
    CHECK(id({.dimension = 96}) == "flash-attention-shape");
    CHECK(id({.type = tile::element::f32}) == "flash-attention-type");
    CHECK(id({.heads = 4, .key_heads = 3}) == "flash-attention-heads");
    CHECK(id({.scale = -1}) == "flash-attention-scores");
    CHECK(id({.soft_cap = 1, .slopes = 256}) == "flash-attention-scores");
    CHECK(id({.query_offsets = 256}) == "flash-attention-offsets");
    CHECK(id(host::flash_attention_problem{.dimension = 64}.any_order()) == "flash-attention-any-order");
    CHECK(id(host::flash_attention_problem{.query_offsets = 256, .key_offsets = 256}.any_order()) == "flash-attention-any-order");
    CHECK(test::error_of([&] { host::flash_attention_backward(*m.with, {}, {}, {}, {}, {}, 0, {}, {}, {}, {.queries = 1, .keys = 1}); }) == "flash-attention-lse");
  });
}
