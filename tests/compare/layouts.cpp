// Conversions between register layouts, reductions and broadcasts, over element types, shapes and numbers of warps.
#include <cmath>

#include "tests/codegen/kernels.hpp"
#include "tests/compare/values.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/layout_ops.hpp"

namespace tlx::compare {

using ir::builder;
using ir::opcode;
using ir::type;
using tile::layout;
using integers = std::vector<std::int64_t>;

namespace {

struct named_layout { std::string name; layout l; };

/// Layouts of `rows` x `cols` for `warps` warps that this shape allows.
std::vector<named_layout> layouts_of(int rows, int cols, int warps) {
  using namespace tile;
  std::vector<named_layout> all;
  for (const int vector : {1, 2, 4, 8})
    if (cols % vector == 0) all.push_back({cat("blocked", vector), blocked(rows, cols, warps, vector)});
  if (warps % 4 == 0 && rows % (64 * (warps / 4)) == 0 && cols % 8 == 0) all.push_back({"wgmma", wgmma_accumulator(rows, cols, warps)});
  if (rows % (16 * warps) == 0 && cols % 8 == 0) all.push_back({"mma", mma_sync_accumulator(rows, cols, warps)});
  if (warps % 4 == 0 && rows % 128 == 0 && cols % (warps / 4) == 0) all.push_back({"tmem rows", tmem_rows_32x32b(rows, cols, warps)});
  if (warps % 4 == 0 && (rows == 64 || rows == 128) && cols % (8 * (warps / 4)) == 0) all.push_back({"tmem 16x256b", tmem_16x256b(rows, cols, warps)});
  if (rows * cols <= 64) all.push_back({"replicated", replicated(rows, cols, warps)});
  return all;
}

struct shape { int rows, cols, warps; };
const std::vector<shape>& shapes() {
  static const std::vector<shape> all = {{64, 64, 4}, {64, 32, 4}, {128, 32, 4}, {128, 64, 8}, {64, 24, 4}, {16, 64, 4}, {32, 32, 2}, {16, 16, 1}, {8, 8, 1}, {4, 16, 1}, {64, 96, 4}, {128, 16, 4}, {64, 40, 4}, {16, 128, 4}, {32, 8, 2}, {1, 64, 1}, {64, 1, 2}};
  return all;
}

sample conversion(std::uint64_t seed) {
  generator g(seed);
  const std::vector<element> types = {element::s32, element::f32, element::bf16, element::u8, element::f64, element::s16, element::e4m3};
  shape s{};
  std::vector<named_layout> all;
  do {
    s = g.of(shapes());
    all = layouts_of(s.rows, s.cols, s.warps);
  } while (all.size() < 2);
  const named_layout from = g.of(all);
  named_layout to = g.of(all);
  while (to.l == from.l && all.size() > 2) to = g.of(all);
  const element e = g.of(types);

  sample out;
  out.name = cat("convert ", tile::name(e), " ", s.rows, "x", s.cols, " ", from.name, " to ", to.name, " #", seed);
  out.from = quota::layouts;
  auto k = test::new_kernel("k", population_target(), s.warps);
  k->shared_bytes = 131072;
  ir::value in = test::add_parameter(*k, "in", type::view_of(e, 2)), result = test::add_parameter(*k, "out", type::view_of(e, 2));
  builder b(*k, k->body);
  const auto of = [&](const layout& l) { return type::tile_of(e, s.rows, s.cols).with_layout(l); };
  ir::value v = b.make(opcode::global_load, {in, b.integer(0), b.integer(0)}, {of(from.l)}, {{"tile_axes", integers{0, 1}}}).result();
  ir::value w = b.make(opcode::convert, {v}, {of(to.l)}, {{"scratch", std::int64_t{1024}}}).result();
  b.make(opcode::global_store, {w, result, b.integer(0), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}});
  const auto count = static_cast<std::size_t>(s.rows * s.cols);
  const bytes values = draw_many(g, e, count, draw::bits);
  out.memories = {{"in", values, false, e}, {"out", unwritten(values.size()), true, e}};
  out.expected = {{.memory = 1, .exact = values}};
  lower_to(out, *k, {view_argument{{s.rows, s.cols}}, view_argument{{s.rows, s.cols}}});
  return out;
}

sample reduction(std::uint64_t seed) {
  generator g(seed + 1000);
  const std::vector<element> types = {element::s32, element::u32, element::f32, element::f32, element::f32};
  const element e = g.of(types);
  const std::string how = g.of(std::vector<std::string>{"add", "max", "min"});
  shape s{};
  std::vector<named_layout> fit;
  bool down = false;
  do {
    fit.clear();
    s = g.of(shapes());
    down = s.warps == 1 && g.between(0, 2) == 0;
    // A reduction stays inside a warp: no row (column) may be shared by two.
    for (const named_layout& l : layouts_of(s.rows, s.cols, s.warps)) {
      bool shared = false;
      for (int bit = 0; bit < l.l.warp.bit_count; ++bit) shared = shared || (down ? l.l.warp.bit[static_cast<std::size_t>(bit)].row : l.l.warp.bit[static_cast<std::size_t>(bit)].col) != 0;
      for (int r = 0; r < l.l.warp.rep_count; ++r) shared = shared || (down ? l.l.warp.rep[static_cast<std::size_t>(r)].step.row : l.l.warp.rep[static_cast<std::size_t>(r)].step.col) != 0;
      if (!shared) fit.push_back(l);
    }
  } while (fit.empty());
  const named_layout l = g.of(fit);

  sample out;
  out.name = cat("reduce ", how, " ", tile::name(e), down ? " down " : " along ", s.rows, "x", s.cols, " ", l.name, " #", seed);
  out.from = quota::layouts;
  auto k = test::new_kernel("k", population_target(), s.warps);
  k->shared_bytes = 16384;
  ir::value in = test::add_parameter(*k, "in", type::view_of(e, 2)), result = test::add_parameter(*k, "out", type::view_of(e, 2));
  builder b(*k, k->body);
  const type t = type::tile_of(e, s.rows, s.cols).with_layout(l.l);
  ir::value v = b.make(opcode::global_load, {in, b.integer(0), b.integer(0)}, {t}, {{"tile_axes", integers{0, 1}}}).result();
  const auto gone = down ? tile::axis::rows : tile::axis::cols;
  const type narrow = type::tile_of(e, down ? 1 : s.rows, down ? s.cols : 1).with_layout(tile::reduced(l.l, gone));
  ir::value r = b.make(opcode::reduce, {v}, {narrow}, {{"op", how}, {"axis", std::int64_t{down ? 0 : 1}}}).result();
  b.make(opcode::global_store, {b.make(opcode::broadcast, {r}, {t}).result(), result, b.integer(0), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}});

