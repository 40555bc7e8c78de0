// Tensor core products: wgmma of every dense type, shape, operand place, swizzle and orientation, and mma.sync. Operands go into shared memory as bytes that
// the host has laid out; accumulators are compared as they lie in registers, bit by bit.
#include <cmath>
#include <cstring>

#include "tests/compare/text.hpp"
#include "tests/compare/values.hpp"

namespace tlx::compare {

namespace {

struct kind { const char* a; const char* b; const char* d; element ea, eb, ed; int bits; };
const std::vector<kind>& kinds() {
  using enum element;
  static const std::vector<kind> all = {
      {"f16", "f16", "f32", f16, f16, f32, 16},     {"f16", "f16", "f16", f16, f16, f16, 16},     {"bf16", "bf16", "f32", bf16, bf16, f32, 16},   {"tf32", "tf32", "f32", f32, f32, f32, 32},
      {"e4m3", "e4m3", "f32", e4m3, e4m3, f32, 8},  {"e4m3", "e5m2", "f32", e4m3, e5m2, f32, 8},  {"e5m2", "e4m3", "f32", e5m2, e4m3, f32, 8},    {"e5m2", "e5m2", "f32", e5m2, e5m2, f32, 8},
      {"e4m3", "e4m3", "f16", e4m3, e4m3, f16, 8},  {"e5m2", "e5m2", "f16", e5m2, e5m2, f16, 8},  {"s8", "s8", "s32", s8, s8, s32, 8},            {"u8", "u8", "s32", u8, u8, s32, 8},
      {"s8", "u8", "s32", s8, u8, s32, 8},          {"u8", "s8", "s32", u8, s8, s32, 8},          {"b1", "b1", "s32", u8, u8, s32, 1}};
  return all;
}

struct recipe {
  kind k;
  int n = 64, swizzle = 128;
  bool a_registers = false, a_transposed = false, b_transposed = false, negate_a = false, negate_b = false, use_c = false, saturate = false;
  draw fill = draw::moderate;
};

/// Byte offset of byte `at` (along k) of row `r` of a K-major operand of `row_bytes` bytes.
std::size_t k_major(int swizzle, std::size_t row_bytes, std::size_t r, std::size_t at) {
  if (swizzle == 0) return r / 8 * (row_bytes / 16 * 128) + at / 16 * 128 + r % 8 * 16 + at % 16;
  const std::size_t plain = r * static_cast<std::size_t>(swizzle) + at;
  return plain ^ (((plain >> 7) & static_cast<std::size_t>(swizzle / 16 - 1)) << 4);
}
/// The same for an MN-major operand of 16-bit elements: element (r, k), `depth` of K, `extent` rows.
std::size_t mn_major(int swizzle, std::size_t depth, std::size_t r, std::size_t k) {
  if (swizzle == 0) return r % 8 * 2 + r / 8 * (depth * 16) + k % 8 * 16 + k / 8 * 128;
  const auto w = static_cast<std::size_t>(swizzle), wide = w / 2;
  const std::size_t plain = r % wide * 2 + r / wide * (depth * w) + k % 8 * w + k / 8 * (8 * w);
  return plain ^ (((plain >> 7) & (w / 16 - 1)) << 4);
}

std::string descriptor(int swizzle, std::size_t lbo, std::size_t sbo) {
  const std::uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return cat((mode << 62) | (static_cast<std::uint64_t>(sbo / 16) << 32) | (static_cast<std::uint64_t>(lbo / 16) << 16));
}

sample wgmma(const recipe& r, std::uint64_t seed) {
  generator g(seed);
  const int steps = r.swizzle == 0 ? 2 : r.swizzle / 32;
  const auto row = static_cast<std::size_t>(steps) * 32;  // bytes of K
  const int depth = static_cast<int>(row) * 8 / r.k.bits, step_depth = depth / steps;
  const bool integers = r.k.ed == element::s32, halves = r.k.ed == element::f16;
  const int registers = halves ? r.n / 4 : r.n / 2;

  sample s;
  s.name = cat("wgmma m64n", r.n, "k", step_depth, " ", r.k.a, " ", r.k.b, " ", r.k.d, " swizzle ", r.swizzle, r.a_registers ? " a in registers" : "", r.a_transposed ? " a transposed" : "", r.b_transposed ? " b transposed" : "",
               r.negate_a ? " -a" : "", r.negate_b ? " -b" : "", r.use_c ? " + c" : "", r.saturate ? " saturated" : "", r.fill == draw::moderate ? "" : r.fill == draw::mixed ? " specials" : r.fill == draw::bits ? " bits" : " spread", " #", seed);
  s.from = quota::products;

  // Operands as numbers.
  const auto count_a = static_cast<std::size_t>(64 * depth), count_b = static_cast<std::size_t>(r.n * depth);
  const element ea = r.k.ea, eb = r.k.eb;
  const bool bit = r.k.bits == 1;
  const bytes a = draw_many(g, ea, bit ? count_a / 8 : count_a, r.fill), b = draw_many(g, eb, bit ? count_b / 8 : count_b, r.fill);
  const auto each = static_cast<std::size_t>(width(ea));
  // As bytes in shared memory: 64 rows (A), then n rows (B) at the next multiple of 1024.
  const std::size_t a_span = r.a_transposed && r.swizzle ? static_cast<std::size_t>(depth * r.swizzle) * ((64 * 2 + static_cast<std::size_t>(r.swizzle) - 1) / static_cast<std::size_t>(r.swizzle)) : 64 * row;
  const std::size_t b_at = (a_span + 1023) / 1024 * 1024;
  const std::size_t b_span = r.b_transposed && r.swizzle ? static_cast<std::size_t>(depth * r.swizzle) * ((static_cast<std::size_t>(r.n) * 2 + static_cast<std::size_t>(r.swizzle) - 1) / static_cast<std::size_t>(r.swizzle)) : static_cast<std::size_t>(r.n) * row;
  const std::size_t total = (b_at + b_span + 1023) / 1024 * 1024;
  bytes image(total, std::byte{0});
  const auto lay = [&](const bytes& from, std::size_t rows, bool transposed, std::size_t base) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t at = 0; at < row; ++at) {
        const std::size_t where = transposed ? mn_major(r.swizzle, static_cast<std::size_t>(depth), i, at / 2) + at % 2 : k_major(r.swizzle, row, i, at);
        image[base + where] = from[i * row + at];
      }
  };
  lay(a, 64, r.a_transposed, 0);
  lay(b, static_cast<std::size_t>(r.n), r.b_transposed, b_at);
  // A as registers: four words per thread and step.
  bytes words(128 * static_cast<std::size_t>(steps) * 16, std::byte{0});
  if (r.a_registers)
    for (std::size_t t = 0; t < 128; ++t)
      for (std::size_t step = 0; step < static_cast<std::size_t>(steps); ++step)
        for (std::size_t v = 0; v < 16 / each; ++v) {
          std::size_t i = 16 * (t / 32) + t % 32 / 4, k = 0;
          if (each == 2) i += 8 * ((v >> 1) & 1), k = 2 * (t % 4) + (v & 1) + 8 * (v >> 2);
          else if (each == 1) i += 8 * ((v >> 2) & 1), k = 4 * (t % 4) + (v & 3) + 16 * (v >> 3);
          else i += 8 * (v & 1), k = t % 4 + 4 * (v >> 1);
          std::memcpy(words.data() + (t * static_cast<std::size_t>(steps) + step) * 16 + v * each, a.data() + i * row + step * 32 + k * each, each);
        }
  const auto outputs = static_cast<std::size_t>(64 * r.n);
  const bytes c = draw_many(g, r.k.ed, outputs, r.fill == draw::bits ? draw::mixed : r.fill);
  s.memories = {{"shared", image, false, element::u8}, {"a", words, false, element::u32}, {"c", c, false, r.k.ed}, {"d", unwritten(outputs * static_cast<std::size_t>(width(r.k.ed))), true, r.k.ed}};
  s.arguments = {place{0, 0}, place{1, 0}, place{2, 0}, place{3, 0}};

