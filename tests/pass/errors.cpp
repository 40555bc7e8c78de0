// What users get wrong in the structure of a kernel, with the id, the words and the place of each refusal.
#include <doctest/doctest.h>

#include "steps.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/kernels/gemm.hpp"
#include "tlx/kernels/scaled.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, x), (view<bf16, 2>, y), (view<bf16, 3>, z), (scalar<std::int32_t>, n));
};

template <class Arguments = arguments, class Body>
diagnostic refusal(Body&& body, const std::string& target = "sm_90a") {
  try {
    auto k = trace<Arguments>("k", target, body);
    test::run_passes(*k);
  } catch (const user_error& e) {
    return e.parts();
  }
  return {};
}
template <class Body>
std::string id(Body&& body, const std::string& target = "sm_90a") { return refusal(body, target).id; }

struct two_wide : kernels::scaled_plan<256, 2> {
  static constexpr int accumulators = 2;
};
constexpr auto tile_spec = shared<bf16, 64, 64>;
void copy(const arguments& in) { store(in.y.at(0, 0), fetch<64, 64>(in.x.at(0, 0))); }

}  // namespace

TEST_CASE("a ring that one side never touches is refused in the user's words") {
  const diagnostic drained = refusal([](block& cta, const arguments& in) {
    auto ab = cta.ring<4>("ab", tile_spec);
    cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("producer", 1_warp, [&](const grid_box& t) { load(ab.fill(), in.x[t]); }));
  });
  CHECK(drained.id == "ring-never-drained");
  CHECK(drained.what == "ring \"ab\" (4 stages) is filled by role \"producer\" but no role drains it");
  CHECK(std::string(drained.where.file).find("errors.cpp") != std::string::npos);
  CHECK(drained.context == "kernel \"k\"");
  const diagnostic filled = refusal([](block& cta, const arguments& in) {
    auto ab = cta.ring<4>("ab", tile_spec);
    cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("consumer", 4_warps, [&](const grid_box& t) { store(in.x[t], read(ab.drain())); }));
  });
  CHECK(filled.id == "ring-never-filled");
  CHECK(filled.what == "ring \"ab\" is drained by role \"consumer\" but no role fills it");
  const auto unused = ir::parse("tlx.ir 1\nkernel @k target(\"sm_90a\") warps(4) cluster(1, 1, 1) blocks(1) shared(0) grid(\"1\", \"1\", \"1\") [\n"
                                "%0 = ring.make {name = \"ab\"} : ring<4: shared<bf16 64x64 sw128>>\nbarrier.warp\n]\n");
  std::string found;
  try {
    test::run_passes(*unused);
  } catch (const user_error& e) {
    found = e.id();
  }
  CHECK(found == "ring-unused");
}

TEST_CASE("a ring is filled by one role, and something is written into its slots") {
  CHECK(id([](block& cta, const arguments& in) {
          auto ab = cta.ring<2>("ab", tile_spec);
          cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("one", 1_warp, [&](const grid_box& t) { load(ab.fill(), in.x[t]); }),
                    role("two", 1_warp, [&](const grid_box& t) { load(ab.fill(), in.y[t]); }), role("out", 4_warps, [&](const grid_box& t) { store(in.x[t], read(ab.drain())); }));
        }) == "ring-filled-by-two-roles");
  CHECK(id([](block& cta, const arguments& in) {
          auto ab = cta.ring<2>("ab", tile_spec);
          cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("in", 1_warp, [&](const grid_box&) { (void)ab.fill(); }), role("out", 4_warps, [&](const grid_box& t) { store(in.x[t], read(ab.drain())); }));
        }) == "ring-never-written");
}