  const auto count = static_cast<std::size_t>(s.rows * s.cols);
  // Sums of specials are NaN nearly everywhere: half of the rows are tame.
  bytes values(count * static_cast<std::size_t>(width(e)));
  for (std::size_t i = 0; i < count; ++i) put(values, e, i, draw_one(g, e, (i / static_cast<std::size_t>(s.cols)) % 4 == 3 && how == "add" ? draw::mixed : how == "add" ? draw::tame : draw::mixed));
  out.memories = {{"in", values, false, e}, {"out", unwritten(values.size()), true, e}};
  // The order of a float sum is the compiler's; the reference says what any order may give.
  std::vector<double> expected(count);
  double magnitude = 0;
  bool wild = false;
  for (int row = 0; row < s.rows; ++row)
    for (int col = 0; col < s.cols; ++col) {
      const int n = down ? s.rows : s.cols;
      double total = std::nan("");
      std::uint32_t wrapped = 0;
      for (int i = 0; i < n; ++i) {
        const std::uint64_t bits = get(values, e, static_cast<std::size_t>(down ? i * s.cols + col : row * s.cols + i));
        double x = decode(e, bits);
        if (e == element::f32 && std::fpclassify(x) != FP_NAN && std::abs(x) < 0x1p-126) x = std::copysign(0.0, x);
        if (how == "add") total = i == 0 ? x : total + x, wrapped += static_cast<std::uint32_t>(bits);
        else if (std::isnan(total)) total = x;
        else if (!std::isnan(x)) total = how == "max" ? std::max(total, x) : std::min(total, x);
        if (e == element::f32 && how == "add") wild = wild || !std::isfinite(x) || std::abs(x) > 0x1p110;
        if (how == "add" && std::isfinite(x)) magnitude = std::max(magnitude, std::abs(x) * n);
      }
      if (how == "add" && e != element::f32) total = e == element::s32 ? static_cast<double>(static_cast<std::int32_t>(wrapped)) : static_cast<double>(wrapped);
      expected[static_cast<std::size_t>(row * s.cols + col)] = total;
    }
  if (e != element::f32 || how != "add") out.expected = {{.memory = 1, .values = expected}};
  else if (!wild) out.expected = {{.memory = 1, .values = expected, .absolute = magnitude * 0x1p-20}};
  lower_to(out, *k, {view_argument{{s.rows, s.cols}}, view_argument{{s.rows, s.cols}}});
  return out;
}

}  // namespace

void add_layouts(std::vector<entry>& to) {
  for (std::uint64_t i = 0; i < 48; ++i) to.push_back({cat("conversion ", i), quota::layouts, [i] { return conversion(i); }});
  for (std::uint64_t i = 0; i < 40; ++i) to.push_back({cat("reduction ", i), quota::layouts, [i] { return reduction(i); }});
}

}  // namespace tlx::compare
