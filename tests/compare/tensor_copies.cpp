// Bulk tensor copies: ranks, element types, swizzles, boxes, strides and coordinates outside, in both directions, reductions and plain bulk copies. The
// kernels copy the raw bytes of shared memory, so that swizzles are seen as they lie.
#include <cstring>

#include "tests/compare/text.hpp"
#include "tests/compare/values.hpp"

namespace tlx::compare {

using device::map_element;

namespace {

struct map_type { map_element as; element e; const char* name; };
const std::vector<map_type>& map_types() {
  static const std::vector<map_type> all = {{map_element::u8, element::u8, "u8"},    {map_element::u16, element::u16, "u16"}, {map_element::u32, element::u32, "u32"}, {map_element::s32, element::s32, "s32"}, {map_element::u64, element::u64, "u64"},
                                            {map_element::s64, element::s64, "s64"}, {map_element::f16, element::f16, "f16"}, {map_element::f32, element::f32, "f32"}, {map_element::f64, element::f64, "f64"}, {map_element::bf16, element::bf16, "bf16"},
                                            {map_element::tf32, element::u32, "tf32"}, {map_element::f32_ftz, element::u32, "f32_ftz"}, {map_element::tf32_ftz, element::u32, "tf32_ftz"}};
  return all;
}

struct recipe {
  device::tensor_map map;
  element e = element::u8;
  std::size_t tensor_bytes = 0, box_bytes = 0, pitch = 0;
  std::vector<int> at;  // coordinates, innermost first
  std::string what;
};

/// A random map with a small tensor and a box of at most 16 KiB. `inside`: coordinates at or above zero.
recipe random_map(generator& g, bool inside, const map_type& t, int rank, int swizzle) {
  recipe r;
  r.e = t.e;
  r.map.element = t.as;
  r.map.rank = rank;
  r.map.swizzle_bytes = swizzle;
  const int size = width(t.e);
  const int inner_limit = swizzle ? swizzle : 256;
  const int unit = 16 / std::min(16, size);  // elements of 16 bytes
  int box0 = unit * g.between(1, std::max(1, inner_limit / size / unit));
  if (swizzle && g.between(0, 1)) box0 = swizzle / size;
  r.map.box[0] = static_cast<std::uint32_t>(box0);
  r.pitch = swizzle ? static_cast<std::size_t>(swizzle) : static_cast<std::size_t>(box0 * size);  // a swizzled row takes the whole swizzle
  int rows = 1;
  for (int d = 1; d < rank; ++d) {
    const int room = static_cast<int>(16384 / r.pitch) / rows;
    const int n = g.between(1, std::max(1, std::min(room, d == 1 ? 32 : 5)));
    r.map.box[static_cast<std::size_t>(d)] = static_cast<std::uint32_t>(n);
    rows *= n;
  }
  r.box_bytes = static_cast<std::size_t>(rows * box0 * size);
  std::uint64_t stride = 0;
  for (int d = 0; d < rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const int box = static_cast<int>(r.map.box[i]);
    const int extent = g.between(std::max(1, box / 2), box + box / 2 + 2);
    r.map.extents[i] = static_cast<std::uint64_t>(extent);
    if (d > 0) r.map.strides_bytes[i - 1] = stride;
    stride = d == 0 ? (static_cast<std::uint64_t>(extent * size) + 15) / 16 * 16 + (g.between(0, 1) ? 16U : 0U) : stride * static_cast<std::uint64_t>(extent) + (g.between(0, 2) ? 0U : 32U);
    const int reach = g.between(0, 9);
    r.at.push_back(reach == 0 ? (inside ? extent + 3 : -box - 2) : reach == 1 ? extent : reach < 4 ? (inside ? 0 : -g.between(0, box)) : g.between(0, extent));
  }
  // The innermost coordinate is a multiple of 16 bytes: another is an illegal instruction (seen on an H200).
  r.at[0] = (r.at[0] < 0 ? (r.at[0] - unit + 1) / unit : r.at[0] / unit) * unit;
  r.tensor_bytes = stride + 64;
  if (rank == 1) r.tensor_bytes = static_cast<std::size_t>(r.map.extents[0]) * static_cast<std::size_t>(size) + 64;
  r.what = cat(t.name, " rank ", rank, " swizzle ", swizzle);
  return r;
}

std::string coordinates(const recipe& r) {
  std::string text = "{";
  for (std::size_t i = 0; i < r.at.size(); ++i) text += cat(i ? ", " : "", r.at[i]);
  return text + "}";
}

/// The box by definition, without swizzle, rows dense: index over the box innermost first. `whole_pieces`: a row ends with the last 16-byte piece that the
/// tensor begins, as stores and reductions have it (seen on an H200), and not with the tensor.
template <class Visit>
void each_element(const recipe& r, bool whole_pieces, Visit&& visit) {
  const std::int64_t piece = whole_pieces ? 16 / width(r.e) : 1, row_end = (static_cast<std::int64_t>(r.map.extents[0]) + piece - 1) / piece * piece;
  std::vector<int> i(r.at.size(), 0);
  for (std::size_t n = 0;; ++n) {
    bool inside = true;
    std::uint64_t offset = 0;
    for (std::size_t d = 0; d < i.size(); ++d) {
      const std::int64_t c = r.at[d] + i[d];
      inside = inside && c >= 0 && c < (d == 0 ? row_end : static_cast<std::int64_t>(r.map.extents[d]));
      offset += static_cast<std::uint64_t>(c) * (d == 0 ? static_cast<std::uint64_t>(width(r.e)) : r.map.strides_bytes[d - 1]);
    }
    visit(n, inside, offset);
    std::size_t d = 0;
    while (d < i.size() && ++i[d] == static_cast<int>(r.map.box[d])) i[d++] = 0;
    if (d == i.size()) return;
  }
}

/// Where byte `at` of a dense box lies in shared memory that starts at a multiple of 1024.
std::size_t swizzled(std::size_t at, int bytes_of_swizzle) {
  if (bytes_of_swizzle == 128) return at ^ (((at >> 7) & 7) << 4);
  if (bytes_of_swizzle == 64) return at ^ (((at >> 7) & 3) << 4);
  if (bytes_of_swizzle == 32) return at ^ (((at >> 7) & 1) << 4);
  return at;
}
/// Byte of shared memory that holds byte `byte` of element `n` of the box.
std::size_t place_of(const recipe& r, std::size_t n, std::size_t byte) {
  return swizzled(n / r.map.box[0] * r.pitch + n % r.map.box[0] * static_cast<std::size_t>(width(r.e)) + byte, r.map.swizzle_bytes);
}

const char* const copy_out = R"(
  bar.sync 0;
  mov.u32 %r10, data; ld.param.u64 %l3, [p_out]; mul.lo.u32 %r11, %r0, 4;
  LOOP: setp.ge.u32 %p2, %r11, SIZE; @%p2 bra DONE;
  add.u32 %r12, %r10, %r11; ld.shared.u32 %r13, [%r12]; cvt.u64.u32 %l4, %r11; add.u64 %l5, %l3, %l4; st.global.u32 [%l5], %r13;
  add.u32 %r11, %r11, 512; bra LOOP;
  DONE:
)";
std::string with_size(std::string text, std::size_t size) {
  for (std::size_t at; (at = text.find("SIZE")) != std::string::npos;) text.replace(at, 4, std::to_string(size));
  return text;
}

/// Shared memory after one load, over a pattern that says what was not written.
sample load_box(generator& g, const recipe& r, bool nan, draw how, bool off, std::uint64_t seed) {
  sample s;
  s.name = cat("tensor load ", r.what, nan ? " nan fill" : "", " at ", coordinates(r), " #", seed);
  s.from = quota::tensor_copies;
  s.faults = off;
  s.ptx = ptx_kernel(".param .align 64 .b8 map[128], .param .u64 p_out",
                     cat(".shared .align 1024 .b8 data[32768]; .shared .align 8 .b64 bar;\n",
                         "mov.u32 %r10, data; mul.lo.u32 %r11, %r0, 256; add.u32 %r10, %r10, %r11; mov.u32 %r12, 0; FILL: st.shared.u32 [%r10], 0xC3C3C3C3; add.u32 %r10, %r10, 4; add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 64; @%p1 bra FILL;\n",
                         "fence.proxy.async.shared::cta; setp.eq.u32 %p0, %r0, 0; mov.u64 %l1, map; cvta.param.u64 %l1, %l1; @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;\n",
                         "@!%p0 bra WAITS; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], ", r.box_bytes, "; cp.async.bulk.tensor.", r.map.rank, "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [data], [%l1, ", coordinates(r), "], [bar];\n",
                         wait_for("bar", "0", "WAITS"), with_size(copy_out, 32768)));
  const bytes tensor = draw_many(g, r.e, r.tensor_bytes / static_cast<std::size_t>(width(r.e)), how);
  s.memories = {{"tensor", tensor, false, r.e}, {"shared", unwritten(32768), true, element::u8}};
  s.arguments = {mapped{{0, 0}, r.map}, place{1, 0}};
  const std::string kind = r.what.substr(0, r.what.find(' '));
  if (!nan && kind.find("tf32") == std::string::npos && kind != "f32_ftz" && !off) {
    bytes image(32768, std::byte{0xC3});
    const auto size = static_cast<std::size_t>(width(r.e));
    each_element(r, false, [&](std::size_t n, bool inside, std::uint64_t offset) {
      for (std::size_t byte = 0; byte < size; ++byte) image[place_of(r, n, byte)] = inside ? tensor[offset + byte] : std::byte{0};
    });
    s.expected = {{.memory = 1, .exact = image}};
  }
  return s;
}

sample load(std::uint64_t seed, bool off = false) {
  generator g(seed + 7000);
  static const int swizzles[] = {0, 32, 64, 128};
  recipe r = random_map(g, false, map_types()[seed % map_types().size()], 1 + static_cast<int>((seed / 4) % 5), swizzles[seed % 4]);
  if (off) r.at[0] += 1;
  const bool nan = tile::is_float(r.e) && g.between(0, 2) == 0;
  r.map.oob_nan = nan;
  return load_box(g, r, nan, nan ? draw::moderate : draw::bits, off, seed);
}

/// A box whose rows of 256 bytes reach 64 bytes, and whose last row lies, outside of the tensor.
recipe specials_map(const map_type& t) {
  recipe r;
  r.e = t.e == element::u32 ? element::f32 : t.e;
  const int size = width(r.e);
  r.map.element = t.as;
  r.map.rank = 2;
  r.map.box[0] = static_cast<std::uint32_t>(256 / size), r.map.box[1] = 16;
  r.map.extents[0] = static_cast<std::uint64_t>(192 / size), r.map.extents[1] = 15;
  r.map.strides_bytes[0] = 192;
  r.pitch = 256;
  r.box_bytes = 256 * 16;
  r.at = {0, 0};
  r.tensor_bytes = 192 * 15;
  r.what = cat(t.name, " specials");
  return r;
}

/// Special values of one float type inside of the tensor, beside what fills a box outside.
sample load_specials(std::uint64_t seed, const map_type& t, bool nan) {
  generator g(seed + 8000);
  recipe r = specials_map(t);
  r.map.oob_nan = nan;
  return load_box(g, r, nan, draw::mixed, false, seed);
}

/// The tensor after one store (or reduction) of a pattern in shared memory.
sample store_box(generator& g, const recipe& r, const char* reduce, std::uint64_t seed) {
  const std::string op = reduce ? reduce : "";
  sample s;
  s.name = cat("tensor ", reduce ? cat("reduce ", op, " ") : "store ", r.what, " at ", coordinates(r), " #", seed);
  s.from = quota::tensor_copies;
  const std::string instruction = reduce ? cat("cp.reduce.async.bulk.tensor.", r.map.rank, "d.global.shared::cta.", op, ".tile.bulk_group") : cat("cp.async.bulk.tensor.", r.map.rank, "d.global.shared::cta.tile.bulk_group");
  s.ptx = ptx_kernel(".param .align 64 .b8 map[128], .param .u64 p_in",
                     cat(".shared .align 1024 .b8 data[16384];\n",
                         "mov.u32 %r10, data; mul.lo.u32 %r11, %r0, 128; add.u32 %r10, %r10, %r11; ld.param.u64 %l3, [p_in]; cvt.u64.u32 %l4, %r11; add.u64 %l3, %l3, %l4; mov.u32 %r12, 0;\n",
                         "FILL: ld.global.u32 %r13, [%l3]; st.shared.u32 [%r10], %r13; add.u32 %r10, %r10, 4; add.u64 %l3, %l3, 4; add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 32; @%p1 bra FILL;\n",
                         "fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p0, %r0, 0; @%p0 bra END; mov.u64 %l1, map; cvta.param.u64 %l1, %l1;\n", instruction, " [%l1, ", coordinates(r),
                         "], [data]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nEND:"));
  const bytes image = draw_many(g, r.e, 16384 / static_cast<std::size_t>(width(r.e)), reduce && op == "add" && tile::is_float(r.e) ? draw::mixed : draw::bits);
  bytes tensor = draw_many(g, r.e, r.tensor_bytes / static_cast<std::size_t>(width(r.e)), reduce ? draw::mixed : draw::bits);
  s.memories = {{"tensor", tensor, true, r.e}, {"shared", image, false, element::u8}};
  s.arguments = {mapped{{0, 0}, r.map}, place{1, 0}};
  if (!reduce) {
    const auto size = static_cast<std::size_t>(width(r.e));
    each_element(r, true, [&](std::size_t n, bool inside, std::uint64_t offset) {
      if (inside)
        for (std::size_t byte = 0; byte < size; ++byte) tensor[offset + byte] = image[place_of(r, n, byte)];
    });
    s.expected = {{.memory = 0, .exact = tensor}};
  }
  return s;
}

sample store(std::uint64_t seed, const char* reduce) {
  generator g(seed + 9000);
  static const int swizzles[] = {0, 32, 64, 128};
  std::vector<map_type> fit;
  const std::string op = reduce ? reduce : "";
  for (const map_type& t : map_types()) {
    const std::string n = t.name;
    if (n.find("tf32") != std::string::npos || n == "f32_ftz" || n == "f64") continue;
    const bool f = n[0] == 'f' || n == "bf16";
    const bool good = op.empty() || (op == "add" ? n == "u32" || n == "s32" || n == "u64" || f : op == "min" || op == "max" ? (n != "u8" && n != "u16" && n != "f32") : op == "inc" || op == "dec" ? n == "u32" : n == "u32" || n == "s32" || n == "u64" || n == "s64");
    if (good) fit.push_back(t);
  }
  recipe r = random_map(g, true, fit[static_cast<std::size_t>(seed) % fit.size()], 1 + static_cast<int>(seed % 5), swizzles[(seed / 2) % 4]);
  return store_box(g, r, reduce, seed);
}

/// Sums of special values in a tensor whose rows end within 16 bytes.
sample add_specials(std::uint64_t seed, const map_type& t) {
  generator g(seed + 10000);
  recipe r = specials_map(t);
  r.map.extents[0] -= 1;
  return store_box(g, r, "add", seed);
}

/// Every n-th element of a dimension (element strides), and interleaved layouts of 16 and 32 bytes.
sample strided_load(std::uint64_t seed) {
  generator g(seed + 11000);
  recipe r = random_map(g, false, map_types()[(seed * 3) % 10], 2 + static_cast<int>(seed % 3), 0);
  r.map.element_strides[1] = static_cast<std::uint32_t>(g.between(2, 4));
  for (int& c : r.at) c = std::max(c, 0);
  sample s = load(seed);
  s.name = cat("strided tensor load ", r.what, " every ", r.map.element_strides[1], " at ", coordinates(r), " #", seed);
  // The box counts elements of the tensor; with a stride, ceil(box / stride) of them arrive.
  std::size_t rows = 1;
  for (int d = 1; d < r.map.rank; ++d) rows *= (r.map.box[static_cast<std::size_t>(d)] + r.map.element_strides[static_cast<std::size_t>(d)] - 1) / r.map.element_strides[static_cast<std::size_t>(d)];
  const std::size_t landed = rows * r.map.box[0] * static_cast<std::size_t>(width(r.e));
  const std::size_t at = s.ptx.find("@!%p0 bra WAITS;"), end = s.ptx.find('\n', at);
  s.ptx.replace(at, end - at, cat("@!%p0 bra WAITS; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], ", landed, "; cp.async.bulk.tensor.", r.map.rank, "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [data], [%l1, ", coordinates(r), "], [bar];"));
  s.memories[0] = {"tensor", draw_many(g, r.e, r.tensor_bytes / static_cast<std::size_t>(width(r.e)), draw::bits), false, r.e};
  s.arguments[0] = mapped{{0, 0}, r.map};
  s.expected.clear();
  return s;
}

/// One-dimensional bulk copies in both directions, with a reduction on the way out.
sample bulk(std::uint64_t seed) {
  generator g(seed + 13000);
  const std::size_t size = static_cast<std::size_t>(16 * g.between(1, 512));
  const std::size_t from = static_cast<std::size_t>(16 * g.between(0, 9)), to = static_cast<std::size_t>(16 * g.between(0, 9));
  struct way { const char* text; element e; };
  const way how = std::vector<way>{{"cp.async.bulk.global.shared::cta.bulk_group", element::u8}, {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", element::u32}, {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", element::f32},
                                   {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16", element::f16}, {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16", element::bf16},
                                   {"cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32", element::s32}, {"cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u64", element::u64}, {"cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b64", element::u64},
                                   {"cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.u32", element::u32}, {"cp.reduce.async.bulk.global.shared::cta.bulk_group.max.f16", element::f16}, {"cp.reduce.async.bulk.global.shared::cta.bulk_group.min.bf16", element::bf16},
                                   {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64", element::f64}}[seed % 12];
  sample s;
  s.name = cat("bulk copy of ", size, " bytes, ", how.text, " #", seed);
  s.from = quota::tensor_copies;
  s.ptx = ptx_kernel(".param .u64 p_in, .param .u64 p_out",
                     cat(".shared .align 128 .b8 data[8192]; .shared .align 8 .b64 bar;\n",
                         "setp.ne.u32 %p0, %r0, 0; @%p0 bra END; ld.param.u64 %l1, [p_in]; ld.param.u64 %l2, [p_out]; mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;\n",
                         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], ", size, "; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%l1], ", size, ", [bar];\n", wait_for("bar", "0", "W"), how.text, " [%l2], [data], ", size,
                         "; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nEND:"));
  const std::size_t each = static_cast<std::size_t>(width(how.e));
  s.memories = {{"in", draw_many(g, how.e, 9000 / each, draw::mixed), false, how.e}, {"out", draw_many(g, how.e, 9000 / each, draw::mixed), true, how.e, 0, 0, how.e == element::f64}};
  s.arguments = {place{0, from}, place{1, to}};
  if (how.e == element::u8) {
    bytes after = s.memories[1].before;
    std::copy_n(s.memories[0].before.begin() + static_cast<std::ptrdiff_t>(from), size, after.begin() + static_cast<std::ptrdiff_t>(to));
    s.expected = {{.memory = 1, .exact = after}};
  }
  return s;
}

}  // namespace