TEST_CASE("somebody runs the kernel, and not more warps than a CTA has") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    CHECK(id([](block&, const arguments& in) { copy(in); }, target) == "warps-missing");
    CHECK(id([](block& cta, const arguments& in) { cta.warps(0_warps), copy(in); }, target) == "warps-missing");
    CHECK(id([](block& cta, const arguments& in) { cta.warps(33_warps), copy(in); }, target) == "too-many-warps");
    CHECK(id([](block& cta, const arguments& in) { cta.warps(32_warps), copy(in); }, target) == "");
    CHECK(id([](block& cta, const arguments& in) {  // an accumulator divides by the number of warps
            auto a = cta.ring<1>("a", tile_spec);
            load(a.fill(), in.x.at(0, 0));
            auto s = a.drain();
            store(in.y.at(0, 0), cast<bf16>(read(mma(s, s))));
          }, target) == "warps-missing");
    auto role_of_warps = [](int n) {
      return [n](block& cta, const arguments& in) { cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("r", warp_count{n}, [&](const grid_box&) { copy(in); })); };
    };
    CHECK(id(role_of_warps(0), target) == "warps-missing");
    CHECK(id(role_of_warps(-4), target) == "warps-missing");
    CHECK(id(role_of_warps(40), target) == "too-many-warps");
    CHECK(id(role_of_warps(32), target) == "");
    CHECK(id([](block& cta, const arguments& in) {
            cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("a", 16_warps, [&](const grid_box&) { copy(in); }), role("b", 13_warps, [&](const grid_box&) { copy(in); }),
                      role("c", 4_warps, [&](const grid_box&) { copy(in); }));
          }, target) == "too-many-warps");
  }
}

TEST_CASE("tiles and slots belong to a role where there are roles, and roles stand at the top") {
  const diagnostic d = refusal([](block& cta, const arguments& in) {
    auto ab = cta.ring<2>("ab", tile_spec);
    load(ab.fill(), in.x.at(0, 0));
    cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("out", 4_warps, [&](const grid_box& t) { store(in.x[t], read(ab.drain())); }));
  });
  CHECK(d.id == "tile-outside-roles");
  CHECK(d.what == "\"ring.fill\" stands outside of the roles of the kernel");
  CHECK(id([](block& cta, const arguments& in) {
          when(in.n > 0, [&] { cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("out", 4_warps, [&](const grid_box&) { copy(in); })); });
        }) == "role-nested");
}

TEST_CASE("shared memory, tensor memory and occupancy are counted, and the message lists who takes what") {
  constexpr int ring_line = __LINE__ + 3;
  auto ring_of_stages = [](auto stages) {
    return [](block& cta, const arguments& in) {
      auto ab = cta.ring<decltype(stages)::value>("ab", shared<bf16, 128, 64>, shared<bf16, 256, 64>);
      cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("in", 1_warp, [&](const grid_box&) {
                  auto s = ab.fill();
                  load(get<0>(s), in.x.at(0, 0));
                  load(get<1>(s), in.x.at(0, 0));
                }),
                role("out", 4_warps, [&](const grid_box& t) { store(in.x[t], read(get<0>(ab.drain()))); }));
    };
  };
  const diagnostic big = refusal(ring_of_stages(std::integral_constant<int, 5>{}));
  CHECK(big.id == "shared-memory-exceeded");
  CHECK(big.what.find("a CTA has 232448") != std::string::npos);
  CHECK(big.what.find("ring \"ab\", 5 stages: 245760") != std::string::npos);
  CHECK(big.where.line == ring_line);
  CHECK(big.fix[0] == "at most 4 stages of ring \"ab\" fit, of 49152 bytes each");
  const diagnostic far = refusal(ring_of_stages(std::integral_constant<int, 11>{}));
  CHECK(far.fix[0] == big.fix[0]);
  CHECK(id(ring_of_stages(std::integral_constant<int, 4>{})) == "");

  auto two_accumulators = [](auto cols) {
    return [](block& cta, const arguments& in) {
      constexpr int n = decltype(cols)::value;
      cta.warps(4_warps);
      auto a = cta.ring<1>("a", shared<bf16, 128, 64>);
      auto b = cta.ring<1>("b", shared<bf16, 64, n>);
      load(a.fill(), in.x.at(0, 0));
      load(b.fill(), in.x.at(0, 0));
      auto x = a.drain();
      auto y = b.drain();
      store(in.y.at(0, 0), cast<bf16>(read(mma(x, y)) + read(mma(x, y)) + read(mma(x, y))));
    };
  };
  const diagnostic columns = refusal(two_accumulators(std::integral_constant<int, 256>{}), "sm_100a");
  CHECK(columns.id == "tensor-memory-exceeded");
  CHECK(columns.what.find("768 columns of tensor memory, there are 512") != std::string::npos);
  CHECK(id(two_accumulators(std::integral_constant<int, 128>{}), "sm_100a") == "");

  const diagnostic twice = refusal([&](block& cta, const arguments& in) {
    cta.per_processor(2);
    ring_of_stages(std::integral_constant<int, 4>{})(cta, in);
  });
  CHECK(twice.id == "occupancy-not-met");
  CHECK(twice.what.find("2 CTAs per SM were asked for") == 0);
  CHECK(id([](block& cta, const arguments& in) { cta.per_processor(0), cta.warps(4_warps), copy(in); }) == "occupancy-not-met");
  CHECK(id([](block& cta, const arguments& in) { cta.per_processor(3), cta.warps(32_warps), copy(in); }) == "occupancy-not-met");
  CHECK(id([](block& cta, const arguments& in) { cta.per_processor(2), cta.warps(32_warps), copy(in); }) == "");
}

