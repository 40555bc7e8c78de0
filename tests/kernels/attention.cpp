// host::block_attention and its backward pass against float64 on every machine of the run.
#include <doctest/doctest.h>

#include "tests/support/machines.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/skip.hpp"
#include "tlx/host/library.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using problems::attention_case;
constexpr auto half = tile::element::f16;

namespace {

void expect_pass(test::machine_under_test& m, const attention_case& c, std::uint64_t seed) {
  std::string lengths;
  for (size_t i = 0; i < std::min<size_t>(c.lengths.size(), 12); ++i) lengths += cat(c.lengths[i], " ");
  CAPTURE(cat(tile::name(c.type), c.backward ? " backward" : " forward", " block ", c.block, c.causal ? " causal" : "", " D ", c.dimension, " heads ", c.heads, " key heads ", c.key_heads, c.rotary ? " rotary" : "", c.by_token ? " by token" : "", c.interleaved ? " interleaved" : "", c.values ? " values" : "", c.applied ? " applied" : "", " pad ", c.pad, " head-major ", c.head_major, " lengths ", lengths));
  try {
    problems::attention_problem p(*m.on, c, seed);
    p.run(*m.with);
    const problems::verdict v = p.check();
    CHECK_MESSAGE(v.ok, v.why);
  } catch (const error& e) {
    FAIL_CHECK(std::string(e.what()));
  }
}

// Both passes.
void expect(test::machine_under_test& m, attention_case c, std::uint64_t seed = 1) {
  for (const bool backward : {false, true}) {
    c.backward = backward;
    expect_pass(m, c, seed);
  }
}

}  // namespace

TEST_CASE("sequences of every length around a block are right, alone and among others") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128})
      for (const tile::element type : {tile::element::bf16, half}) {
        for (const int length : {1, 63, 64, 65}) expect(m, {.lengths = {length}, .heads = 1, .dimension = d, .type = type});
        expect(m, {.lengths = {0, 1, 63, 64, 65, 127, 128, 200}, .heads = 2, .dimension = d, .type = type}, 5);
        expect(m, {.lengths = {200, 0, 0, 64, 1, 0}, .heads = 1, .dimension = d, .type = type}, 9);
      }
  });
}

TEST_CASE("no sequences, empty sequences and no heads are no work") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.lengths = {}});
    expect(m, {.lengths = {0}});
    expect(m, {.lengths = {0, 0, 0}});
    expect(m, {.lengths = {0, 0, 5, 0}});
  });
}

TEST_CASE("a tile finds its sequence among many, empty ones between") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int sequences : {15, 16, 17, 255, 256, 257, 400}) {
      std::mt19937 bits(static_cast<unsigned>(sequences));
      std::vector<int> lengths(static_cast<std::size_t>(sequences));
      for (int& l : lengths) l = bits() % 3 == 0 ? static_cast<int>(bits() % 130) : static_cast<int>(bits() % 3);
      expect(m, {.lengths = lengths, .heads = 1, .dimension = 64});
    }
  });
}

TEST_CASE("one to five heads are right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (int heads = 1; heads <= 5; ++heads) expect(m, {.lengths = {65, 3}, .heads = heads, .dimension = heads % 2 ? 64 : 128}, static_cast<std::uint64_t>(heads));
  });
}

TEST_CASE("tokens may lie apart, and heads may be the slow axis") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128}) {
      expect(m, {.lengths = {70, 1, 64}, .heads = 2, .dimension = d, .pad = 8});
      expect(m, {.lengths = {70, 1, 64}, .heads = 3, .dimension = d, .pad = 64});
      expect(m, {.lengths = {70, 1, 64}, .heads = 2, .dimension = d, .head_major = true});
      expect(m, {.lengths = {5, 130}, .heads = 3, .dimension = d, .type = half, .pad = 16, .head_major = true});
    }
  });
}

TEST_CASE("NaN in other sequences and beyond the last one does not leak") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128}) {
      expect(m, {.lengths = {7, 30, 64, 65, 1}, .heads = 2, .dimension = d, .extra_tokens = 50, .poisoned = {0, 2, 4}});
      expect(m, {.lengths = {7, 30, 64, 65, 1}, .heads = 2, .dimension = d, .type = half, .extra_tokens = 3, .poisoned = {1, 3}});
    }
  });
}

TEST_CASE("large scores do not overflow the softmax") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    expect(m, {.lengths = {64, 17}, .heads = 1, .dimension = 64, .sigma = 8});
    expect(m, {.lengths = {64, 17}, .heads = 1, .dimension = 128, .type = half, .sigma = 6});
  });
}

