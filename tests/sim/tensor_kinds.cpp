// tcgen05.mma of every dense kind, by one CTA and by a pair, A from shared and from tensor memory, with block scales, shifted rows, masked lanes and columns, against plain
// loops on small numbers that every type holds exactly.
#include <doctest/doctest.h>

#include <random>

#include "sim/units/formats.hpp"
#include "support.hpp"

using namespace sim_test;
using tlx::sim::number;

namespace {

struct product {
  std::string kind = "f16";
  number a = number::bf16, b = number::bf16, d = number::f32;
  int m = 128, n = 64, pair = 1;
  bool a_in_tensor_memory = false, weight_stationary = false, shift = false, accumulate = false, negate_a = false;
  int d_shift = 0;
  std::uint32_t disabled = 0;          // every 32-bit word of the disable-output-lane mask; 0: none
  std::uint64_t zero_columns = 0;      // .ws mask descriptor; 0: none
  int scale_block = 0;                 // 16 or 32
  number scale = number::ue8m0;
  int scale_id = 0;
  std::uint64_t seed = 1;
};

bool packed4(const product& p) { return p.kind == "mxf4" || p.kind == "mxf4nvf4"; }
int depth(const product& p) { return packed4(p) ? 64 : tlx::sim::bits_of(p.a) == 16 ? 16 : tlx::sim::bits_of(p.a) == 32 ? 8 : 32; }
std::uint32_t encoded(number t, int v) {
  if (tlx::sim::is_integer(t)) return static_cast<std::uint32_t>(v) & 0xFFU;
  return t == number::tf32 ? bits(static_cast<float>(v)) : tlx::sim::narrow(t, static_cast<float>(v));
}
std::uint32_t type_code(const product& p, number t) {
  if (p.kind == "f16") return t == number::f16 ? 0 : 1;
  if (p.kind == "tf32") return 2;
  if (p.kind == "i8") return t == number::u8 ? 0 : 1;
  if (packed4(p)) return 1;
  return t == number::e4m3 ? 0 : t == number::e5m2 ? 1 : t == number::e2m3 ? 3 : t == number::e3m2 ? 4 : 5;
}
std::uint32_t instruction_word(const product& p) {
  std::uint32_t w = type_code(p, p.a) << 7 | type_code(p, p.b) << 10 | static_cast<std::uint32_t>(p.negate_a) << 13 | static_cast<std::uint32_t>(p.n / 8) << 17;
  if (p.scale_block) return w | static_cast<std::uint32_t>(p.scale_id) << 4 | (p.scale == number::ue8m0 ? 1U << 23 : 0U) | static_cast<std::uint32_t>(p.m / 128) << 27 | static_cast<std::uint32_t>(p.scale_id) << 29;
  return w | (p.d == number::f32 ? 1U : p.d == number::s32 ? 2U : 0U) << 4 | static_cast<std::uint32_t>(p.m / 16) << 24;
}

/// Row r, 32 bytes along K: K-major without swizzle, 8 rows of 16 bytes together, the second 16 bytes 128 further, row groups 256.
void put(std::vector<std::uint32_t>& words, const product& p, number t, int row, int k, int v, bool tensor) {
  const int width = tlx::sim::bits_of(t);
  const bool padded = width < 8 && !packed4(p);
  int bit = padded ? k / 16 * 128 + k % 16 * width : k * width;
  std::uint32_t code = encoded(t, v);
  if (tensor) { if (padded) { bit = 8 * k; code <<= width == 4 ? 2 : 0; } words[static_cast<std::size_t>(row * 8 + bit / 32)] |= code << (bit % 32); return; }
  const int byte = bit / 8;
  for (int b = 0; b < width + bit % 8; b += 8) {  // an element may lie across bytes
    const int at = byte + b / 8, place = row / 8 * 256 + at / 16 * 128 + row % 8 * 16 + at % 16;
    words[static_cast<std::size_t>(place / 4)] |= ((code << (bit % 8)) >> b & 0xFFU) << (8 * (place % 4));
  }
}

struct numbers { std::vector<int> a, b; std::vector<float> scale_a, scale_b; std::vector<std::uint32_t> out; };

numbers run_product(const product& p) {
  numbers x;
  const int k = depth(p), rows = p.m / p.pair, columns = p.n / p.pair, per_row = p.scale_block ? k / p.scale_block : 0;
  std::mt19937 random(static_cast<unsigned>(p.m + p.n + k));
  const auto fill = [&](std::vector<int>& to, int count, number t) { for (int i = 0; i < count; ++i) to.push_back(static_cast<int>(random() % 4) - (t == number::u8 ? 0 : 2)); };
  fill(x.a, p.m * k, p.a);
  fill(x.b, p.n * k, p.b);
  const auto scales = [&](std::vector<float>& to, int count) { for (int i = 0; i < count; ++i) to.push_back(p.scale == number::ue8m0 ? std::ldexp(1.0F, static_cast<int>(random() % 4)) : static_cast<float>(1 + random() % 3)); };
  scales(x.scale_a, p.m * per_row);
  scales(x.scale_b, p.n * per_row);
  // Per CTA: image of A (rows x 8 words), of B, A for tensor memory (128 lanes x 8), scales (128 lanes x 8: four columns of A, four of B).
  const int wa = rows * 8, wb = columns * 8, total = wa + wb + 128 * 8 + 128 * 8;
  std::vector<std::uint32_t> in;
  for (int c = 0; c < p.pair; ++c) {
    std::vector<std::uint32_t> ia(static_cast<std::size_t>(wa)), ib(static_cast<std::size_t>(wb)), it(128 * 8), is(128 * 8);
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < k; ++j) {
        const int v = x.a[static_cast<std::size_t>((c * rows + r) * k + j)];
        put(ia, p, p.a, r, j, v, false);
        put(it, p, p.a, r, j, v, true);
        if (p.pair == 2 && p.m == 128) put(it, p, p.a, r + 64, j, v, true);  // both lane halves hold the 64 rows
      }
    for (int r = 0; r < columns; ++r) for (int j = 0; j < k; ++j) put(ib, p, p.b, r, j, x.b[static_cast<std::size_t>((c * columns + r) * k + j)], false);
    for (int lane = 0; lane < 128; ++lane)
      for (int column = 0; column < 4; ++column) {
        const int ra = column * 32 + lane % 32, rb = p.pair == 2 && p.m == 128 ? lane / 64 * (p.n / 2) + column * 32 + lane % 32 : ra;
        for (int j = 0; j < per_row; ++j) {
          if (ra < rows) is[static_cast<std::size_t>(lane * 8 + column)] |= tlx::sim::narrow(p.scale, x.scale_a[static_cast<std::size_t>((c * rows + ra) * per_row + j)]) << (8 * (p.scale_id + j));
          if (rb < p.n) is[static_cast<std::size_t>(lane * 8 + 4 + column)] |= tlx::sim::narrow(p.scale, x.scale_b[static_cast<std::size_t>(rb * per_row + j)]) << (8 * (p.scale_id + j));
        }
      }
    for (const auto* part : {&ia, &ib, &it, &is}) in.insert(in.end(), part->begin(), part->end());
  }
  const std::string g = std::to_string(p.pair), image = std::to_string(wa + wb);
  std::string operands = "[%r20], " + std::string(p.a_in_tensor_memory ? "[%r21]" : "%rd6") + ", %rd7, %r24, ", words;
  if (p.scale_block) operands += "[%r22], [%r23], ";
  if (p.disabled) { words = "mov.b32 %r30, " + std::to_string(p.disabled) + ";"; operands += p.pair == 2 ? "{%r30, %r30, %r30, %r30, %r30, %r30, %r30, %r30}, " : "{%r30, %r30, %r30, %r30}, "; }
  operands += "%p5";
  if (p.d_shift) operands += ", " + std::to_string(p.d_shift);
  if (p.zero_columns) { words += "mov.b64 %rd9, " + std::to_string(p.zero_columns) + ";"; operands += ", %rd9"; }
  const std::string opcode = "tcgen05.mma" + std::string(p.weight_stationary ? ".ws" : "") + ".cta_group::" + g + ".kind::" + p.kind + (p.scale_block ? ".block_scale" : "") + (p.kind == "mxf4nvf4" ? ".block" + std::to_string(p.scale_block) : "") + (p.shift ? ".ashift" : "");
  const std::string body = ".shared .align 128 .b8 x[" + std::to_string(4 * (wa + wb)) + R"(]; .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;
    mov.u32 %r1, %cluster_ctarank; mul.lo.u32 %r2, %r1, )" + std::to_string(4 * total) + R"(; cvt.u64.u32 %rd3, %r2; add.s64 %rd3, %rd1, %rd3; mov.u32 %r3, x;
    setp.lt.u32 %p1, %r0, 32; setp.eq.u32 %p2, %r0, 0; setp.eq.u32 %p3, %r1, 0; and.pred %p4, %p2, %p3; mov.u32 %r4, %r0;
    L: setp.ge.u32 %p6, %r4, )" + image + R"(; @%p6 bra D; mul.wide.u32 %rd4, %r4, 4; add.s64 %rd4, %rd3, %rd4; ld.global.u32 %r5, [%rd4]; mad.lo.u32 %r6, %r4, 4, %r3; st.shared.u32 [%r6], %r5; add.u32 %r4, %r4, 128; bra L; D:
    fence.proxy.async.shared::cta; @%p2 mbarrier.init.shared.b64 [bar], 1; @%p2 fence.mbarrier_init.release.cluster; mov.u32 %r7, slot;
    @%p1 tcgen05.alloc.cta_group::)" + g + R"(.sync.aligned.shared::cta.b32 [%r7], 128; @%p1 tcgen05.relinquish_alloc_permit.cta_group::)" + g + R"(.sync.aligned;
    bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared.u32 %r20, [slot]; add.u32 %r21, %r20, 64; add.u32 %r22, %r20, 96; add.u32 %r23, %r20, 100;
    shr.u32 %r8, %r0, 5; shl.b32 %r8, %r8, 21; add.u32 %r9, %r8, %r20; mul.wide.u32 %rd5, %r0, 32; add.s64 %rd5, %rd3, %rd5; add.u32 %r26, %r8, %r21; add.u32 %r27, %r8, %r22;
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd5+)" + std::to_string(4 * (wa + wb)) + "]; ld.global.v4.u32 {%r14, %r15, %r16, %r17}, [%rd5+" + std::to_string(4 * (wa + wb) + 16) + R"(];
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r26], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd5+)" + std::to_string(4 * (wa + wb) + 4096) + "]; ld.global.v4.u32 {%r14, %r15, %r16, %r17}, [%rd5+" + std::to_string(4 * (wa + wb) + 4112) + R"(];
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r27], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17};
    mov.u32 %r28, 0; E: add.u32 %r29, %r9, %r28; mov.b32 %r10, )" + std::string(p.d == number::s32 ? "80" : p.d == number::f16 ? "0x5500" : "0f42A00000") + R"(; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r29], {%r10}; add.u32 %r28, %r28, 1; setp.lt.u32 %p7, %r28, 64; @%p7 bra E;
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; tcgen05.fence::after_thread_sync;
    shr.u32 %r11, %r3, 4; cvt.u64.u32 %rd6, %r11; or.b64 %rd6, %rd6, 0x0000401000080000; add.u64 %rd7, %rd6, )" + std::to_string(wa / 4) + "; and.b64 %rd6, %rd6, 0xFFFFFFFFFFFF3FFF; and.b64 %rd7, %rd7, 0xFFFFFFFFFFFF3FFF; mov.u32 %r24, " + std::to_string(instruction_word(p)) + "; setp.ne.u32 %p5, " + (p.accumulate ? "1" : "0") + ", 0; mov.u32 %r13, bar; mov.u16 %rs2, 3; " + words + "\n@%p4 " + opcode + " " + operands + ";\n@%p4 tcgen05.commit.cta_group::" + g + (p.pair == 2 ? ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r13], %rs2;" : ".mbarrier::arrive::one.shared::cluster.b64 [%r13];") + R"(
    W: mbarrier.try_wait.parity.shared.b64 %p6, [bar], 0; @!%p6 bra W; tcgen05.fence::after_thread_sync;
    mad.lo.u32 %r12, %r1, 128, %r0; mul.wide.u32 %rd8, %r12, 256; add.s64 %rd8, %rd2, %rd8; mov.u32 %r28, 0;
    R: add.u32 %r29, %r9, %r28; tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r14, %r15, %r16, %r17}, [%r29]; tcgen05.wait::ld.sync.aligned; st.global.v4.b32 [%rd8], {%r14, %r15, %r16, %r17}; add.s64 %rd8, %rd8, 16; add.u32 %r28, %r28, 4; setp.lt.u32 %p7, %r28, 64; @%p7 bra R;
    bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p1 tcgen05.dealloc.cta_group::)" + g + ".sync.aligned.b32 %r20, 128;";
  setup s;
  s.target = "sm_100a";
  s.threads = 128;
  s.grid = s.cluster = static_cast<unsigned>(p.pair);
  s.out_words = static_cast<std::size_t>(128 * 64 * p.pair);
  s.seed = p.seed;
  x.out = run(body, in, s);
  return x;
}