TEST_CASE("register budgets are multiples of eight that fit together") {
  auto three = [](int load_budget, int work_budget, int other_budget) {
    return [=](block& cta, const arguments& in) {
      cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, registers{load_budget}, [&](const grid_box&) { copy(in); }),
                role("work", 4_warps, registers{work_budget}, [&](const grid_box&) { copy(in); }), role("other", 4_warps, registers{other_budget}, [&](const grid_box&) { copy(in); }));
    };
  };
  const diagnostic odd = refusal(three(0, 100, 0));
  CHECK(odd.id == "register-budget-invalid");
  CHECK(odd.what == "role \"work\" asks for 100 registers");
  CHECK(odd.fix[0] == "ask for 104");
  CHECK(id(three(8, 0, 0)) == "register-budget-invalid");
  CHECK(id(three(0, 264, 0)) == "register-budget-invalid");
  CHECK(id(three(-8, 0, 0)) == "register-budget-invalid");
  // Three warpgroups start with 168 each, 504 in all.
  CHECK(id(three(24, 240, 240)) == "");
  CHECK(id(three(32, 240, 240)) == "register-budget-exceeded");
  CHECK(id(three(0, 256, 232)) == "register-budget-exceeded");
  CHECK(id(three(0, 240, 240)) == "");
  CHECK(id(three(0, 232, 0)) == "");
}

TEST_CASE("an accumulator fits the warps that use it") {
  auto product = [](auto rows, int warps) {
    return [=](block& cta, const arguments& in) {
      constexpr int m = decltype(rows)::value;
      cta.warps(warp_count{warps});
      auto a = cta.ring<1>("a", shared<bf16, m, 64>), b = cta.ring<1>("b", shared<bf16, m, 64>);
      load(a.fill(), in.x.at(0, 0));
      load(b.fill(), in.x.at(0, 0));
      auto x = a.drain();
      auto y = b.drain();
      store(in.y.at(0, 0), cast<bf16>(read(mma(x, transpose(y)))));
    };
  };
  using i64 = std::integral_constant<int, 64>;
  using i96 = std::integral_constant<int, 96>;
  using i128 = std::integral_constant<int, 128>;
  CHECK(id(product(i64{}, 4)) == "");
  CHECK(id(product(i128{}, 8)) == "");
  CHECK(id(product(i128{}, 4)) == "");
  for (const int warps : {1, 2, 3, 6, 8}) CHECK(id(product(i64{}, warps)) == "accumulator-shape");
  CHECK(id(product(i96{}, 4)) == "accumulator-shape");
  CHECK(refusal(product(i64{}, 6)).fix[0] == "use 4 warps for 64 rows");
  CHECK(refusal(product(i128{}, 12)).fix[0] == "use 4 or 8 warps for 128 rows");
  CHECK(refusal(product(i96{}, 4)).fix[0] == "use a multiple of 64 rows, 128 instead of 96, and 4 warps");
  CHECK(id(product(i64{}, 4), "sm_100a") == "");
  CHECK(id(product(i128{}, 4), "sm_100a") == "");
  CHECK(id(product(i96{}, 4), "sm_100a") == "accumulator-shape");
  CHECK(id(product(i64{}, 2), "sm_100a") == "accumulator-shape");
}

