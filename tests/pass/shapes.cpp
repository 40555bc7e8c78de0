// What each pass does to a kernel, by what its text shows.
#include <doctest/doctest.h>

#include <set>

#include "steps.hpp"
#include "tests/support/error_of.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/kernels/gemm.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;
using ir::opcode;

namespace {

template <int N, class T = bf16>
std::unique_ptr<ir::kernel> product(const std::string& target) {
  using plan = kernels::gemm_plan<128, N, 64, 2>;
  return trace<kernels::gemm_arguments<T>>("gemm", target, [](block& cta, const kernels::gemm_arguments<T>& in) { kernels::gemm<T, plan>(cta, in, kernels::plain_epilogue{}); });
}

std::vector<int> read_widths(const ir::kernel& k) {
  std::vector<int> widths;
  ir::walk(k.body, [&](const ir::op& o) {
    if (o.is(opcode::acc_read)) widths.push_back(o.result()->type.cols);
  });
  return widths;
}

std::vector<std::string> roles(const ir::kernel& k) {
  std::vector<std::string> names;
  ir::walk(k.body, [&](const ir::op& o) {
    if (o.is(opcode::role)) names.push_back(cat(o.text("name"), " ", o.integer("warps")));
  });
  return names;
}

struct arguments {
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, x), (view<bf16, 2>, y), (scalar<std::int32_t>, n));
};

}  // namespace

TEST_CASE("roles that share an accumulator become one on Hopper and stay apart on Blackwell") {
  auto hopper = product<256>("sm_90a"), blackwell = product<256>("sm_100a");
  test::run_passes(*hopper, "merge-roles");
  test::run_passes(*blackwell, "merge-roles");
  CHECK(roles(*hopper) == std::vector<std::string>{"load 1", "mma+epilogue 8"});
  CHECK(roles(*blackwell) == std::vector<std::string>{"load 1", "mma 1", "epilogue 4"});
  CHECK(test::count_ops(*hopper, opcode::ring_make) == 1);
  CHECK(test::count_ops(*hopper, opcode::acc_make) == 1);
  CHECK(test::count_ops(*blackwell, opcode::ring_make) == 2);
  CHECK(test::count_ops(*blackwell, opcode::acc_make) == 0);
}

TEST_CASE("a read of an accumulator whose loop may not run is guarded by the loop's bounds; one that always runs is not") {
  const auto guards = [](const std::string& target, auto least) {
    constexpr int at_least = decltype(least)::value;
    const auto made = [&] {
      return trace<arguments>("sum", target, [&](block& cta, const arguments& in) {
        using namespace literals;
        auto d = cta.ring<1>("d", accumulator<float, 64, 64>);
        auto x = cta.ring<2>("x", shared<bf16, 64, 64>, shared<bf16, 64, 64>);
        const auto rounds = [&] {
          if constexpr (at_least == 0) return ceil_div(in.x.extent(1), 64);
          else return max(ceil_div(in.x.extent(1), 64), at_least);
        };
        cta.roles(cta.persistent(grid_of<64, 64>(in.y)),
          role("load", 1_warp, [&](const grid_box& t) {
            for_each(rounds(), [&](tlx::index i) {
              auto slot = x.fill();
              load(get<0>(slot), in.x.at(t.row, i * 64));
              load(get<1>(slot), in.x.at(t.col, i * 64));
            });
          }),
          role("mma", 1_warp, [&](const grid_box&) {
            auto acc = d.fill();
            for_each(rounds(), [&](tlx::index i) {
              auto slot = x.drain();
              mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
            });
          }),
          role("epilogue", 4_warps, [&](const grid_box& t) { store(in.y[t], cast<bf16>(read(d.drain()))); }));
      });
    };
    const auto compares = [](const ir::kernel& k) {
      int n = 0;
      ir::walk(k.body, [&](const ir::op& o) { n += o.is(opcode::compare) && o.text("is") == "lt"; });
      return n;
    };
    auto before = made(), after = made();
    test::run_passes(*before, "merge-roles");
    test::run_passes(*after, "guard-reads");
    return compares(*after) - compares(*before);
  };
  for (const char* target : {"sm_90a", "sm_100a"}) {
    CHECK(guards(target, std::integral_constant<int, 0>{}) == 1);
    CHECK(guards(target, std::integral_constant<int, 1>{}) == 0);
  }
  CHECK(guards("sm_90a", std::integral_constant<int, -1>{}) == 1);  // at least -1 rounds may be none
}