TEST_CASE("scores near plus and minus 1e5 are right, and rows of which all but one probability is zero") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128})
      for (const bool causal : {false, true}) expect(m, {.lengths = {65, 3, 64}, .heads = 1, .dimension = d, .causal = causal, .poisoned = {1}, .sigma = 300}, 4);
    expect(m, {.lengths = {130}, .heads = 1, .dimension = 64, .block = 128, .sigma = 300}, 5);
    expect(m, {.lengths = {260}, .heads = 1, .dimension = 64, .block = 256, .sigma = 300}, 6);
    expect_pass(m, {.lengths = {70}, .heads = 1, .dimension = 64, .type = half, .sigma = 100}, 7);  // 1e4; gradients of it are no numbers of f16
  });
}

TEST_CASE("block attention has no tensor but its operands, results, offsets and tables, and no loop over keys where a tile holds whole rows") {
  int seen = 0;
  for (const char* target : {"sm_90a", "sm_100a"})
    for (const host::library_kernel& each : host::library_kernels()) {
      if (each.name.rfind("block_attention", 0) != 0) continue;
      CAPTURE(cat(each.name, " ", target));
      const std::unique_ptr<ir::kernel> k = each.trace(target);
      for (const auto& p : k->parameters()) {
        const std::string& n = p->name;
        CHECK_MESSAGE((n == "q" || n == "k" || n == "v" || n == "o" || n == "d_o" || n == "dq" || n == "dk" || n == "dv" || n == "offsets" || n == "cos" || n == "sin" || n == "scale" || n == "scale_log2"), n);
      }
      // heads of q that share one of k are a loop, and so are the gradients of blocks of 256
      const auto has = [&](const char* part) { return each.name.find(part) != std::string::npos; };
      if (has("backward") && (has("b256") || has("grouped"))) continue;
      int loops = 0;
      ir::walk(k->body, [&](const ir::op& o) { loops += o.is(ir::opcode::for_loop) && !o.integer("tiles"); });
      CHECK(loops == 0);
      ++seen;
    }
  CHECK(seen > 40);
}

TEST_CASE("the order in which the simulator runs warps does not change attention") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    if (!m.simulator()) return;
    for (const std::uint64_t seed : {2, 3, 4}) {
      m.simulator()->set_seed(seed);
      CAPTURE(seed);
      expect(m, {.lengths = {100, 64, 3}, .heads = 2, .dimension = 64});
      expect(m, {.lengths = {100, 64, 3}, .heads = 2, .dimension = 128});
    }
    m.simulator()->set_seed(1);
  });
}

TEST_CASE("a production batch is right where it is sampled") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    std::mt19937 bits(7);
    std::vector<int> lengths(m.is_gpu() ? 1152 : 12);
    for (int& l : lengths) l = static_cast<int>(bits() % (m.is_gpu() ? 1024 : 70));
    expect(m, {.lengths = lengths, .heads = m.is_gpu() ? 4 : 1, .dimension = 64, .sample_tiles = 500});
    if (!m.is_gpu()) return;
    expect(m, {.lengths = lengths, .heads = 4, .dimension = 128, .type = half, .sample_tiles = 500});
    expect(m, {.lengths = std::vector<int>(70000, 1), .heads = 1, .dimension = 64, .sample_tiles = 500});  // more CTAs than a y or z axis takes
  });
}

TEST_CASE("every pair of block and head dimension is right, whole blocks, partial ones and one token") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const auto& [block, d] : {std::pair(64, 96), std::pair(64, 256), std::pair(128, 64), std::pair(128, 96), std::pair(128, 128)}) {
      expect(m, {.lengths = {1, 0, block, block + 1, block - 1}, .heads = 1, .dimension = d, .block = block, .poisoned = {2}});
      expect(m, {.lengths = {3 * block / 2, 2}, .heads = 2, .dimension = d, .block = block, .type = half, .pad = 8});
    }
  });
}

TEST_CASE("causal blocks see no later token") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int block : {64, 128})
      for (const int d : {64, 128}) expect(m, {.lengths = {block + 9, 1, block}, .heads = 2, .dimension = d, .block = block, .causal = true});
  });
}

TEST_CASE("heads of q share heads of k and v") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const auto& [heads, keys] : {std::pair(4, 2), std::pair(9, 3), std::pair(7, 1)}) expect(m, {.lengths = {70, 1, 64}, .heads = heads, .key_heads = keys, .dimension = 64, .poisoned = {1}}, 3);
    for (const int d : {96, 128}) expect(m, {.lengths = {65, 0, 5}, .heads = 4, .key_heads = 2, .dimension = d, .type = half, .pad = 8});
    expect(m, {.lengths = {130, 5}, .heads = 4, .key_heads = 2, .dimension = 64, .block = 128, .causal = true}, 4);
    expect_pass(m, {.lengths = {130, 5}, .heads = 4, .key_heads = 2, .dimension = 128, .block = 128, .causal = true}, 4);
  });
}