TEST_CASE("C40: whoever reads an accumulator needs four warps of its own, whatever the other roles have") {
  const auto product = [](int warps) {
    return [=](block& cta, const arguments& in) {
      auto ab = cta.ring<2>("ab", tile_spec);
      auto d = cta.ring<1>("d", accumulator<float, 64, 64>);
      cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, [&](const grid_box& t) { load(ab.fill(), in.x[t]); }),
                role("mma", 1_warp, [&](const grid_box&) {
                  auto slot = ab.drain();
                  mma(d.fill(), slot, transpose(slot));
                }),
                role("out", warp_count{warps}, [&](const grid_box& t) { store(in.y[t], cast<bf16>(read(d.drain()))); }));
    };
  };
  for (const char* target : {"sm_90a", "sm_100a", "sm_103a"}) {
    CAPTURE(target);
    CHECK(id(product(4), target) == "");
    for (const int warps : {1, 2, 3}) {
      const diagnostic d = refusal(product(warps), target);
      CHECK(d.id == "accumulator-shape");
      REQUIRE(!d.fix.empty());
      CHECK(d.fix[0].find("4 warps") != std::string::npos);
      CHECK(std::string(d.where.file).find("errors.cpp") != std::string::npos);
    }
  }
}

TEST_CASE("an accumulator that is read has been written, in a loop whose bounds its reader knows") {
  CHECK(id([](block& cta, const arguments& in) {
          auto d = cta.ring<2>("d", accumulator<float, 64, 64>);
          cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("mma", 1_warp, [&](const grid_box&) { (void)d.fill(); }),
                    role("out", 4_warps, [&](const grid_box& t) { store(in.x[t], cast<bf16>(read(d.drain()))); }));
        }) == "accumulator-never-written");
  CHECK(id([](block& cta, const arguments& in) {
          auto a = cta.ring<2>("a", tile_spec);
          auto d = cta.ring<2>("d", accumulator<float, 64, 64>);
          cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, [&](const grid_box& t) { for_each(t.row, [&](tlx::index) { load(a.fill(), in.x[t]); }); }),
                    role("mma", 1_warp, [&](const grid_box& t) {
                      auto acc = d.fill();
                      for_each(t.row, [&](tlx::index i) {
                        auto s = a.drain();
                        mma(acc, s, transpose(s), accumulate(i > 0));
                      });
                    }),
                    role("out", 4_warps, [&](const grid_box& t) { store(in.x[t], cast<bf16>(read(d.drain()))); }));
        }) == "accumulator-maybe-empty");
}

TEST_CASE("roles that share an accumulator can become one on Hopper only when each uses it once a tile") {
  CHECK(id([](block& cta, const arguments& in) {
          auto a = cta.ring<2>("a", tile_spec);
          auto d = cta.ring<2>("d", accumulator<float, 64, 64>);
          cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, [&](const grid_box& t) { load(a.fill(), in.x[t]); }),
                    role("mma", 1_warp, [&](const grid_box&) {
                      when(in.n > 0, [&] {
                        auto acc = d.fill();
                        auto s = a.drain();
                        mma(acc, s, transpose(s));
                      });
                    }),
                    role("out", 4_warps, [&](const grid_box& t) { store(in.x[t], cast<bf16>(read(d.drain()))); }));
        }) == "roles-not-mergeable");
}

TEST_CASE("a jagged tile is loaded and drained in one place") {
  CHECK(id([](block& cta, const arguments& in) {
          auto a = cta.ring<1>("a", tile_spec);
          cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, [&](const grid_box& t) { load(a.fill(), in.z[jagged_box{t.row, t.col, in.n}]); }),
                    role("out", 4_warps, [&](const grid_box& t) { store(in.x[t], read(a.drain())); }));
        }) == "jagged-load-apart");
}