TEST_CASE("wide reads are walked in chunks of one 128-byte row of what is stored, and the last is what is left") {
  auto widths = [](std::unique_ptr<ir::kernel> k) {
    test::run_passes(*k, "chunk-reads");
    CHECK(test::count_ops(*k, opcode::tile_store) == static_cast<int>(read_widths(*k).size()));
    return read_widths(*k);
  };
  for (const char* target : {"sm_90a", "sm_100a"}) {
    CHECK(widths(product<256>(target)) == std::vector<int>{64, 64, 64, 64});
    CHECK(widths(product<224>(target)) == std::vector<int>{64, 64, 64, 32});
    CHECK(widths(product<96>(target)) == std::vector<int>{64, 32});
    CHECK(widths(product<64>(target)) == std::vector<int>{64});
  }
}

TEST_CASE("stores move behind the next tile's products where registers for the waiting tile are left") {
  const auto stores = [](std::unique_ptr<ir::kernel> k) {
    test::run_passes(*k, "defer-stores");
    int beside_products = 0, pieces = 0;
    ir::walk(k->body, [&](const ir::op& o) {
      if (!o.is(opcode::tile_store)) return;
      pieces += o.has("piece");
      for (const ir::region* r = o.parent; r && r->parent; r = r->parent->parent)
        beside_products += r->parent->is(opcode::for_loop) && !r->parent->integer("tiles");
    });
    return std::vector<int>{test::count_ops(*k, opcode::tile_store), beside_products, pieces};
  };
  // four pieces: behind four steps, and after a loop with fewer steps
  CHECK(stores(product<256>("sm_90a")) == std::vector<int>{8, 4, 8});
  CHECK(stores(product<208>("sm_90a")) == std::vector<int>{8, 4, 8});
  CHECK(stores(product<64>("sm_90a")) == std::vector<int>{1, 0, 0});    // one store: nothing to spread
  CHECK(stores(product<256>("sm_100a")) == std::vector<int>{4, 0, 0});  // tensor memory holds two tiles: an epilogue role works beside the products
  const auto with_bias = [](auto plan) {
    return trace<kernels::gemm_arguments<bf16>>("k", "sm_90a", [](block& cta, const kernels::gemm_arguments<bf16>& in) {
      kernels::gemm<bf16, decltype(plan)>(cta, in, [](const auto& acc, const auto& args, const grid_box& t) { return acc + fetch<1, decltype(plan)::n>(args.bias.at(t.col)); });
    });
  };
  CHECK(stores(with_bias(kernels::gemm_plan<128, 128, 64, 4>{})) == std::vector<int>{4, 2, 4});
  CHECK(stores(with_bias(kernels::gemm_plan<128, 256, 64, 4>{})) == std::vector<int>{4, 0, 0});  // 128 + 64 registers and what it loads: too many
}

TEST_CASE("a role in turns becomes two, which take every other tile and drain one ring in the order of the tiles") {
  using plan = kernels::in_turns<kernels::gemm_plan<128, 128, 64, 4>>;
  const auto traced = [](const char* target) {
    return trace<kernels::gemm_arguments<bf16>>("k", target, [](block& cta, const kernels::gemm_arguments<bf16>& in) { kernels::gemm<bf16, plan>(cta, in, kernels::plain_epilogue{}); });
  };
  auto k = traced("sm_90a");
  test::run_passes(*k, "take-turns");
  std::vector<std::string> names;
  ir::walk(k->body, [&](const ir::op& o) {
    if (!o.is(opcode::role)) return;
    names.push_back(o.text("name"));
    const ir::op& tiles = *o.regions[0]->ops.back();
    const bool turns = o.has("turn");
    CHECK(turns == tiles.operands[2]->owner->is(opcode::mul));  // twice the grid
    if (turns) CHECK(tiles.operands[0]->owner->is(opcode::add) == (o.integer("turn") == 1));
  });
  CHECK(names == std::vector<std::string>{"load", "mma_0", "mma_1"});
  CHECK(test::count_ops(*k, opcode::ring_drain) == 2);

  k = traced("sm_90a");
  test::run_passes(*k, "insert-barriers");
  int four = 0;
  ir::walk(k->body, [&](const ir::op& o) { four += o.is(opcode::mbarrier_init) && o.integer("count") == 4; });
  CHECK(four == 4 + 2);  // a slot is let go of by the four warps of one role; a turn is passed on by four warps

  k = traced("sm_100a");
  test::run_passes(*k, "take-turns");
  int roles = 0;
  ir::walk(k->body, [&](const ir::op& o) { roles += o.is(opcode::role); });
  CHECK(roles == 3);  // load, mma, epilogue
}