  std::string body = cat(".shared .align 1024 .b8 data[", total, "];\n", "ld.param.u64 %l1, [p_image]; mov.u32 %r2, data; mul.lo.u32 %r3, %r0, 16; mov.u32 %r4, %r3;\n",
                         "COPY: setp.ge.u32 %p1, %r4, ", total, "; @%p1 bra COPIED; cvt.u64.u32 %l2, %r4; add.u64 %l2, %l1, %l2; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%l2]; add.u32 %r9, %r2, %r4; st.shared.v4.u32 [%r9], {%r5, %r6, %r7, %r8}; add.u32 %r4, %r4, 2048; bra COPY;\n",
                         "COPIED: fence.proxy.async.shared::cta; bar.sync 0;\n");
  const int accumulators = 100;  // %r100 ...: accumulators; %r20 ...: A
  body += cat("ld.param.u64 %l3, [p_c]; mul.wide.u32 %l4, %r0, ", registers * 4, "; add.u64 %l3, %l3, %l4;\n");
  for (int i = 0; i < registers; ++i) body += r.use_c ? cat("ld.global.b32 %r", accumulators + i, ", [%l3+", 4 * i, "];\n") : cat("mov.b32 %r", accumulators + i, ", 0;\n");
  if (r.a_registers) {
    body += cat("ld.param.u64 %l5, [p_a]; mul.wide.u32 %l6, %r0, ", steps * 16, "; add.u64 %l5, %l5, %l6;\n");
    for (int i = 0; i < steps * 4; ++i) body += cat("ld.global.b32 %r", 20 + i, ", [%l5+", 4 * i, "];\n");
  }
  const auto w = static_cast<std::size_t>(r.swizzle);
  const auto fields = [&](bool transposed) {
    if (!transposed) return r.swizzle ? descriptor(r.swizzle, 16, 8 * w) : descriptor(0, 128, row / 16 * 128);
    return r.swizzle ? descriptor(r.swizzle, static_cast<std::size_t>(depth) * w, 8 * w) : descriptor(0, 128, static_cast<std::size_t>(depth) * 16);
  };
  const auto advance = [&](bool transposed) -> std::size_t {  // bytes from one step to the next
    if (!transposed) return r.swizzle ? 32 : 256;
    return r.swizzle ? 16 * w : 256;
  };
  body += cat("shr.u32 %r10, %r2, 4; cvt.u64.u32 %l7, %r10; or.b64 %l7, %l7, ", fields(r.a_transposed), "; add.u32 %r11, %r2, ", b_at, "; shr.u32 %r11, %r11, 4; cvt.u64.u32 %l8, %r11; or.b64 %l8, %l8, ", fields(r.b_transposed), ";\n");
  body += cat("setp.ne.u32 %p2, ", r.use_c ? 1 : 0, ", 0; setp.eq.u32 %p3, 0, 0;\nwgmma.fence.sync.aligned;\n");
  for (int step = 0; step < steps; ++step) {
    std::string d = "{", tail;
    for (int i = 0; i < registers; ++i) d += cat(i ? ", " : "", "%r", accumulators + i);
    if (!integers) tail += cat(", ", r.negate_a ? -1 : 1, ", ", r.negate_b ? -1 : 1);
    if (r.k.bits == 16) tail += r.a_registers ? cat(", ", r.b_transposed ? 1 : 0) : cat(", ", r.a_transposed ? 1 : 0, ", ", r.b_transposed ? 1 : 0);
    const std::string left = r.a_registers ? cat("{%r", 20 + 4 * step, ", %r", 21 + 4 * step, ", %r", 22 + 4 * step, ", %r", 23 + 4 * step, "}") : "%l7";
    body += cat("wgmma.mma_async.sync.aligned.m64n", r.n, "k", step_depth, ".", r.k.d, r.saturate ? ".satfinite" : "", ".", r.k.a, ".", r.k.b, bit ? ".and.popc" : "", " ", d, "}, ", left, ", %l8, %p", step ? 3 : 2, tail, ";\n");
    body += cat("add.u64 %l7, %l7, ", advance(r.a_transposed) / 16, "; add.u64 %l8, %l8, ", advance(r.b_transposed) / 16, ";\n");
  }
  body += cat("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\nld.param.u64 %l9, [p_d]; mul.wide.u32 %l10, %r0, ", registers * 4, "; add.u64 %l9, %l9, %l10;\n");
  for (int i = 0; i < registers; ++i) body += cat("st.global.b32 [%l9+", 4 * i, "], %r", accumulators + i, ";\n");
  s.ptx = ptx_kernel(".param .u64 p_image, .param .u64 p_a, .param .u64 p_c, .param .u64 p_d", body, ".maxntid 128");

