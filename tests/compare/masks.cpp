// Tiles partly or wholly outside of their tensor: ranks, corners, valid rows, fills, alignments promised or looked up.
#include "tests/codegen/kernels.hpp"
#include "tests/compare/values.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"

namespace tlx::compare {

using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using integers = std::vector<std::int64_t>;

namespace {

/// out[tile at (to_row, to_col)] = in[tile at (row, col)], element by element, zeros or a fill outside of `in`, nothing outside of `out`.
sample masked_copy(std::uint64_t seed) {
  generator g(seed + 300);
  const std::vector<element> types = {element::u8, element::bf16, element::f32, element::s32, element::f64, element::e4m3, element::u16};
  const element e = g.of(types);
  struct shape { int rows, cols, warps; };
  const shape tile = g.of(std::vector<shape>{{64, 64, 4}, {32, 64, 4}, {16, 32, 2}, {8, 128, 4}, {64, 24, 4}, {128, 16, 8}, {4, 8, 1}});
  const int rank = g.between(2, 4);
  const int row_axis = g.between(0, rank - 2), col_axis = rank - 1;
  std::vector<int> in(static_cast<std::size_t>(rank)), out(static_cast<std::size_t>(rank)), from(in.size()), to(in.size());
  const int vector = g.of(std::vector<int>{0, 0, 0, 2, 4});  // a promise: extents and corners along the columns are multiples
  for (int a = 0; a < rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    const int size = a == row_axis ? tile.rows : a == col_axis ? tile.cols : 2;
    in[i] = a == row_axis || a == col_axis ? g.between(size / 2, size * 2 - 1) : g.between(1, 3);
    out[i] = a == row_axis || a == col_axis ? g.between(size / 2, size * 2 - 1) : g.between(1, 3);
    from[i] = a == row_axis || a == col_axis ? g.between(-size, in[i]) : g.between(0, in[i]);  // sometimes past the end
    to[i] = a == row_axis || a == col_axis ? g.between(-size / 2, out[i] - 1) : g.between(0, out[i] - 1);
    if (a == col_axis && vector) in[i] = (in[i] + vector - 1) / vector * vector, out[i] = (out[i] + vector - 1) / vector * vector, from[i] = from[i] / vector * vector, to[i] = to[i] / vector * vector;
  }
  const bool jagged = g.between(0, 2) == 0, filled = g.between(0, 2) == 0 && tile::is_integer(e);
  const int valid_in = g.between(-1, tile.rows + 1), valid_out = g.between(-1, tile.rows + 1);

  sample s;
  s.name = cat("masked copy ", tile::name(e), " ", tile.rows, "x", tile.cols, " rank ", rank, vector ? cat(" vectors of ", vector) : "", jagged ? " jagged" : "", " #", seed);
  s.from = quota::masks;
  auto k = test::new_kernel("k", population_target(), tile.warps);
  value in_view = test::add_parameter(*k, "in", type::view_of(e, rank)), out_view = test::add_parameter(*k, "out", type::view_of(e, rank));
  std::vector<value> at_in, at_out;
  for (int a = 0; a < rank; ++a) at_in.push_back(test::add_parameter(*k, cat("i", a), type::scalar(element::s32)));
  for (int a = 0; a < rank; ++a) at_out.push_back(test::add_parameter(*k, cat("o", a), type::scalar(element::s32)));
  value n_in = test::add_parameter(*k, "ni", type::scalar(element::s32)), n_out = test::add_parameter(*k, "no", type::scalar(element::s32));
  builder b(*k, k->body);
  const type t = type::tile_of(e, tile.rows, tile.cols).with_layout(tile::blocked(tile.rows, tile.cols, tile.warps, vector ? vector : 1 << g.between(0, 3)));
  const integers axes{row_axis, col_axis};
  std::vector<value> operands{in_view};
  operands.insert(operands.end(), at_in.begin(), at_in.end());
  std::vector<std::pair<std::string, ir::attribute>> attributes = {{"tile_axes", axes}};
  if (jagged) operands.push_back(n_in), attributes.push_back({"jagged", std::int64_t{1}});
  if (filled) attributes.push_back({"fill", std::int64_t{9}});
  if (vector) attributes.push_back({"vector", std::int64_t{vector}});
  value v = b.make(opcode::global_load, operands, {t}, attributes).result();
  operands = {v, out_view};
  operands.insert(operands.end(), at_out.begin(), at_out.end());
  attributes = {{"tile_axes", axes}};
  if (jagged) operands.push_back(n_out), attributes.push_back({"jagged", std::int64_t{1}});
  if (vector) attributes.push_back({"vector", std::int64_t{vector}});
  b.make(opcode::global_store, operands, {}, attributes);

  const auto volume = [](const std::vector<int>& extents) {
    std::size_t n = 1;
    for (int x : extents) n *= static_cast<std::size_t>(x);
    return n;
  };
  const bytes source = draw_many(g, e, volume(in), draw::bits);
  bytes target(volume(out) * static_cast<std::size_t>(width(e)), std::byte{0xee});
  s.memories = {{"in", source, false, e}, {"out", target, true, e}};
  const auto element_at = [&](const std::vector<int>& extents, std::vector<int> corner, int r, int c, bool& inside) {
    corner[static_cast<std::size_t>(row_axis)] += r;
    corner[static_cast<std::size_t>(col_axis)] += c;
    std::size_t index = 0;
    inside = true;
    for (std::size_t a = 0; a < extents.size(); ++a) {
      inside = inside && corner[a] >= 0 && corner[a] < extents[a];
      index = index * static_cast<std::size_t>(extents[a]) + static_cast<std::size_t>(corner[a]);
    }
    return index;
  };
  for (int r = 0; r < tile.rows; ++r)
    for (int c = 0; c < tile.cols; ++c) {
      bool has = false, takes = false;
      const std::size_t i = element_at(in, from, r, c, has), o = element_at(out, to, r, c, takes);
      if (!takes || (jagged && r >= valid_out)) continue;
      put(target, e, o, has && !(jagged && r >= valid_in) ? get(source, e, i) : filled ? 9 : 0);
    }
  s.expected = {{.memory = 1, .exact = target}};
  std::vector<kernel_argument> arguments = {view_argument{{in.begin(), in.end()}}, view_argument{{out.begin(), out.end()}}};
  for (const auto* list : {&from, &to})
    for (int x : *list) arguments.push_back(bytes_of(std::vector<int>{x}));
  arguments.push_back(bytes_of(std::vector<int>{valid_in}));
  arguments.push_back(bytes_of(std::vector<int>{valid_out}));
  lower_to(s, *k, arguments);
  return s;
}

}  // namespace

void add_masks(std::vector<entry>& to) {
  for (std::uint64_t i = 0; i < 48; ++i) to.push_back({cat("masked copy ", i), quota::masks, [i] { return masked_copy(i); }});
}

}  // namespace tlx::compare
