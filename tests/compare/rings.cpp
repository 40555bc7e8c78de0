// Rings in the language: every pair of who fills and who drains, one to four stages, over several rounds and tiles.
#include <cmath>

#include "tests/compare/values.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/support/text.hpp"

namespace tlx::compare {

using namespace tlx::literals;

namespace {

template <class T>
struct pair_of {
  TLX_ARGUMENTS(pair_of, (view<T, 2>, x), (view<T, 2>, y));
};
template <class T>
struct product_of {
  TLX_ARGUMENTS(product_of, (view<T, 2>, a), (view<T, 2>, b), (view<float, 2>, c));
};

enum class filler { copies, threads };

constexpr int rows = 64, columns = 64;

/// y = 2 x, tile by tile through a ring that threads drain.
template <class T, int Stages, filler By>
sample to_threads(const std::string& target, bool optimised, std::uint64_t seed) {
  constexpr int m = 150, n = 200;
  sample s;
  s.name = cat(By == filler::copies ? "ring copies to threads " : "ring threads to threads ", tile::name(tile::element_of<T>), " ", Stages, " stages");
  s.from = quota::rings;
  const auto kernel = trace<pair_of<T>>("k", target, [](block& cta, const pair_of<T>& in) {
    auto tiles = cta.persistent(grid_of<rows, columns>(in.x));
    auto ring = cta.ring<Stages>("x", shared<T, rows, columns>);
    const auto use = role("use", 4_warps, [&](const grid_box& t) { store(in.y[t], cast<T>(cast<float>(read(ring.drain())) * 2.0f)); });
    if constexpr (By == filler::copies) cta.roles(tiles, role("fill", 1_warp, [&](const grid_box& t) { load(ring.fill(), in.x[t]); }), use);
    else cta.roles(tiles, role("fill", 4_warps, [&](const grid_box& t) { write(ring.fill(), fetch<rows, columns>(in.x[t])); }), use);
  });
  generator g(seed);
  constexpr element e = tile::element_of<T>;
  const bytes x = draw_many(g, e, m * n, draw::moderate);
  s.memories = {{"x", x, false, e}, {"y", unwritten(x.size()), true, e}};
  std::vector<double> expected;
  for (std::size_t i = 0; i < m * n; ++i) expected.push_back(2 * decode(e, get(x, e, i)));
  s.expected = {{.memory = 1, .values = expected}};
  compile_to(s, *kernel, {view_argument{{m, n}}, view_argument{{m, n}}}, optimised);
  s.again = [seed](const std::string& other, bool how) { return to_threads<T, Stages, By>(other, how, seed); };
  return s;
}

/// c = a b^T through a ring that products drain, several rounds of K.
template <class T, int Stages, filler By>
sample to_products(const std::string& target, bool optimised, std::uint64_t seed) {
  constexpr int m = 130, n = 72, k = 4 * 64 + 24;
  sample s;
  s.name = cat(By == filler::copies ? "ring copies to products " : "ring threads to products ", tile::name(tile::element_of<T>), " ", Stages, " stages");
  s.from = quota::rings;
  const auto kernel = trace<product_of<T>>("k", target, [](block& cta, const product_of<T>& in) {
    auto tiles = cta.persistent(grid_of<64, 64>(in.c));
    auto ab = cta.ring<Stages>("ab", shared<T, 64, 64>, shared<T, 64, 64>);
    auto d = cta.ring<1>("d", accumulator<float, 64, 64>);
    const auto rounds = [&] { return ceil_div(in.a.extent(1), 64); };
    const auto multiply = role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(rounds(), [&](index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
      });
    });
    const auto finish = role("finish", 4_warps, [&](const grid_box& t) { store(in.c[t], read(d.drain())); });
    if constexpr (By == filler::copies)
      cta.roles(tiles, role("fill", 1_warp, [&](const grid_box& t) {
                  for_each(rounds(), [&](index i) {
                    auto slot = ab.fill();
                    load(get<0>(slot), in.a.at(t.row, i * 64));
                    load(get<1>(slot), in.b.at(t.col, i * 64));
                  });
                }), multiply, finish);
    else
      cta.roles(tiles, role("fill", 4_warps, [&](const grid_box& t) {
                  for_each(rounds(), [&](index i) {
                    auto slot = ab.fill();
                    write(get<0>(slot), fetch<64, 64>(in.a.at(t.row, i * 64)));
                    write(get<1>(slot), fetch<64, 64>(in.b.at(t.col, i * 64)));
                  });
                }), multiply, finish);
  });
  generator g(seed);
  constexpr element e = tile::element_of<T>;
  const bytes a = draw_many(g, e, m * k, draw::moderate), b = draw_many(g, e, n * k, draw::moderate);
  s.memories = {{"a", a, false, e}, {"b", b, false, e}, {"c", unwritten(m * n * 4), true, element::f32}};
  std::vector<double> expected;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t x = 0; x < k; ++x) sum += decode(e, get(a, e, i * k + x)) * decode(e, get(b, e, j * k + x));
      expected.push_back(sum);
    }
  // Products up to 16, 280 of them, cut at 2^-24 of the largest partial sum in each of 18 steps: docs/numerics.md.
  s.expected = {{.memory = 2, .values = expected, .absolute = 280 * 16 * 18 * 0x1p-22}};
  compile_to(s, *kernel, {view_argument{{m, k}}, view_argument{{n, k}}, view_argument{{m, n}}}, optimised);
  s.again = [seed](const std::string& other, bool how) { return to_products<T, Stages, By>(other, how, seed); };
  return s;
}

template <class T, int Stages>
void add_stage(std::vector<entry>& to) {
  const std::string what = cat(" ", tile::name(tile::element_of<T>), " ", Stages);
  const std::uint64_t seed = 400 + Stages * 10 + (std::is_same_v<T, f16> ? 5 : 0);
  to.push_back({"ring copies to threads" + what, quota::rings, [=] { return to_threads<T, Stages, filler::copies>(population_target(), true, seed); }});
  to.push_back({"ring threads to threads" + what, quota::rings, [=] { return to_threads<T, Stages, filler::threads>(population_target(), true, seed + 1); }});
  to.push_back({"ring copies to products" + what, quota::rings, [=] { return to_products<T, Stages, filler::copies>(population_target(), true, seed + 2); }});
  to.push_back({"ring threads to products" + what, quota::rings, [=] { return to_products<T, Stages, filler::threads>(population_target(), true, seed + 3); }});
}

}  // namespace

void add_rings(std::vector<entry>& to) {
  add_stage<bf16, 1>(to), add_stage<bf16, 2>(to), add_stage<bf16, 3>(to), add_stage<bf16, 4>(to);
  add_stage<f16, 1>(to), add_stage<f16, 2>(to), add_stage<f16, 3>(to), add_stage<f16, 4>(to);
}

}  // namespace tlx::compare