  if (r.fill == draw::moderate || integers) {
    expectation e{.memory = 3};
    double largest = 0;
    for (std::size_t t = 0; t < 128; ++t)
      for (std::size_t x = 0; x < static_cast<std::size_t>(r.n) / 2; ++x) {
        const std::size_t i = 16 * (t / 32) + t % 32 / 4 + 8 * ((x >> 1) & 1), j = 2 * (t % 4) + (x & 1) + 8 * (x >> 2);
        const std::size_t place = t * static_cast<std::size_t>(r.n) / 2 + x;
        double sum = r.use_c ? decode(r.k.ed, get(c, r.k.ed, place)) : 0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(depth); ++k) {
          if (bit) {
            const auto at = [&](const bytes& from, std::size_t line) { return (std::to_integer<int>(from[line * row + k / 8]) >> (k % 8)) & 1; };
            sum += at(a, i) & at(b, j);
            continue;
          }
          const auto number = [&](const bytes& from, element e2, std::size_t line) {
            std::uint64_t raw = get(from, e2, line * static_cast<std::size_t>(depth) + k);
            if (r.k.bits == 32) raw &= 0xFFFFE000U;  // tf32 keeps 10 bits
            return decode(e2, raw);
          };
          sum += (r.negate_a ? -1 : 1) * (r.negate_b ? -1 : 1) * number(a, ea, i) * number(b, eb, j);
          largest = std::max(largest, std::abs(sum));
          // Saturation is that of each instruction.
          if (r.saturate && (k + 1) % static_cast<std::size_t>(step_depth) == 0) sum = std::min(2147483647.0, std::max(-2147483648.0, sum));
        }
        if (integers && !r.saturate) sum = static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(sum)));
        e.values.push_back(sum);
      }
    // f16 and fp8 keep few bits; the comparison of two machines is the sharp one.
    if (!integers) e.absolute = largest * (halves ? 0x1p-8 : r.k.bits == 8 ? 0x1p-9 : 0x1p-18) + 1e-6;
    s.expected.push_back(std::move(e));
  }
  return s;
}