TEST_CASE("what a cluster loads together is divided in whole groups of eight rows and read by products only") {
  const auto loads = [](int ctas, bool products) {
    return refusal([=](block& cta, const arguments& in) {
      cta.cluster(ctas);
      auto a = cta.ring<2>("a", tile_spec);
      auto tiles = cta.persistent(grid_of<64, 64>(in.x));
      cta.roles(tiles, role("load", 1_warp, [&](const grid_box& t) { load_for_cluster(a.fill(), in.x.at(0, t.col)); }), role("out", 4_warps, [&](const grid_box& t) {
                  if (products) {
                    auto s = a.drain();
                    store(in.y[t], cast<bf16>(read(mma(s, transpose(s)))));
                  } else {
                    store(in.y[t], read(a.drain()));
                  }
                }));
    });
  };
  CHECK(loads(2, true).id == "");
  CHECK(loads(8, true).id == "");
  CHECK(loads(16, true).id == "cluster-load");
  CHECK(loads(16, true).fix.front() == "use a multiple of 128 rows");
  CHECK(loads(2, false).id == "cluster-read");
  CHECK(loads(2, false).what.find("\"a\"") != std::string::npos);
  CHECK(loads(1, false).id == "");
}

TEST_CASE("a pair of CTAs multiplies in a role of its own, rows of its own with halves that copies brought") {
  enum class wrong { nothing, halves_alone, rows_together, by_threads, more_in_role, wide_role, accumulator_alone, few_rows, read_by_threads, half_row, said_late };
  const auto pairs = [](wrong what, const std::string& target = "sm_100a") {
    return refusal([=](block& cta, const arguments& in) {
      if (what == wrong::by_threads) cta.move_by_threads();
      if (what == wrong::said_late) cta.cluster(2);
      else cta.pair();
      auto tiles = cta.persistent(grid_of<128, 64>(in.y));
      const auto walk = [&](auto spec_a, auto spec_b, auto spec_d) {
        auto ab = cta.ring<3>("ab", spec_a, spec_b);
        auto d = cta.ring<2>("d", spec_d);
        const auto load_both = role("load", what == wrong::by_threads ? 4_warps : 1_warp, [&](const grid_box& t) {
          auto slot = ab.fill();
          if (what == wrong::rows_together) load_for_cluster(get<0>(slot), in.x.at(t.row, 0));
          else load(get<0>(slot), in.x.at(t.row, 0));
          if (what == wrong::halves_alone) load(get<1>(slot), in.x.at(t.col, 0));
          else load_for_cluster(get<1>(slot), in.x.at(t.col, 0));
        });
        const auto multiply = role("mma", what == wrong::wide_role ? 4_warps : 1_warp, [&](const grid_box& t) {
          if (what == wrong::accumulator_alone) {
            auto alone = cta.make(spec_d);
            mma(alone, get<0>(ab.drain()), transpose(get<1>(ab.drain())));
          }
          auto sums = d.fill();
          auto slot = ab.drain();
          mma(sums, get<0>(slot), transpose(get<1>(slot)));
          if (what == wrong::said_late) {
            cta.pair();
            mma(sums, get<0>(slot), transpose(get<1>(slot)), accumulate(true));
          }
          if (what == wrong::more_in_role) store(in.y.at(t.row, 0), fetch<1, 8>(in.x.at(t.row, 0)));
        });
        const auto finish = role("finish", 4_warps, [&](const grid_box& t) {
          if (what == wrong::read_by_threads) {
            auto slot = ab.drain();
            store(in.y.at(t.row, 64), read(get<0>(slot)));
          }
          store(in.y[t], cast<bf16>(read(d.drain())));
        });
        cta.roles(tiles, load_both, multiply, finish);
      };
      if (what == wrong::few_rows) walk(shared<bf16, 64, 64>, shared<bf16, 64, 64>, accumulator<float, 64, 64>);
      else if (what == wrong::half_row) walk(shared<bf16, 128, 64>, shared<bf16, 8, 64>, accumulator<float, 128, 8>);
      else walk(shared<bf16, 128, 64>, shared<bf16, 64, 64>, accumulator<float, 128, 64>);
    }, target);
  };
  CHECK(pairs(wrong::nothing).id == "");
  CHECK(pairs(wrong::nothing, "sm_103a").id == "");
  CHECK(pairs(wrong::halves_alone).id == "pair-operand");
  CHECK(pairs(wrong::halves_alone).fix.front() == "load it with load_for_cluster: each CTA keeps its half");
  CHECK(pairs(wrong::rows_together).id == "pair-operand");
  CHECK(pairs(wrong::by_threads).id == "pair-operand");
  CHECK(pairs(wrong::read_by_threads).id == "pair-operand");
  CHECK(pairs(wrong::half_row).id == "pair-operand");
  CHECK(pairs(wrong::more_in_role).id == "pair-role");
  CHECK(pairs(wrong::wide_role).id == "pair-role");
  CHECK(pairs(wrong::accumulator_alone).id == "pair-accumulator");
  CHECK(pairs(wrong::few_rows).id == "pair-accumulator");
  CHECK(pairs(wrong::said_late).id == "pair-role");
}

