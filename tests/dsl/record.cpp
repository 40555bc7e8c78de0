// What the language records.
#include <doctest/doctest.h>

#include <thread>

#include "tlx/dsl/activation.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/kernels/gemm.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, x), (scalar<std::int32_t>, n), (scalar<float>, factor));
};

struct line_arguments {
  TLX_ARGUMENTS(line_arguments, (view<float, 1>, v));
};

template <class Body>
std::string recorded(Body&& body, bool locations = false) { return ir::print(*trace<arguments>("k", "sm_90a", body), {.locations = locations}); }

// True when the lines occur in this order.
bool in_order(const std::string& text, std::initializer_list<const char*> parts) {
  size_t at = 0;
  for (const char* part : parts) {
    at = text.find(part, at);
    if (at == std::string::npos) {
      MESSAGE("not found in order: " << std::string(part) << "\n" << text);
      return false;
    }
    at += std::string(part).size();
  }
  return true;
}

}  // namespace

TEST_CASE("arguments become parameters of their names and types, in their order") {
  const std::string text = recorded([](block&, const arguments& in) { when(in.n > 0, [] {}); });
  CHECK(in_order(text, {"%x.0 : view<bf16 2>", "%n.1 : s32", "%factor.2 : f32"}));
}

TEST_CASE("a cell is made once, set and read in program order") {
  const std::string text = recorded([](block& cta, const arguments& in) {
    auto sum = cta.carry(in.n * 2);
    for_each(in.n, [&](index i) { sum.set(sum.get() + i); });
    when(sum.get() > 5, [] {});
  });
  CHECK(in_order(text, {"mul ", "var.new ", ": var<s32>", "for ", "var.get ", "add ", "var.set ", "]", "var.get ", "cmp ", "if "}));
}

TEST_CASE("a constant is in the kernel and a run-time value is a parameter") {
  auto with = [](int v) { return recorded([&](block& cta, const arguments& in) { when(in.n > constant(cta.home(), v), [] {}); }); };
  CHECK(with(3).find("{value = 3}") != std::string::npos);
  CHECK(with(3) != with(4));  // so they are different kernels to every cache
}

TEST_CASE("operands of one expression are recorded left to right whatever the compiler does") {
  const std::string text = recorded([](block& cta, const arguments& in) {
    cta.warps(4_warps);
    auto a = cta.ring<1>("a", shared<bf16, 64, 64>), b = cta.ring<1>("b", shared<bf16, 64, 64>);
    load(a.fill(), in.x.at(0, 0));
    load(b.fill(), in.x.at(64, 0));
    store(in.x.at(0, 0), read(a.drain()) + read(b.drain()));
  });
  CHECK(in_order(text, {"ring.drain", "tile.read", "ring.drain", "tile.read", "add ", "tile.store", "ring.close", "ring.close"}));
}

TEST_CASE("every operation carries the user's file and line") {
  const int line = __LINE__ + 2;
  const std::string text = recorded([](block& cta, const arguments& in) {
    cta.warps(4_warps);
    auto t = fetch<8, 64>(in.x.at(0, 0));
    store(in.x.at(0, 0), t);
  }, true);
  auto at = [&](int l) { return "record.cpp\":" + std::to_string(l); };
  CHECK(in_order(text, {"global.load", at(line + 1).c_str(), "tile.store", at(line + 2).c_str()}));
}

TEST_CASE("two kernels are recorded on two threads at once") {
  std::string one, two;
  auto body = [](block& cta, const arguments& in) {
    auto sum = cta.carry(in.n + 0);
    for_each(in.n, [&](index i) { sum.set(sum.get() * 3 + i); });
  };
  const std::string alone = recorded(body);
  std::thread a([&] { for (int i = 0; i < 50; ++i) one = recorded(body); }), b([&] { for (int i = 0; i < 50; ++i) two = recorded(body); });
  a.join();
  b.join();
  CHECK(one == alone);
  CHECK(two == alone);
}

TEST_CASE("a list of tiles gives the formula of its grid") {
  const auto k = trace<arguments>("k", "sm_90a", [](block& cta, const arguments& in) {
    cta.warps(4_warps);
    cta.tile(grid_of<128, 64>(in.x), [&](const grid_box& t) { store(in.x[t], fetch<128, 64>(in.x[t])); });
  });
  CHECK(k->grid[0] == "(mul (ceil_div x.0 128) (ceil_div x.1 64))");
  const auto persistent = trace<arguments>("k", "sm_90a", [](block& cta, const arguments& in) {
    cta.per_processor(2);
    cta.roles(cta.persistent(grid_of<128, 64>(in.x)), role("all", 4_warps, [&](const grid_box& t) { store(in.x[t], fetch<128, 64>(in.x[t])); }));
  });
  CHECK(persistent->grid[0] == "(min (mul processors 2) (mul (ceil_div x.0 128) (ceil_div x.1 64)))");
}

TEST_CASE("a list of a kernel of clusters counts tiles that its CTAs divide, and the grid is whole clusters") {
  const auto grid = [](int ctas, neighbour lie, bool late = false) {
    return trace<arguments>("k", "sm_90a", [&](block& cta, const arguments& in) {
             cta.per_processor(2);
             if (!late) cta.cluster(ctas);
             auto tiles = grid_of<128, 64>(in.x, lie);
             if (late) cta.cluster(ctas);
             cta.roles(cta.persistent(tiles), role("all", 4_warps, [&](const grid_box& t) { store(in.x[t], fetch<128, 64>(in.x[t])); }));
           })->grid[0];
  };
  CHECK(grid(1, neighbour::beside) == "(min (mul processors 2) (mul (ceil_div x.0 128) (ceil_div x.1 64)))");
  CHECK(grid(2, neighbour::below) == "(mul 2 (min (max 1 (div (mul processors 2) 2)) (mul (ceil_div x.0 256) (ceil_div x.1 64))))");
  CHECK(grid(4, neighbour::beside) == "(mul 4 (min (max 1 (div (mul processors 2) 4)) (mul (ceil_div x.0 128) (ceil_div x.1 256))))");
  for (const bool lines : {false, true}) {
    std::string id;
    try {
      if (!lines) grid(2, neighbour::below, true);
      else trace<line_arguments>("k", "sm_90a", [](block& cta, const line_arguments& in) {
          cta.cluster(2);
          cta.warps(4_warps);
          cta.tile(lines_of<128>(in.v), [&](const line_box& t) { (void)t; });
        });
    } catch (const user_error& e) {
      id = e.id();
    }
    CHECK(id == "cluster-tiles");
  }
}

TEST_CASE("vectors spread over tiles, and only where a shape differs") {
  const std::string text = recorded([](block& cta, const arguments& in) {
    cta.warps(4_warps);
    auto t = cast<float>(fetch<8, 64>(in.x.at(0, 0)));
    store(in.x.at(0, 0), cast<bf16>(t - row_max(t) + t * in.factor));
  });
  CHECK(in_order(text, {"reduce ", "tile<f32 8x1>", "broadcast ", "tile<f32 8x64>", "sub ", "tile<f32 8x64>"}));
  CHECK(text.find("broadcast") == text.rfind("broadcast"));
}
