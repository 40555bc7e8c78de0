// Conversions, reductions, broadcasts, slices, masked global accesses.
#include <algorithm>

#include "tests/codegen/kernels.hpp"
#include "tests/codegen/runs.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/layout_ops.hpp"

namespace test {

using namespace tlx;
using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using tile::element;
using integers = std::vector<std::int64_t>;

namespace {
void store(builder& b, value v, value out) { b.make(opcode::global_store, {v, out, b.integer(0), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}}); }

std::vector<std::int32_t> numbers(int n) {
  std::vector<std::int32_t> v(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) v[static_cast<size_t>(i)] = i;
  return v;
}
buffer empty(std::vector<std::int64_t> extents, size_t bytes) { return {std::move(extents), std::vector<std::byte>(bytes, std::byte{0xee})}; }
}  // namespace

std::vector<run_case> tile_runs() {
  using namespace tile;
  std::vector<run_case> all;

  const std::vector<std::tuple<std::string, layout, layout>> conversions = {
      {"rows to blocked", tmem_rows_32x32b(128, 32, 4), blocked(128, 32, 4, 4)},
      {"blocked to wgmma", blocked(64, 64, 4, 4), wgmma_accumulator(64, 64, 4)},
      {"wgmma to blocked", wgmma_accumulator(64, 32, 4), blocked(64, 32, 4, 2)},
      {"one register order to another", replicated(2, 4, 1), make_layout(2, 4, axis_map().add_bit({1, 0}).add_bit({0, 1}).add_bit({0, 2}), axis_map().add_repeat(32, {0, 0}))},
      {"lanes to lanes", make_layout(4, 8, axis_map(), axis_map().add_bit({0, 1}).add_bit({0, 2}).add_bit({0, 4}).add_bit({1, 0}).add_bit({2, 0})),
       make_layout(4, 8, axis_map(), axis_map().add_bit({1, 0}).add_bit({2, 0}).add_bit({0, 1}).add_bit({0, 2}).add_bit({0, 4}))},
      {"lanes and registers", make_layout(8, 8, axis_map().add_bit({0, 1}), axis_map().add_bit({0, 2}).add_bit({0, 4}).add_bit({1, 0}).add_bit({2, 0}).add_bit({4, 0})),
       make_layout(8, 8, axis_map().add_bit({1, 0}), axis_map().add_bit({2, 0}).add_bit({4, 0}).add_bit({0, 1}).add_bit({0, 2}).add_bit({0, 4}))},
      {"one owner to all", make_layout(1, 32, axis_map(), axis_map().add_bit({0, 1}).add_bit({0, 2}).add_bit({0, 4}).add_bit({0, 8}).add_bit({0, 16})), replicated(1, 32, 1)},
  };
  for (const auto& [name, from, to] : conversions) {
    run_case c = new_run("convert " + name, from.warp_count());
    value out = add_parameter(*c.kernel, "out", type::view_of(element::s32, 2));
    builder b(*c.kernel, c.kernel->body);
    value v = numbered(b, from, element::s32);
    value w = b.make(opcode::convert, {v}, {type::tile_of(element::s32, from.rows, from.cols).with_layout(to)}, {{"scratch", std::int64_t{1024}}}).result();
    store(b, w, out);
    c.expected = bytes_of(numbers(from.rows * from.cols));
    c.output = empty({from.rows, from.cols}, c.expected.size());
    all.push_back(std::move(c));
  }

  const std::vector<std::tuple<std::string, layout>> shapes = {{"wgmma 64x64", wgmma_accumulator(64, 64, 4)},
                                                               {"wgmma 128x24", wgmma_accumulator(128, 24, 4)},
                                                               {"rows 128x48", tmem_rows_32x32b(128, 48, 4)},
                                                               {"blocked 16x64", blocked(16, 64, 4, 2)}};
  for (const auto& [name, l] : shapes)
    for (const char* how : {"max", "add", "min"}) {
      run_case c = new_run(cat("reduce ", how, " and broadcast, ", name), l.warp_count());
      value out = add_parameter(*c.kernel, "out", type::view_of(element::s32, 2));
      builder b(*c.kernel, c.kernel->body);
      const type t = type::tile_of(element::s32, l.rows, l.cols).with_layout(l);
      value v = b.sub(numbered(b, l, element::s32), b.integer(777));
      value r = b.make(opcode::reduce, {v}, {type::tile_of(element::s32, l.rows, 1).with_layout(reduced(l, axis::cols))}, {{"op", std::string(how)}, {"axis", std::int64_t{1}}}).result();
      value wide = b.make(opcode::broadcast, {r}, {t}).result();
      store(b, b.add(wide, v), out);
      std::vector<std::int32_t> expected;
      for (int row = 0; row < l.rows; ++row) {
        std::vector<std::int32_t> x;
        for (int col = 0; col < l.cols; ++col) x.push_back(row * l.cols + col - 777);
        std::int32_t result = x[0];
        for (size_t i = 1; i < x.size(); ++i) result = how[1] == 'a' ? std::max(result, x[i]) : how[1] == 'd' ? result + x[i] : std::min(result, x[i]);
        for (std::int32_t e : x) expected.push_back(result + e);
      }
      c.expected = bytes_of(expected);
      c.output = empty({l.rows, l.cols}, c.expected.size());
      all.push_back(std::move(c));
    }
  {
    run_case c = new_run("reduce rows inside one warp", 1);
    const layout l = blocked(16, 32, 1, 2);
    value out = add_parameter(*c.kernel, "out", type::view_of(element::s32, 2));
    builder b(*c.kernel, c.kernel->body);
    value v = numbered(b, l, element::s32);
    value r = b.make(opcode::reduce, {v}, {type::tile_of(element::s32, 1, 32).with_layout(reduced(l, axis::rows))}, {{"op", std::string("add")}, {"axis", std::int64_t{0}}}).result();
    store(b, b.make(opcode::broadcast, {r}, {type::tile_of(element::s32, 16, 32).with_layout(l)}).result(), out);
    std::vector<std::int32_t> expected;
    for (int row = 0; row < 16; ++row)
      for (int col = 0; col < 32; ++col) expected.push_back(16 * 15 / 2 * 32 + 16 * col);
    c.expected = bytes_of(expected);
    c.output = empty({16, 32}, c.expected.size());
    all.push_back(std::move(c));
  }
  {
    const layout l = wgmma_accumulator(64, 64, 4);
    const column_slice s = slice_columns(l, 16, 32);
    run_case c = new_run("slice", 4);
    value out = add_parameter(*c.kernel, "out", type::view_of(element::s32, 2));
    builder b(*c.kernel, c.kernel->body);
    value v = b.make(opcode::slice, {numbered(b, l, element::s32)}, {type::tile_of(element::s32, 64, 32).with_layout(s.part)}, {{"column", std::int64_t{16}}}).result();
    store(b, v, out);
    std::vector<std::int32_t> expected;
    for (int row = 0; row < 64; ++row)
      for (int col = 16; col < 48; ++col) expected.push_back(row * 64 + col);
    c.expected = bytes_of(expected);
    c.output = empty({64, 32}, c.expected.size());
    all.push_back(std::move(c));
  }
  for (const layout& l : {wgmma_accumulator(64, 48, 4), blocked(64, 48, 4, 4), tmem_rows_32x32b(128, 48, 4)}) {  // odd columns come first, even ones behind
    run_case c = new_run("every other column", 4);
    value out = add_parameter(*c.kernel, "out", type::view_of(element::s32, 2));
    builder b(*c.kernel, c.kernel->body);
    const layout half = halved_columns(l);
    value v = numbered(b, l, element::s32);
    const auto every_other = [&](int first) { return b.make(opcode::every_other, {v}, {type::tile_of(element::s32, l.rows, 24).with_layout(half)}, {{"first", std::int64_t{first}}}).result(); };
    value even = every_other(0), odd = every_other(1);
    store(b, b.make(opcode::interleave, {odd, even}, {type::tile_of(element::s32, l.rows, 48).with_layout(doubled_columns(half))}).result(), out);
    std::vector<std::int32_t> expected;
    for (int row = 0; row < l.rows; ++row)
      for (int col = 0; col < 48; ++col) expected.push_back(row * 48 + (col ^ 1));
    c.expected = bytes_of(expected);
    c.output = empty({l.rows, 48}, c.expected.size());
    all.push_back(std::move(c));
  }
  {
    run_case c = new_run("layouts inside a role count warps from the role's first", 6);
    value out = add_parameter(*c.kernel, "out", type::view_of(element::s32, 2));
    builder b(*c.kernel, c.kernel->body);
    const layout l = wgmma_accumulator(64, 16, 4);
    ir::op& role = b.when(b.compare("gt", b.simple(opcode::warp_id, element::s32), b.integer(1)), [&](builder& in) {
      in.when(in.boolean(true), [&](builder& deeper) { store(deeper, numbered(deeper, l, element::s32), out); });
    });
    role.set("first_warp", std::int64_t{2});
    c.expected = bytes_of(numbers(64 * 16));
    c.output = empty({64, 16}, c.expected.size());
    all.push_back(std::move(c));
  }
  // Masks: a 64 x 64 tile at (row, col) of a view of 70 x 40, possibly partly outside; the copy goes to another corner.
  for (const bool promised : {true, false})
  for (const auto& [row, col, valid] : {std::tuple{0, 0, 64}, {10, 8, 64}, {-5, 0, 64}, {40, 32, 64}, {0, 0, 13}, {69, 39, 0}, {6, -64, 64}}) {
    run_case c = new_run(cat(promised ? "promised" : "looked up", ", masked copy at ", row, ", ", col, ", ", valid, " rows"), 4);
    value in = add_parameter(*c.kernel, "in", type::view_of(element::u16, 3)), out = add_parameter(*c.kernel, "out", type::view_of(element::u16, 2));
    value r = add_parameter(*c.kernel, "r", type::scalar(element::s32)), k = add_parameter(*c.kernel, "k", type::scalar(element::s32)), n = add_parameter(*c.kernel, "n", type::scalar(element::s32));
    builder b(*c.kernel, c.kernel->body);
    const type t = type::tile_of(element::u16, 64, 64).with_layout(blocked(64, 64, 4, 4));
    // Rows are axis 0, columns axis 2; axis 1 is fixed at 1.
    value v = b.make(opcode::global_load, {in, r, b.integer(1), k, n}, {t}, {{"tile_axes", integers{0, 2}}, {"jagged", std::int64_t{1}}, {"fill", std::int64_t{9}}}).result();
    ir::op& write = b.make(opcode::global_store, {v, out, b.integer(2), b.integer(4)}, {}, {{"tile_axes", integers{0, 1}}});
    if (promised) {
      v->owner->set("vector", std::int64_t{4});
      write.set("vector", std::int64_t{4});
    }
    std::vector<std::uint16_t> source(70 * 2 * 40), target(60 * 64, 0xeeee);
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint16_t>(i + 100);
    c.inputs.push_back(buffer_of({70, 2, 40}, source));
    c.output = buffer_of({60, 64}, target);
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 64; ++j) {
        const int y = row + i, x = col + j;
        const bool inside = y >= 0 && y < 70 && x >= 0 && x < 40 && i < valid;
        if (i + 2 < 60 && j + 4 < 64) target[static_cast<size_t>((i + 2) * 64 + j + 4)] = inside ? source[static_cast<size_t>((y * 2 + 1) * 40 + x)] : 9;
      }
    c.expected = bytes_of(target);
    c.scalars = {row, col, valid};
    all.push_back(std::move(c));
  }
  for (const auto& [row, col, width] : {std::tuple{0, 0, 96}, {3, 16, 96}, {3, 18, 96}, {3, 1, 97}, {36, 0, 96}, {0, 33, 96}}) {  // inside or not, aligned or not
    run_case c = new_run(cat("32 x 64 bytes copied at ", row, ", ", col, " of 64 x ", width), 4);
    value in = add_parameter(*c.kernel, "in", type::view_of(element::u8, 2)), out = add_parameter(*c.kernel, "out", type::view_of(element::u8, 2));
    value r = add_parameter(*c.kernel, "r", type::scalar(element::s32)), k = add_parameter(*c.kernel, "k", type::scalar(element::s32));
    builder b(*c.kernel, c.kernel->body);
    const type t = type::tile_of(element::u8, 32, 64).with_layout(blocked(32, 64, 4, 16));
    value v = b.make(opcode::global_load, {in, r, k}, {t}, {{"tile_axes", integers{0, 1}}}).result();
    b.make(opcode::global_store, {v, out, r, k}, {}, {{"tile_axes", integers{0, 1}}});
    std::vector<std::uint8_t> source(static_cast<size_t>(64 * width)), target(source.size(), 0xee);
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint8_t>(i * 7 + 1);
    c.inputs.push_back(buffer_of({64, width}, source));
    c.output = buffer_of({64, width}, target);
    for (int y = row; y < std::min(row + 32, 64); ++y)
      for (int x = col; x < std::min(col + 64, width); ++x) target[static_cast<size_t>(y * width + x)] = source[static_cast<size_t>(y * width + x)];
    c.expected = bytes_of(target);
    c.scalars = {row, col};
    all.push_back(std::move(c));
  }
  return all;
}

}  // namespace test