TEST_CASE("what cannot be done in turns is an error that says why") {
  const auto error = [](auto body) {
    return test::error_of([&] {
      auto k = trace<arguments>("k", "sm_90a", body);
      test::run_passes(*k, "insert-barriers");
    });
  };
  CHECK(error([](block& cta, const arguments& in) {
          auto a = cta.ring<2>("a", shared<bf16, 64, 64>);
          cta.roles(cta.persistent(grid_of<64, 64>(in.y)), role("load", 4_warps, [&](const grid_box& t) { load(a.fill(), in.x.at(t.row, 0)); }).in_turns(),
                    role("out", 4_warps, [&](const grid_box& t) { store(in.y[t], read(a.drain())); }));
        }) == "role-turns");
  CHECK(error([](block& cta, const arguments& in) {
          auto a = cta.ring<2>("a", shared<bf16, 64, 64>);
          cta.roles(cta.persistent(grid_of<64, 64>(in.y)), role("load", 1_warp, [&](const grid_box& t) { for_each(t.row + 1, [&](tlx::index) { load(a.fill(), in.x.at(t.row, 0)); }); }),
                    role("out", 4_warps, [&](const grid_box& t) { for_each(t.row + 1, [&](tlx::index) { store(in.y[t], read(a.drain())); }); }).in_turns());
        }) == "role-turns");
}

TEST_CASE("stores that found no step leave in rounds of the MMA loop without products: their code is there once") {
  auto before = product<256>("sm_90a"), after = product<256>("sm_90a");
  test::run_passes(*before, "lower-mma");
  test::run_passes(*after, "fold-rest");
  CHECK(test::count_ops(*before, opcode::tma_store) == 8);
  CHECK(test::count_ops(*after, opcode::tma_store) == 4);
  int products_guarded = 0, stores_guarded = 0;
  const auto guard_of = [](const ir::op& o, const ir::op& loop) {  // the outermost condition inside of the loop
    const ir::op* guard = nullptr;
    for (const ir::region* r = o.parent; r->parent != &loop; r = r->parent->parent) guard = r->parent;
    return guard;
  };
  ir::walk(after->body, [&](const ir::op& loop) {
    if (!loop.is(opcode::for_loop) || !loop.has("deferred")) return;
    CHECK(loop.operands[1]->owner->is(opcode::max));  // rounds, or the pieces of a waiting tile
    const ir::value rounds = loop.operands[1]->owner->operands[0];
    ir::walk(*loop.regions[0], [&](const ir::op& o) {
      const ir::op* guard = o.is(opcode::wgmma_mma) || o.is(opcode::mbarrier_wait) || o.is(opcode::tma_store) ? guard_of(o, loop) : nullptr;
      if (o.is(opcode::tma_store)) stores_guarded += guard && guard->has("due");
      else if (guard) products_guarded += guard->operands[0]->owner->is(opcode::compare) && guard->operands[0]->owner->operands[1] == rounds;
    });
  });
  CHECK(products_guarded == 5);  // four products and the wait for their slot
  CHECK(stores_guarded == 4);
}

TEST_CASE("a slot that closes before its values are stored is let go after the last chunk") {
  auto k = trace<arguments>("k", "sm_100a", [](block& cta, const arguments& in) {
    auto a = cta.ring<2>("a", shared<bf16, 128, 64>);
    auto d = cta.ring<2>("d", accumulator<float, 128, 128>);
    cta.roles(cta.persistent(grid_of<128, 128>(in.y)), role("load", 1_warp, [&](const grid_box& t) { load(a.fill(), in.x.at(t.row, 0)); }),
              role("mma", 1_warp, [&](const grid_box&) {
                auto acc = d.fill();
                auto s = a.drain();
                mma(acc, s, transpose(s));
              }),
              role("out", 4_warps, [&](const grid_box& t) {
                auto values = read(d.drain());
                store(in.y[t], cast<bf16>(values));
              }));
  });
  test::run_passes(*k, "chunk-reads");
  CHECK(read_widths(*k) == std::vector<int>{64, 64});
  const std::string text = ir::print(*k);
  CHECK(text.rfind("acc.read") < text.rfind("ring.close"));
  CHECK(text.rfind("tile.store") < text.rfind("ring.close"));
}

