// Tiles written to and read from shared memory in every kind of layout: the image must be that of tile::shared_tile.
#include <cstring>

#include "tests/codegen/kernels.hpp"
#include "tests/codegen/runs.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/shared_tile.hpp"

namespace test {

using namespace tlx;
using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using tile::element;
using integers = std::vector<std::int64_t>;

run_case new_run(const std::string& name, int warps, const std::string& target) {
  run_case c;
  c.name = name;
  c.kernel = new_kernel("run", target, warps);
  c.kernel->shared_bytes = 65536;
  return c;
}

value thread_index(builder& b) { return b.add(b.mul(b.simple(opcode::warp_id, element::s32), 32), b.simple(opcode::lane_id, element::s32)); }
value shared_at(builder& b, std::int64_t offset) { return b.simple(opcode::shared_base, element::u32, {{"offset", offset}}); }
void barrier(builder& b) { b.make(opcode::barrier_cta, {}, {}, {{"id", std::int64_t{0}}, {"threads", std::int64_t{0}}}); }

value numbered(builder& b, const tile::layout& l, element e) {
  const type t = type::tile_of(element::s32, l.rows, l.cols).with_layout(l);
  value row = b.make(opcode::iota, {}, {t}, {{"axis", std::int64_t{0}}}).result(), col = b.make(opcode::iota, {}, {t}, {{"axis", std::int64_t{1}}}).result();
  return b.cast(b.add(b.mul(row, static_cast<std::int64_t>(l.cols)), col), e);
}

namespace {

struct shape {
  std::string name;
  tile::layout l;
  element e;
  int swizzle;
};

std::vector<shape> shapes() {
  using namespace tile;
  return {
      {"wgmma 64x64 sw128", wgmma_accumulator(64, 64, 4), element::u16, 128},
      {"wgmma 64x128 sw128", wgmma_accumulator(64, 128, 4), element::u16, 128},
      {"wgmma 128x64, two row blocks", wgmma_accumulator(128, 64, 4), element::u16, 128},
      {"wgmma 128x64, two warpgroups", wgmma_accumulator(128, 64, 8), element::u16, 128},
      {"wgmma 64x32 sw64", wgmma_accumulator(64, 32, 4), element::u16, 64},
      {"wgmma 64x16 sw32", wgmma_accumulator(64, 16, 4), element::u16, 32},
      {"wgmma 64x24 plain", wgmma_accumulator(64, 24, 4), element::u16, 0},
      {"wgmma 64x8 sw16", wgmma_accumulator(64, 8, 4), element::u16, 16},
      {"wgmma 64x192 sw128", wgmma_accumulator(64, 192, 4), element::u16, 128},
      {"wgmma f32 64x64 sw128", wgmma_accumulator(64, 64, 4), element::u32, 128},
      {"wgmma bytes 64x128", wgmma_accumulator(64, 128, 4), element::u8, 128},
      {"mma.sync 32x64", mma_sync_accumulator(32, 64, 2), element::u16, 128},
      {"rows 128x64 16-bit", tmem_rows_32x32b(128, 64, 4), element::u16, 128},
      {"rows 128x64 32-bit", tmem_rows_32x32b(128, 64, 4), element::u32, 128},
      {"rows 128x64, 8 warps", tmem_rows_32x32b(128, 64, 8), element::u16, 128},
      {"rows 256x32", tmem_rows_32x32b(256, 32, 4), element::u16, 64},
      {"blocked 32x64 f32", blocked(32, 64, 4, 4), element::u32, 128},
      {"blocked 64x64 by 8", blocked(64, 64, 4, 8), element::u16, 128},
      {"blocked 64x64 by 1", blocked(64, 64, 4, 1), element::u16, 128},
      {"blocked 12x128, chunks that are no whole atoms", blocked(12, 128, 4, 8), element::u16, 128},
      {"blocked 8x96", blocked(8, 96, 4, 2), element::u32, 128},
      {"blocked 16x12 plain", blocked(16, 12, 4, 4), element::u32, 0},
      {"blocked bytes 64x64", blocked(64, 64, 4, 16), element::u8, 64},
      {"blocked 64-bit 16x32", blocked(16, 32, 4, 2), element::u64, 128},
  };
}

/// The bytes of the stored tile whose element (r, c) is r * cols + c.
std::vector<std::byte> image(const tile::shared_tile& t) {
  std::vector<std::byte> out(static_cast<size_t>(t.size_bytes()));
  const size_t size = static_cast<size_t>(tile::bits(t.type)) / 8;
  for (int r = 0; r < t.rows; ++r)
    for (int c = 0; c < t.cols; ++c) {
      const std::uint64_t v = static_cast<std::uint64_t>(r * t.cols + c);
      std::memcpy(out.data() + t.offset(r, c), &v, size);
    }
  return out;
}

/// Every thread moves words i, i + threads, ... between shared memory and a rank-1 view of u32.
void copy_words(builder& b, int warps, std::int64_t words, value view, std::int64_t offset, bool out) {
  b.for_each(thread_index(b), b.integer(words), b.integer(warps * 32), [&](builder& in, value i) {
    value at = in.add(shared_at(in, offset), in.mul(in.cast(i, element::u32), 4));
    if (out)
      in.make(opcode::global_store, {in.make(opcode::shared_load, {at}, {type::scalar(element::u32)}).result(), view, i});
    else
      in.make(opcode::shared_store, {in.make(opcode::global_load, {view, i}, {type::scalar(element::u32)}).result(), at});
  });
}

}  // namespace

std::vector<run_case> shared_memory_runs() {
  std::vector<run_case> all;
  for (const shape& s : shapes()) {
    const int warps = s.l.warp_count();
    const tile::shared_tile t{s.e, s.l.rows, s.l.cols, s.swizzle, false};
    const std::int64_t words = t.size_bytes() / 4;
    const type tile_type = type::tile_of(s.e, s.l.rows, s.l.cols).with_layout(s.l);
    {
      run_case c = new_run("shared.write " + s.name, warps);
      value out = add_parameter(*c.kernel, "out", type::view_of(element::u32, 1));
      builder b(*c.kernel, c.kernel->body);
      b.make(opcode::shared_write, {numbered(b, s.l, s.e), shared_at(b, 1024)}, {}, {{"swizzle", std::int64_t{s.swizzle}}});
      barrier(b);
      copy_words(b, warps, words, out, 1024, true);
      c.expected = image(t);
      c.output = {{words}, std::vector<std::byte>(c.expected.size(), std::byte{0xee})};
      all.push_back(std::move(c));
    }
    {
      run_case c = new_run("shared.read " + s.name, warps);
      value in = add_parameter(*c.kernel, "in", type::view_of(element::u32, 1)), out = add_parameter(*c.kernel, "out", type::view_of(s.e, 2));
      builder b(*c.kernel, c.kernel->body);
      copy_words(b, warps, words, in, 1024, false);
      barrier(b);
      value v = b.make(opcode::shared_read, {shared_at(b, 1024)}, {tile_type}, {{"swizzle", std::int64_t{s.swizzle}}}).result();
      b.make(opcode::global_store, {v, out, b.integer(0), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}});
      c.inputs.push_back({{words}, image(t)});
      c.expected = image({s.e, s.l.rows, s.l.cols, 0, false});
      c.output = {{s.l.rows, s.l.cols}, std::vector<std::byte>(c.expected.size(), std::byte{0xee})};
      all.push_back(std::move(c));
    }
  }
  for (const auto& [rows, swizzle] : {std::pair{64, 128}, {32, 64}}) {  // every warp's rows in a slab of its own
    const tile::layout l = tile::wgmma_accumulator(64, 64, 4);
    run_case c = new_run(cat("shared.write by slabs, ", swizzle), 4);
    (void)rows;
    value out = add_parameter(*c.kernel, "out", type::view_of(element::u32, 1));
    builder b(*c.kernel, c.kernel->body);
    const std::int64_t slab = 16 * 128 + 128;  // not a multiple of the swizzle's atom
    value mine = b.add(shared_at(b, 1024), b.mul(b.cast(b.simple(opcode::warp_id, element::s32), element::u32), slab));
    b.for_each(thread_index(b), b.integer(4 * slab / 4), b.integer(128), [&](builder& in, value i) {
      in.make(opcode::shared_store, {in.integer(0, element::u32), in.add(shared_at(in, 1024), in.mul(in.cast(i, element::u32), 4))});
    });
    barrier(b);
    b.make(opcode::shared_write, {numbered(b, l, element::u16), mine}, {}, {{"swizzle", std::int64_t{swizzle}}, {"slab", std::int64_t{1}}, {"slab_rows", std::int64_t{16}}});
    barrier(b);
    copy_words(b, 4, 4 * slab / 4, out, 1024, true);
    c.expected.resize(static_cast<size_t>(4 * slab));
    for (int r = 0; r < 64; ++r)
      for (int col = 0; col < 64; ++col) {
        const int per_chunk = swizzle / 2;
        const unsigned linear = static_cast<unsigned>(r / 16 * slab + col / per_chunk * 16 * swizzle + r % 16 * swizzle + col % per_chunk * 2);
        const std::uint16_t v = static_cast<std::uint16_t>(r * 64 + col);
        std::memcpy(c.expected.data() + tile::swizzled(linear + 1024, swizzle) - 1024, &v, 2);
      }
    c.output = {{4 * slab / 4}, std::vector<std::byte>(c.expected.size())};
    all.push_back(std::move(c));
  }
  for (const auto& [cols, swizzle, first] : {std::tuple{128, 128, 5}, {32, 64, 0}, {24, 0, 16}, {64, 128, 16}}) {
    run_case c = new_run(cat("shared.zero from row ", first, " of 16, ", cols, " columns"), 4);
    value out = add_parameter(*c.kernel, "out", type::view_of(element::u32, 1));
    const tile::shared_tile t{element::u16, 16, cols, swizzle, false};
    const std::int64_t words = t.size_bytes() / 4;
    builder b(*c.kernel, c.kernel->body);
    const tile::layout l = tile::blocked(16, cols, 4, 2);
    b.make(opcode::shared_write, {numbered(b, l, element::u16), shared_at(b, 1024)}, {}, {{"swizzle", std::int64_t{swizzle}}});
    barrier(b);
    b.make(opcode::shared_zero, {shared_at(b, 1024), b.integer(first)}, {},
           {{"rows", std::int64_t{16}}, {"cols", std::int64_t{cols}}, {"element_bytes", std::int64_t{2}}, {"swizzle", std::int64_t{swizzle}}, {"warps", std::int64_t{4}}});
    barrier(b);
    copy_words(b, 4, words, out, 1024, true);
    c.expected = image(t);
    for (int r = first; r < 16; ++r)
      for (int col = 0; col < cols; ++col) std::memset(c.expected.data() + t.offset(r, col), 0, 2);
    c.output = {{words}, std::vector<std::byte>(c.expected.size(), std::byte{0xee})};
    all.push_back(std::move(c));
  }
  return all;
}

}  // namespace test