TEST_CASE("an operand that the tensor cores cannot take is refused at the product") {
  // 8-bit K-major atoms are 32 bytes; a 16-bit operand of K = 8 is below one step.
  const diagnostic d = refusal([](block& cta, const arguments& in) {
    cta.warps(4_warps);
    auto a = cta.ring<1>("a", shared<bf16, 64, 64>), b = cta.ring<1>("b", shared<bf16, 64, 64>);
    auto narrow = cta.ring<1>("n", shared<bf16, 8, 64>);
    load(a.fill(), in.x.at(0, 0));
    load(b.fill(), in.x.at(0, 0));
    load(narrow.fill(), in.x.at(0, 0));
    auto x = a.drain();
    auto n = narrow.drain();
    (void)x;
    store(in.y.at(0, 0), cast<bf16>(read(mma(transpose(n), n))));  // K = 8
    (void)b.drain();
  });
  CHECK(d.id == "operand-refused");
  CHECK(!d.because.empty());
  CHECK(d.where.line > 0);
}

TEST_CASE("block scales are refused where they do not exist, do not fit tensor memory, or would be moved by threads") {
  using scaled = kernels::scaled_arguments<e4m3, e4m3, ue8m0, bf16>;
  const auto id_of = [](const std::string& target, auto&& body) { return refusal<scaled>(body, target).id; };
  const auto library = [](block& cta, const scaled& in) { kernels::scaled_gemm<kernels::scaled_plan<128, 2>>(cta, in, kernels::plain_epilogue{}); };
  CHECK(id_of("sm_90a", library) == "scaled-product-missing");
  CHECK(id_of("sm_100a", library).empty());
  CHECK(id_of("sm_103a", library).empty());
  CHECK(id_of("sm_100a", [](block& cta, const scaled& in) { kernels::scaled_gemm<two_wide>(cta, in, kernels::plain_epilogue{}); }) == "tensor-memory-exceeded");
  CHECK(id_of("sm_100a", [&](block& cta, const scaled& in) {
          cta.move_by_threads();
          library(cta, in);
        }) == "scales-by-threads");
  const auto in_pairs = [&](block& cta, const scaled& in) {
    cta.pair();
    library(cta, in);
  };
  const diagnostic paired = refusal<scaled>(in_pairs, "sm_100a");
  CHECK(paired.id == "pair-operand");
  CHECK(paired.what == "block-scaled products are asked of a pair of CTAs");
}

TEST_CASE("a target without wgmma or tcgen05 is refused with the list of those that have them") {
  auto k = trace<arguments>("k", "sm_80", [](block& cta, const arguments& in) { cta.warps(4_warps), copy(in); });
  try {
    test::run_passes(*k);
    FAIL("accepted");
  } catch (const user_error& e) {
    CHECK(e.id() == "target-unsupported");
    CHECK(e.parts().fix[0].find("sm_90a") != std::string::npos);
  }
}