std::vector<int> zero_of(std::uint64_t mask, int n) {
  // M 128: one run after the other, ones skip + 1 long, zeros use + 1, from the first-span value on; the first `start` bits are dropped.
  std::vector<int> bits_out;
  bool one = mask >> 32 & 1U;
  while (static_cast<int>(bits_out.size()) < n + 256) { const int length = static_cast<int>(mask >> (one ? 40 : 48) & 0xFFU) + 1; bits_out.insert(bits_out.end(), static_cast<std::size_t>(length), one); one = !one; }
  return {bits_out.begin() + static_cast<int>(mask & 0xFFU), bits_out.begin() + static_cast<int>(mask & 0xFFU) + n};
}

void check(const product& p) {
  const numbers x = run_product(p);
  const int k = depth(p), per_row = p.scale_block ? k / p.scale_block : 0;
  const std::vector<int> zero = p.zero_columns ? zero_of(p.zero_columns, p.n) : std::vector<int>(static_cast<std::size_t>(p.n), 0);
  int wrong = 0;
  for (int m = 0; m < p.m; ++m)
    for (int n = 0; n < p.n; ++n) {
      int cta = 0, lane = m, column = n;
      if (p.pair == 2 && p.m == 256) { cta = m / 128; lane = m % 128; }
      else if (p.pair == 2) { cta = m / 64; lane = m % 64 + (n >= p.n / 2 ? 64 : 0); column = n % (p.n / 2); }
      else if (p.m == 64 && p.weight_stationary) { lane = m + (n >= p.n / 2 ? 64 : 0); column = n % (p.n / 2); }
      else if (p.m == 64) lane = m % 16 + 32 * (m / 16);
      else if (p.m == 32) { lane = m + 32 * (n / (p.n / 4)); column = n % (p.n / 4); }
      // .ashift: rows of one CTA take the next one, but for the last.
      const int rows = p.m / p.pair, from = p.shift && m % rows != rows - 1 ? m + 1 : m;
      double sum = 0;
      for (int j = 0; j < k && !zero[static_cast<std::size_t>(n)]; ++j) {
        double v = x.a[static_cast<std::size_t>(from * k + j)] * x.b[static_cast<std::size_t>(n * k + j)];
        if (per_row) v *= static_cast<double>(x.scale_a[static_cast<std::size_t>(m * per_row + j / p.scale_block)]) * static_cast<double>(x.scale_b[static_cast<std::size_t>(n * per_row + j / p.scale_block)]);
        sum += p.negate_a ? -v : v;
      }
      if (p.accumulate) sum += std::ldexp(80.0, -p.d_shift);
      if (p.disabled && p.disabled >> (lane % 32) & 1U) sum = 80;
      const std::uint32_t w = x.out[static_cast<std::size_t>((cta * 128 + lane) * 64 + column)];
      const double got = p.d == number::s32 ? static_cast<std::int32_t>(w) : p.d == number::f16 ? static_cast<double>(tlx::sim::widen(number::f16, w & 0xFFFFU)) : static_cast<double>(real(w));
      if (got != sum && ++wrong < 4) { INFO(p.kind << " " << tlx::sim::to_string(p.a) << " x " << tlx::sim::to_string(p.b) << " m" << p.m << " pair " << p.pair << " row " << m << " column " << n); CHECK(got == sum); }
    }
  INFO(p.kind << " " << tlx::sim::to_string(p.a) << " x " << tlx::sim::to_string(p.b) << " m" << p.m << " pair " << p.pair << (p.a_in_tensor_memory ? " A in tensor memory" : ""));
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("tcgen05.mma of every dense kind and type, by one CTA and by a pair, A from shared and tensor memory") {
  std::vector<product> kinds;
  for (const number d : {number::f32, number::f16}) kinds.push_back({.kind = "f16", .a = number::f16, .b = number::f16, .d = d});
  kinds.push_back({.kind = "f16"});
  kinds.push_back({.kind = "tf32", .a = number::tf32, .b = number::tf32});
  const number narrow[] = {number::e4m3, number::e5m2, number::e2m3, number::e3m2, number::e2m1};
  for (int i = 0; i < 5; ++i) for (int j = 0; j < 5; j += i == 0 ? 1 : 4) kinds.push_back({.kind = "f8f6f4", .a = narrow[i], .b = narrow[j], .d = (i + j) % 2 ? number::f32 : number::f16});
  for (const number a : {number::s8, number::u8}) for (const number b : {number::s8, number::u8}) kinds.push_back({.kind = "i8", .a = a, .b = b, .d = number::s32});
  for (const product& base : kinds)
    for (const auto& [pair, m] : {std::pair{1, 128}, std::pair{1, 64}, std::pair{2, 256}, std::pair{2, 128}})
      for (const bool tensor : {false, true}) {
        if (tensor && m == 64) continue;
        product p = base;
        p.pair = pair;
        p.m = m;
        p.a_in_tensor_memory = tensor;
        p.accumulate = tensor;
        check(p);
      }
}

TEST_CASE("block-scaled kinds multiply each block by the scales of its row and column") {
  for (const auto& [pair, m] : {std::pair{1, 128}, std::pair{2, 256}, std::pair{2, 128}}) {
    for (int id = 0; id < 4; ++id) check({.kind = "mxf8f6f4", .a = number::e4m3, .b = id % 2 ? number::e2m1 : number::e5m2, .m = m, .pair = pair, .scale_block = 32, .scale_id = id});
    check({.kind = "mxf8f6f4", .a = number::e3m2, .b = number::e2m3, .m = m, .pair = pair, .a_in_tensor_memory = true, .accumulate = true, .scale_block = 32});
    for (const int id : {0, 2}) check({.kind = "mxf4", .a = number::e2m1, .b = number::e2m1, .m = m, .pair = pair, .scale_block = 32, .scale_id = id});
    check({.kind = "mxf4nvf4", .a = number::e2m1, .b = number::e2m1, .m = m, .pair = pair, .scale_block = 32});
    for (const number scale : {number::ue8m0, number::ue4m3}) check({.kind = "mxf4nvf4", .a = number::e2m1, .b = number::e2m1, .m = m, .pair = pair, .scale_block = 16, .scale = scale});
    check({.kind = "mxf4nvf4", .a = number::e2m1, .b = number::e2m1, .m = m, .pair = pair, .a_in_tensor_memory = true, .scale_block = 16, .scale = number::ue4m3});
  }
}

TEST_CASE("shifted rows, masked lanes, scaled accumulators and negation") {
  for (const auto& [pair, m] : {std::pair{1, 128}, std::pair{2, 256}}) {
    check({.m = m, .pair = pair, .a_in_tensor_memory = true, .shift = true});
    check({.kind = "tf32", .a = number::tf32, .b = number::tf32, .m = m, .pair = pair, .a_in_tensor_memory = true, .shift = true, .accumulate = true});
    check({.m = m, .pair = pair, .accumulate = true, .disabled = 0x80000F0F});
    check({.m = m, .pair = pair, .accumulate = true, .d_shift = 3});
    check({.m = m, .pair = pair, .accumulate = true, .negate_a = true});
  }
  CHECK(id_of([&] { run_product({.m = 64, .a_in_tensor_memory = true, .shift = true}); }) == "illegal-shape");
}

TEST_CASE(".ws: its layouts, and columns of B that count as zero") {
  for (const int m : {32, 64, 128}) {
    check({.m = m, .weight_stationary = true});
    check({.kind = "i8", .a = number::s8, .b = number::u8, .d = number::s32, .m = m, .weight_stationary = true, .accumulate = true});
  }
  const std::uint64_t on = std::uint64_t{1} << 39;
  // Skip 2, use 3, first value 0: 0000 111 0000 111 from bit 0. Then one that starts with ones, and one that drops its first five.
  check({.weight_stationary = true, .zero_columns = on | std::uint64_t{2} << 40 | std::uint64_t{3} << 48});
  check({.weight_stationary = true, .zero_columns = on | std::uint64_t{1} << 32 | std::uint64_t{7} << 40 | std::uint64_t{0} << 48});
  check({.weight_stationary = true, .accumulate = true, .zero_columns = on | 5 | std::uint64_t{2} << 40 | std::uint64_t{3} << 48});
}