struct mma_kind { const char* text; int a, b, c; element ea, eb, ec; };

/// mma.sync on registers as they come: 128 threads, 16 CTAs.
sample mma(const mma_kind& k, draw fill, std::uint64_t seed) {
  generator g(seed);
  sample s;
  s.name = cat("mma.sync ", k.text, fill == draw::moderate ? "" : fill == draw::mixed ? " specials" : " spread", " #", seed);
  s.from = quota::products;
  constexpr std::size_t threads = 128 * 4;
  const bool wide = k.ec == element::f64;
  const auto words = [&](int registers, element e) { return draw_many(g, e, threads * static_cast<std::size_t>(registers) * (wide ? 8 : 4) / static_cast<std::size_t>(width(e)), fill); };
  const bytes a = words(k.a, k.ea), b = words(k.b, k.eb), c = words(k.c, k.ec);
  s.memories = {{"a", a, false, k.ea}, {"b", b, false, k.eb}, {"c", c, false, k.ec}, {"d", unwritten(c.size()), true, k.ec, 0, 0, wide}};
  s.arguments = {place{0, 0}, place{1, 0}, place{2, 0}, place{3, 0}};
  s.grid = {4, 1, 1};
  std::string body = "mad.lo.u32 %r2, %r1, 128, %r0;\n";
  const char* const type = wide ? "b64" : "b32";
  const std::string r = wide ? "%fd" : "%r";
  int next = 10 - (wide ? 10 : 0);
  std::string lists[4];
  const int counts[4] = {k.a, k.b, k.c, k.c};
  const int d_first = next + k.a + k.b + k.c;
  for (int which = 0; which < 3; ++which) {
    static const char* const names[] = {"p_a", "p_b", "p_c"};
    body += cat("ld.param.u64 %l1, [", names[which], "]; mul.wide.u32 %l2, %r2, ", counts[which] * (wide ? 8 : 4), "; add.u64 %l1, %l1, %l2;\n");
    for (int i = 0; i < counts[which]; ++i) {
      body += cat("ld.global.", type, " ", r, next, ", [%l1+", i * (wide ? 8 : 4), "];\n");
      lists[which] += cat(i ? ", " : "", r, next++);
    }
  }
  for (int i = 0; i < k.c; ++i) lists[3] += cat(i ? ", " : "", r, d_first + i);
  body += cat("mma.sync.aligned.", k.text, " {", lists[3], "}, {", lists[0], "}, {", lists[1], "}, {", lists[2], "};\n", "ld.param.u64 %l1, [p_d]; mul.wide.u32 %l2, %r2, ", k.c * (wide ? 8 : 4), "; add.u64 %l1, %l1, %l2;\n");
  for (int i = 0; i < k.c; ++i) body += cat("st.global.", type, " [%l1+", i * (wide ? 8 : 4), "], ", r, d_first + i, ";\n");
  s.ptx = ptx_kernel(".param .u64 p_a, .param .u64 p_b, .param .u64 p_c, .param .u64 p_d", body);
  return s;
}

}  // namespace