TEST_CASE("q and k are rotated on their way to the products, and their gradients back, by position and by token, halves and neighbours") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128})
      for (const bool by_token : {false, true})
        for (const bool interleaved : {false, true}) {
          expect(m, {.lengths = {65, 0, 1, 64, 130}, .heads = 2, .dimension = d, .poisoned = {2}, .rotary = true, .by_token = by_token, .interleaved = interleaved}, 3);
          expect(m, {.lengths = {70, 9}, .heads = 3, .dimension = d, .causal = true, .type = half, .pad = 8, .rotary = true, .by_token = by_token, .interleaved = interleaved}, 5);
        }
  });
}

TEST_CASE("dq that is rotated back before it is rounded is nearer to float64 than one that is rotated afterwards") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128}) {
      const attention_case plain{.lengths = {256, 64}, .heads = 2, .dimension = d, .backward = true};
      attention_case turned = plain;
      turned.rotary = turned.applied = true;
      problems::attention_problem fused(*m.on, turned, 11), apart(*m.on, plain, 11);
      fused.run(*m.with);
      apart.run(*m.with);
      const auto error = fused.rotary_errors(apart);
      MESSAGE(m.name << ", D = " << d << ": largest error of dq " << error.fused << ", rotated afterwards " << error.apart);
      CHECK(error.fused < error.apart);
    }
  });
}

TEST_CASE("v may be rotated too, operands may come rotated, and heads of q may share rotated heads of k") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128})
      for (const bool interleaved : {false, true}) {
        expect(m, {.lengths = {65, 1, 64}, .heads = 2, .dimension = d, .poisoned = {1}, .rotary = true, .interleaved = interleaved, .values = true}, 3);
        expect_pass(m, {.lengths = {70, 3}, .heads = 2, .dimension = d, .backward = true, .rotary = true, .interleaved = interleaved, .applied = true}, 4);
        expect_pass(m, {.lengths = {70, 3}, .heads = 4, .key_heads = 2, .dimension = d, .rotary = true, .interleaved = interleaved}, 5);
      }
  });
}

TEST_CASE("blocks of 256 tokens are right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int d : {64, 128}) {
      expect(m, {.lengths = {1, 0, 256, 300, 65}, .heads = 2, .dimension = d, .block = 256, .poisoned = {4}}, 3);
      expect(m, {.lengths = {193, 2}, .heads = 1, .dimension = d, .block = 256, .causal = true, .type = half, .pad = 8}, 5);
      expect_pass(m, {.lengths = {193, 2}, .heads = 4, .key_heads = 2, .dimension = d, .block = 256, .causal = true, .type = half, .pad = 8}, 4);
    }
  });
}

TEST_CASE("a long sequence is right, and every length around a block beside it") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int block : {64, 128, 256})
      if (m.is_gpu() || block == 64) expect(m, {.lengths = {0, 4096, 1, 63, 64, 65, 127, 128, 129, 0}, .heads = 1, .dimension = m.is_gpu() ? 128 : 64, .block = block}, 6);
  });
}

TEST_CASE("the backward pass gives the same bits every time") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    std::mt19937 bits(3);
    std::vector<int> lengths(m.is_gpu() ? 20 : 3);
    for (int& l : lengths) l = static_cast<int>(bits() % (m.is_gpu() ? 300 : 100));
    const attention_case cases[] = {{.lengths = lengths, .heads = 4, .dimension = 128, .backward = true},
                                    {.lengths = lengths, .heads = 4, .key_heads = 2, .dimension = 64, .backward = true},
                                    {.lengths = lengths, .heads = 2, .dimension = 128, .block = 128, .backward = true},
                                    {.lengths = lengths, .heads = 2, .dimension = 64, .block = 256, .backward = true}};
    for (const attention_case& c : cases) {
      CAPTURE(c.block);
      problems::attention_problem p(*m.on, c, 8);
      p.run(*m.with);
      m.on->wait();
      const std::vector<std::uint16_t> first = p.result();
      int others = 0;
      for (int run = 1; run < (m.is_gpu() ? 200 : 3); ++run) {
        if (m.simulator()) m.simulator()->set_seed(static_cast<std::uint64_t>(run) + 1);
        p.run(*m.with);
        m.on->wait();
        others += p.result() != first;
      }
      CHECK(others == 0);
    }
    if (m.simulator()) m.simulator()->set_seed(1);
  });
}