void add_tensor_copies(std::vector<entry>& to) {
  for (std::uint64_t i = 0; i < 40; ++i) to.push_back({cat("tensor load ", i), quota::tensor_copies, [i] { return load(i); }});
  for (const std::uint64_t i : {4, 14}) to.push_back({cat("tensor load off a multiple of 16 bytes ", i), quota::tensor_copies, [i] { return load(i, true); }});
  for (std::uint64_t i = 0; i < 20; ++i) to.push_back({cat("tensor store ", i), quota::tensor_copies, [i] { return store(i, nullptr); }});
  std::uint64_t seed = 0;
  for (const char* op : {"add", "add", "add", "add", "add", "add", "min", "max", "min", "max", "inc", "dec", "and", "or", "xor"}) to.push_back({cat("tensor reduce ", op, " ", seed), quota::tensor_copies, [seed, op] { return store(seed, op); }}), ++seed;
  for (std::uint64_t i = 0; i < 8; ++i) to.push_back({cat("strided tensor load ", i), quota::tensor_copies, [i] { return strided_load(i); }});
  for (const map_type& t : map_types())
    if (tile::is_float(t.e) || t.e == element::u32)
      for (const bool nan : {false, true})
        if (t.as != map_element::u32) to.push_back({cat("tensor load of specials, ", t.name, nan ? ", nan fill" : ""), quota::tensor_copies, [t, nan] { return load_specials(static_cast<std::uint64_t>(t.as), t, nan); }});
  for (const map_type& t : map_types())
    if (t.e == element::f16 || t.e == element::bf16 || t.as == map_element::f32) to.push_back({cat("tensor reduce add of specials, ", t.name), quota::tensor_copies, [t] { return add_specials(static_cast<std::uint64_t>(t.as), t); }});
  for (std::uint64_t i = 0; i < 24; ++i) to.push_back({cat("bulk copy ", i), quota::tensor_copies, [i] { return bulk(i); }});
}

}  // namespace tlx::compare