void add_products(std::vector<entry>& to) {
  std::uint64_t seed = 20000;
  const auto put = [&](recipe r) {
    ++seed;
    if (population_target() != "sm_90a") return;
    to.push_back({cat("wgmma ", seed), quota::products, [r, seed] { return wgmma(r, seed); }});
  };
  for (const kind& k : kinds()) {
    const bool integers = k.ed == element::s32;
    // Shapes and swizzles with moderate values, then what accumulation does to wide spreads and specials.
    put({.k = k, .n = 8, .swizzle = 128, .fill = integers ? draw::bits : draw::moderate});
    put({.k = k, .n = 96, .swizzle = 64, .a_registers = true, .use_c = true, .fill = integers ? draw::bits : draw::moderate});
    put({.k = k, .n = 256, .swizzle = 32, .use_c = true, .fill = integers ? draw::bits : draw::spread});
    put({.k = k, .n = 64, .swizzle = 0, .negate_a = !integers, .use_c = true, .fill = integers ? draw::bits : draw::mixed});
    if (integers && k.bits == 8) put({.k = k, .n = 32, .swizzle = 128, .use_c = true, .saturate = true, .fill = draw::bits});
    if (integers) continue;
    put({.k = k, .n = 64, .swizzle = 128, .negate_b = true, .use_c = true, .fill = draw::spread});
    put({.k = k, .n = 64, .swizzle = 64, .use_c = false, .fill = draw::tame});
    put({.k = k, .n = 32, .swizzle = 32, .a_registers = true, .use_c = true, .fill = draw::bits});
    put({.k = k, .n = 128, .swizzle = 128, .use_c = true, .fill = draw::moderate});
  }
  for (const int swizzle : {0, 32, 64, 128})
    for (const int both : {1, 2, 3}) put({.k = kinds()[both == 2 ? 0 : 2], .n = swizzle == 64 ? 128 : swizzle == 32 ? 48 : 64, .swizzle = swizzle, .a_transposed = (both & 1) != 0, .b_transposed = (both & 2) != 0});
  put({.k = kinds()[2], .n = 64, .swizzle = 128, .a_registers = true, .b_transposed = true, .use_c = true});
  for (const int n : {16, 24, 40, 120, 136, 200, 248}) put({.k = kinds()[2], .n = n, .swizzle = 128, .use_c = n % 16 == 0});

  using enum element;
  for (const mma_kind& k : {mma_kind{"m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4, f16, f16, f32}, {"m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2, f16, f16, f16}, {"m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4, f16, f16, f32},
                            {"m16n8k8.row.col.f16.f16.f16.f16", 2, 1, 2, f16, f16, f16}, {"m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4, bf16, bf16, f32}, {"m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 4, bf16, bf16, f32},
                            {"m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4, f32, f32, f32}, {"m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1, 4, f32, f32, f32}, {"m16n8k32.row.col.f32.e4m3.e5m2.f32", 4, 2, 4, e4m3, e5m2, f32},
                            {"m16n8k32.row.col.f32.e5m2.e4m3.f32", 4, 2, 4, e5m2, e4m3, f32}, {"m8n8k4.row.col.f64.f64.f64.f64", 1, 1, 2, f64, f64, f64}, {"m16n8k8.row.col.f64.f64.f64.f64", 4, 2, 4, f64, f64, f64}})
    for (const draw fill : {draw::moderate, draw::mixed, draw::spread}) ++seed, to.push_back({cat("mma.sync ", seed), quota::products, [k, fill, seed] { return mma(k, fill, seed); }});
  for (const mma_kind& k : {mma_kind{"m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4, s8, s8, s32}, {"m16n8k32.row.col.satfinite.s32.u8.s8.s32", 4, 2, 4, u8, s8, s32}, {"m16n8k16.row.col.s32.u8.u8.s32", 2, 1, 4, u8, u8, s32}, {"m8n8k16.row.col.s32.s8.s8.s32", 1, 1, 2, s8, s8, s32}})
    ++seed, to.push_back({cat("mma.sync ", seed), quota::products, [k, seed] { return mma(k, draw::bits, seed); }});
  for (const mma_kind& k : {mma_kind{"m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 2, 4, e4m3, e4m3, f32}, {"m16n8k32.row.col.f32.e5m2.e5m2.f32", 4, 2, 4, e5m2, e5m2, f32}, {"m16n8k16.row.col.f32.e4m3.e5m2.f32", 2, 1, 4, e4m3, e5m2, f32},
                            {"m16n8k32.row.col.f16.e4m3.e5m2.f16", 4, 2, 2, e4m3, e5m2, f16}, {"m16n8k16.row.col.f16.e4m3.e4m3.f16", 2, 1, 2, e4m3, e4m3, f16}})
    for (const draw fill : {draw::moderate, draw::mixed, draw::spread}) ++seed, to.push_back({cat("mma.sync ", seed), quota::products, [k, fill, seed] { return mma(k, fill, seed); }});
}

}  // namespace tlx::compare