TEST_CASE("a read is not moved past a product that writes its accumulator") {
  auto k = trace<arguments>("k", "sm_90a", [](block& cta, const arguments& in) {
    cta.warps(4_warps);
    auto a = cta.ring<1>("a", shared<bf16, 64, 128>);
    load(a.fill(), in.x.at(0, 0));
    auto s = a.drain();
    auto acc = mma(transpose(s), s);
    auto first = read(acc);
    mma(acc, transpose(s), s, accumulate(in.n > 0));
    store(in.y.at(0, 0), cast<bf16>(first));
    store(in.y.at(128, 0), cast<bf16>(read(acc)));
  });
  test::run_passes(*k, "chunk-reads");
  const std::string text = ir::print(*k);
  CHECK(text.find("acc.read") < text.rfind(" mma "));
  test::run_passes(*trace<arguments>("again", "sm_90a", [](block& cta, const arguments& in) { cta.warps(4_warps), store(in.y.at(0, 0), fetch<8, 64>(in.x.at(0, 0))); }));
}

TEST_CASE("two reads with a product between them are two waits on Hopper") {
  auto build = [](bool second) {
    return trace<arguments>("k", "sm_90a", [second](block& cta, const arguments& in) {
      cta.warps(4_warps);
      auto a = cta.ring<1>("a", shared<bf16, 64, 64>);
      load(a.fill(), in.x.at(0, 0));
      auto s = a.drain();
      auto acc = mma(s, s);
      store(in.y.at(0, 0), cast<bf16>(read(acc)));
      if (second) mma(acc, s, s, accumulate(in.n > 0));
      store(in.y.at(64, 0), cast<bf16>(read(acc)));
    });
  };
  for (const bool second : {false, true}) {
    auto k = build(second);
    test::run_passes(*k, "lower-mma");
    int ties = 0;
    ir::walk(k->body, [&](const ir::op& o) { ties += o.is(opcode::wgmma_wait) && !o.operands.empty(); });
    CHECK(ties == (second ? 2 : 1));
  }
}

TEST_CASE("every tile has a layout, and operands of one operation share it") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    auto k = product<256>(target);
    test::run_passes(*k, "assign-layouts");
    ir::walk(k->body, [&](const ir::op& o) {
      for (const auto& r : o.results)
        if (r->type.is_tile()) CHECK(r->type.layout != nullptr);
    });
  }
}

TEST_CASE("accumulators of tensor memory do not overlap and ring slots are aligned to their swizzle") {
  auto k = product<256>("sm_100a");
  test::run_passes(*k, "assign-shared-memory");
  ir::walk(k->body, [&](const ir::op& o) {
    if (!o.is(opcode::ring_make)) return;
    if (o.text("name") == "d") CHECK(o.integer("tensor_column") == 0);
    if (o.text("name") != "ab") return;
    CHECK(o.integer("offset") % 1024 == 0);
    CHECK(o.integer("stage_bytes") == (128 + 256) * 128);
    CHECK(o.integers("parts") == std::vector<std::int64_t>{0, 128 * 128});
  });
  CHECK(k->shared_bytes > 2 * (128 + 256) * 128);
}

TEST_CASE("roles of several warps meet at barriers of their own") {
  auto k = trace<arguments>("k", "sm_90a", [](block& cta, const arguments& in) {
    auto r = cta.ring<2>("r", shared<bf16, 64, 64>);
    cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("one", 4_warps, [&](const grid_box& t) { write(r.fill(), fetch<64, 64>(in.x[t])); }), role("single", 1_warp, [&](const grid_box&) { when(in.n > 1, [] {}); }),
              role("two", 4_warps, [&](const grid_box& t) { store(in.y[t], read(r.drain())); }));
  });
  test::run_passes(*k, "assign-shared-memory");
  std::set<std::int64_t> ids;
  ir::walk(k->body, [&](const ir::op& o) {
    if (o.is(opcode::role)) CHECK((o.integer("barrier") > 0) == (o.integer("warps") > 1));
    if (o.is(opcode::role) && o.integer("warps") > 1) CHECK(ids.insert(o.integer("barrier")).second);
  });
  CHECK(ids.size() == 2);
}

TEST_CASE("a store waits for the one before it where that may have used the same staging buffer") {
  const auto pending = [](auto&& body) {
    auto k = trace<arguments>("k", "sm_90a", [&](block& cta, const arguments& in) {
      auto r = cta.ring<1>("r", shared<bf16, 64, 64>);
      cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, [&](const grid_box& t) { load(r.fill(), in.x[t]); }), role("all", 4_warps, [&](const grid_box& t) {
        auto slot = r.drain();
        body(in, t, cast<bf16>(read(mma(slot, transpose(slot)))));
      }));
    });
    test::run_passes(*k, "assign-shared-memory");
    std::vector<std::int64_t> found;
    ir::walk(k->body, [&](const ir::op& o) {
      if (o.is(opcode::tile_store)) found.push_back(o.has("pending") ? o.integer("pending") : -2);
    });
    return found;
  };
  using waits = std::vector<std::int64_t>;
  const auto here = [](const arguments& in, const grid_box& t, const auto& x) { store(in.y[t], x); };
  CHECK(pending([&](const arguments& in, const grid_box& t, const auto& x) { here(in, t, x), here(in, t, x); }) == waits{1, 1});
  CHECK(pending([&](const arguments& in, const grid_box& t, const auto& x) { here(in, t, x), here(in, t, x), here(in, t, x); }) == waits{0, 1, 1});
  CHECK(pending([&](const arguments& in, const grid_box& t, const auto& x) {
          here(in, t, x);
          when(in.n > 1, [&] { here(in, t, x); });
          here(in, t, x);
        }) == waits{0, 0, 0});
  CHECK(pending([&](const arguments& in, const grid_box& t, const auto& x) {
          when(in.n > 1, [&] { here(in, t, x), here(in, t, x); });
          for_each(in.n, [&](const tlx::index&) { here(in, t, x); });
        }) == waits{0, 1, 0});
}

TEST_CASE("registers that move add up to what the CTA starts with, and every warp of a warpgroup takes part") {
  auto k = trace<arguments>("k", "sm_90a", [](block& cta, const arguments& in) {
    auto copy = [&](const grid_box& t) { store(in.y[t], fetch<64, 64>(in.x[t])); };
    cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("load", 1_warp, copy), role("partial", 2_warps, registers{152}, copy), role("rest", 4_warps, copy));
  });
  test::run_passes(*k);
  std::vector<std::int64_t> counts;
  ir::walk(k->body, [&](const ir::op& o) {
    if (!o.is(opcode::set_registers)) return;
    counts.push_back(o.integer("count"));
    CHECK(o.integer("increase") == (o.integer("count") > 168));
    const ir::op* around = o.parent->parent;  // the branch of the warpgroup: its bounds are multiples of four warps
    REQUIRE(around->is(opcode::if_then));
  });
  CHECK(counts == std::vector<std::int64_t>{40, 152, 240});
  CHECK(k->warps == 12);
  std::int64_t sum = 0;
  for (std::int64_t c : counts) sum += c;
  CHECK(sum <= 3 * 168);
}

TEST_CASE("simplify removes what nobody uses, unites what is equal and keeps every effect") {
  auto k = trace<arguments>("k", "sm_90a", [](block& cta, const arguments& in) {
    cta.warps(4_warps);
    (void)(in.n * 17);
    auto sum = cta.carry(in.n + 3);
    when(in.n + 3 > 5, [&] { sum.set(in.n + 3); });
    when(in.n + 3 > 5, [&] { store(in.y.at(sum.get(), 0), fetch<8, 64>(in.x.at(0, 0))); });
  });
  test::run_passes(*k, "split-roles");
  const int stores = test::count_ops(*k, opcode::global_store) + test::count_ops(*k, opcode::tma_store), sets = test::count_ops(*k, opcode::var_set), adds = test::count_ops(*k, opcode::add);
  test::run_passes(*k);
  const std::string once = ir::print(*k);
  CHECK(test::count_ops(*k, opcode::global_store) + test::count_ops(*k, opcode::tma_store) == stores);
  CHECK(test::count_ops(*k, opcode::var_set) == sets);
  CHECK(test::count_ops(*k, opcode::add) < adds);
  CHECK(once.find("{value = 17}") == std::string::npos);
  const pass::pass& simplify = pass::pipeline_for("sm_90a").back();
  REQUIRE(std::string(simplify.name) == "simplify");
  simplify.run(*k);
  CHECK(ir::print(*k) == once);
}
