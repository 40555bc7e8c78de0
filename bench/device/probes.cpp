// Every kernel has one frame: operands from the input into shared memory, tensor memory allocated and filled with a pattern that names lane and column, the
// question, then columns of tensor memory to the output. Waits give up after a while: a rule that is otherwise must not hang the machine.
#include "bench/device/probes.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "tlx/support/text.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::bench {

namespace {

using words = std::vector<std::int64_t>;

constexpr std::uint32_t pattern(unsigned cta, unsigned lane, unsigned column) { return 0xC0000000U | cta << 24 | lane << 12 | column; }

struct frame {
  unsigned ctas = 1;
  std::size_t image_bytes = 0;    // of each CTA, rank after rank in the input
  int filled = 64;                // columns filled with the pattern
  std::string issue;              // by one thread of CTA 0; %r10: tensor memory, %l20 %l21 ...: descriptors made by `setup`
  std::string setup;              // by every thread, before `issue`
  std::string after;              // by every thread, instead of reading columns
  int first = 0, columns = 8;     // read from every lane
  bool commits = true;
};

std::size_t output_words(const frame& f) { return static_cast<std::size_t>(f.ctas) * (128 * static_cast<std::size_t>(f.columns) + 1); }

const char* label_of(int n) {
  static const char* const names[] = {"W0", "W1", "W2", "W3"};
  return names[n];
}

/// %r60 becomes 1 when the phase of parity 0 completes, 2 when it does not for long.
std::string patient_wait(const std::string& barrier, int n, const std::string& parity = "0") {
  const std::string l = label_of(n);
  return cat("mov.u32 %r60, 2; mov.u32 %r61, 0;\n", l, ": mbarrier.try_wait.parity.shared::cta.b64 %p15, [", barrier, "], ", parity, "; @%p15 mov.u32 %r60, 1; @%p15 bra ", l, "E; add.u32 %r61, %r61, 1; setp.lt.u32 %p14, %r61, 2000; @%p14 bra ", l, ";\n", l, "E:\n");
}

std::string module_text(const std::string& body, const std::string& parameters = ".param .u64 p_in, .param .u64 p_out") {
  return cat(".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k(", parameters, ") .maxntid 128\n{\n.reg .pred %p<16>; .reg .b16 %h<32>; .reg .b32 %r<256>; .reg .b64 %l<64>;\nmov.u32 %r0, %tid.x; mov.u32 %r2, %cluster_ctarank;\n", body, "\nret;\n}\n");
}

/// Shared matrix descriptor fields for rows of `row_bytes` bytes along K, without swizzle: cores of 8 rows x 16 bytes, K first.
std::uint64_t fields(std::size_t row_bytes) { return std::uint64_t{1} << 46 | static_cast<std::uint64_t>(row_bytes / 16 * 128 / 16) << 32 | std::uint64_t{128 / 16} << 16; }
std::size_t place_in_image(std::size_t row_bytes, std::size_t row, std::size_t at) { return row / 8 * (row_bytes / 16 * 128) + at / 16 * 128 + row % 8 * 16 + at % 16; }
/// Register %lN becomes the descriptor of shared byte `offset` of `data`.
std::string make_descriptor(int n, std::size_t offset, std::size_t row_bytes) {
  return cat("mov.u32 %r62, data; add.u32 %r62, %r62, ", offset, "; and.b32 %r62, %r62, 0x3FFFF; shr.u32 %r62, %r62, 4; cvt.u64.u32 %l", n, ", %r62; or.b64 %l", n, ", %l", n, ", ", fields(row_bytes), ";\n");
}

std::string text_of(const frame& f) {
  const std::string group = f.ctas == 2 ? "2" : "1";
  const std::string meet = f.ctas == 2 ? "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" : "bar.sync 0;\n";
  std::string body = cat(".shared .align 1024 .b8 data[", std::max<std::size_t>(16, f.image_bytes), "]; .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;\n",
                         "ld.param.u64 %l1, [p_in]; ld.param.u64 %l2, [p_out]; mov.u32 %r3, data; shr.u32 %r4, %r0, 5; setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r4, 0;\n");
  if (f.image_bytes)
    body += cat("mul.lo.u32 %r5, %r0, 4; mul.lo.u32 %r6, %r2, ", f.image_bytes, ";\nCOPY: setp.ge.u32 %p2, %r5, ", f.image_bytes, "; @%p2 bra COPIED; add.u32 %r7, %r5, %r6; cvt.u64.u32 %l3, %r7; add.u64 %l3, %l1, %l3; ld.global.u32 %r8, [%l3]; add.u32 %r9, %r3, %r5; st.shared.u32 [%r9], %r8; add.u32 %r5, %r5, 512; bra COPY;\nCOPIED:\n");
  body += cat("fence.proxy.async.shared::cta; @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 fence.mbarrier_init.release.cluster;\n", f.ctas == 2 ? meet : "", "mov.u32 %r7, slot; @%p1 tcgen05.alloc.cta_group::", group, ".sync.aligned.shared::cta.b32 [%r7], 512;\nbar.sync 0;\n",
              "ld.shared.u32 %r10, [slot]; shl.b32 %r11, %r4, 21; add.u32 %r11, %r11, %r10;\n");
  if (f.filled)
    body += cat("mov.u32 %r12, 0; shl.b32 %r13, %r0, 12; shl.b32 %r14, %r2, 24; or.b32 %r13, %r13, %r14; or.b32 %r13, %r13, 0xC0000000;\nFILL: add.u32 %r14, %r13, %r12; add.u32 %r15, %r11, %r12; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r15], {%r14}; add.u32 %r12, %r12, 1; setp.lt.u32 %p3, %r12, ", f.filled,
                "; @%p3 bra FILL;\ntcgen05.wait::st.sync.aligned;\n");
  body += f.setup;
  body += cat("tcgen05.fence::before_thread_sync;\n", meet, "tcgen05.fence::after_thread_sync;\nmov.u32 %r60, 1; setp.eq.u32 %p4, %r2, 0; and.pred %p5, %p0, %p4; mov.u32 %r16, bar; mov.u16 %h1, ", (1U << f.ctas) - 1, ";\n");
  if (!f.issue.empty()) {
    body += cat("@!%p5 bra ISSUED;\n", f.issue);
    if (f.commits) body += f.ctas == 2 ? "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r16], %h1;\n" : "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r16];\n";
    body += "ISSUED: bar.warp.sync -1;\n";
    if (f.commits) body += patient_wait("bar", 0);
    body += "bar.warp.sync -1; tcgen05.fence::after_thread_sync;\n";
  }
  if (f.after.empty()) {
    body += cat("mad.lo.u32 %r20, %r2, 128, %r0; mul.wide.u32 %l4, %r20, ", f.columns * 4, "; add.u64 %l4, %l2, %l4; mov.u32 %r21, 0;\nREAD: add.u32 %r22, %r11, %r21; add.u32 %r22, %r22, ", f.first, "; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r23}, [%r22]; tcgen05.wait::ld.sync.aligned; st.global.u32 [%l4], %r23; add.u64 %l4, %l4, 4; add.u32 %r21, %r21, 1; setp.lt.u32 %p6, %r21, ",
                f.columns, "; @%p6 bra READ;\n");
  } else {
    body += f.after;
  }
  // The last word of each CTA says whether the wait ended well.
  body += cat("mul.wide.u32 %l5, %r2, 4; add.u64 %l5, %l5, %l2; @%p0 st.global.u32 [%l5+", f.ctas * 128 * static_cast<unsigned>(f.columns) * 4, "], %r60;\n", "tcgen05.fence::before_thread_sync;\n", meet, "tcgen05.fence::after_thread_sync;\n@%p1 tcgen05.relinquish_alloc_permit.cta_group::", group,
              ".sync.aligned;\n@%p1 tcgen05.dealloc.cta_group::", group, ".sync.aligned.b32 %r10, 512;\n");
  return module_text(body);
}

/// The whole output from one function of (CTA, lane, column index) and a completed wait.
words all_of(const frame& f, const std::function<std::int64_t(unsigned cta, unsigned lane, unsigned column)>& at) {
  words w;
  for (unsigned c = 0; c < f.ctas; ++c)
    for (unsigned lane = 0; lane < 128; ++lane)
      for (unsigned k = 0; k < static_cast<unsigned>(f.columns); ++k) w.push_back(at(c, lane, k));
  for (unsigned c = 0; c < f.ctas; ++c) w.push_back(1);
  return w;
}

probe from_frame(std::string id, std::string question, const frame& f, std::vector<std::uint32_t> input, std::vector<reading> readings, std::string otherwise) {
  return {.id = std::move(id), .question = std::move(question), .ptx = text_of(f), .ctas = f.ctas, .input = std::move(input), .output_words = output_words(f), .readings = std::move(readings), .otherwise = std::move(otherwise)};
}

std::int64_t f32_bits(double v) { return std::bit_cast<std::uint32_t>(static_cast<float>(v)); }

/// Operand bytes of one CTA at a time.
struct image {
  std::vector<std::byte> bytes;
  explicit image(std::size_t n) : bytes(n, std::byte{0}) {}
  void put(std::size_t at, const void* from, std::size_t n) { std::memcpy(bytes.data() + at, from, n); }
  void put16(std::size_t at, std::uint16_t v) { put(at, &v, 2); }
  std::vector<std::uint32_t> words32() const {
    std::vector<std::uint32_t> w(bytes.size() / 4);
    std::memcpy(w.data(), bytes.data(), w.size() * 4);
    return w;
  }
};
std::uint16_t bf16_code(double v) { return bf16(static_cast<float>(v)).code; }
std::uint16_t f16_code(double v) { return f16(static_cast<float>(v)).code; }

std::uint32_t dense_word(int m, int n, std::uint32_t a, std::uint32_t b, std::uint32_t d) { return d << 4 | a << 7 | b << 10 | static_cast<std::uint32_t>(n / 8) << 17 | static_cast<std::uint32_t>(m / 16) << 24; }

std::string mma(const std::string& kind, int group, const std::string& d, const std::string& a, const std::string& b, std::uint32_t word, bool keep = false, const std::string& more = {}) {
  return cat("mov.u32 %r63, ", word, "; setp.ne.u32 %p7, ", keep ? 1 : 0, ", 0; tcgen05.mma.cta_group::", group, ".kind::", kind, " [", d, "], ", a, ", ", b, ", %r63, ", more, "%p7;\n");
}

// ---- tensor memory by shapes

struct shape_map { const char* name; int registers; const char* text; std::function<std::pair<unsigned, unsigned>(unsigned t, unsigned r)> at; };

void add_shapes(std::vector<probe>& to) {
  const std::vector<shape_map> shapes = {
      {"16x64b.x2", 2, "tcgen05.ld.sync.aligned.16x64b.x2.b32 {%r40, %r41}, [%r11];", [](unsigned t, unsigned r) { return std::pair{8 * (t & 1) + (t >> 2), ((t >> 1) & 1) + 2 * r}; }},
      {"16x128b.x2", 4, "tcgen05.ld.sync.aligned.16x128b.x2.b32 {%r40, %r41, %r42, %r43}, [%r11];", [](unsigned t, unsigned r) { return std::pair{(t >> 2) + 8 * (r & 1), (t & 3) + 4 * (r >> 1)}; }},
      {"16x256b.x1", 4, "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r40, %r41, %r42, %r43}, [%r11];", [](unsigned t, unsigned r) { return std::pair{(t >> 2) + 8 * ((r >> 1) & 1), 2 * (t & 3) + (r & 1) + 8 * (r >> 2)}; }},
      {"16x32bx2.x2", 2, "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r40, %r41}, [%r11], 16;", [](unsigned t, unsigned r) { return std::pair{t & 15, t < 16 ? r : 16 + r}; }}};
  for (const shape_map& s : shapes) {
    frame f;
    f.columns = s.registers;
    f.after = cat(s.text, " tcgen05.wait::ld.sync.aligned; mad.lo.u32 %r20, %r2, 128, %r0; mul.wide.u32 %l4, %r20, ", s.registers * 4, "; add.u64 %l4, %l2, %l4;\n");
    for (int r = 0; r < s.registers; ++r) f.after += cat("st.global.u32 [%l4+", 4 * r, "], %r", 40 + r, ";\n");
    const auto ours = all_of(f, [&](unsigned, unsigned thread, unsigned r) {
      const auto [lane, column] = s.at(thread % 32, r);
      return std::int64_t{pattern(0, thread / 32 * 32 + lane, column)};
    });
    const auto rows = all_of(f, [&](unsigned, unsigned thread, unsigned r) { return std::int64_t{pattern(0, thread / 32 * 32 + thread % 16, thread % 32 / 16 * static_cast<unsigned>(s.registers) + r)}; });
    to.push_back(from_frame(cat("tmem-ld-", s.name), cat("which lane and column does tcgen05.ld.", s.name, " put into each thread and register"), f, {}, {{"the map of lib/sim/units/tensor_access.cpp", ours}, {"half a row to each half of the warp", rows}},
                            "accumulators that are read by this shape come out permuted: correct tile::tmem_16x256b and tensor_access.cpp"));
  }
  {
    frame f;
    f.columns = 4;
    f.after = "tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {%r40, %r41, %r42, %r43}, [%r11]; tcgen05.wait::ld.sync.aligned; mad.lo.u32 %r20, %r2, 128, %r0; mul.wide.u32 %l4, %r20, 16; add.u64 %l4, %l2, %l4; st.global.v4.u32 [%l4], {%r40, %r41, %r42, %r43};\n";
    const auto low = [](unsigned lane, unsigned column) { return pattern(0, lane, column) & 0xFFFFU; };
    to.push_back(from_frame("tmem-ld-pack", "does pack::16b take the low halves of two neighbouring columns, the even one into the low half", f, {},
                            {{"two neighbouring columns", all_of(f, [&](unsigned, unsigned l, unsigned r) { return std::int64_t{low(l, 2 * r) | low(l, 2 * r + 1) << 16}; })},
                             {"the odd column into the low half", all_of(f, [&](unsigned, unsigned l, unsigned r) { return std::int64_t{low(l, 2 * r + 1) | low(l, 2 * r) << 16}; })},
                             {"columns r and r + N", all_of(f, [&](unsigned, unsigned l, unsigned r) { return std::int64_t{low(l, r) | low(l, r + 4) << 16}; })}},
                            "reads of 16-bit accumulators are permuted"));
  }
  {
    frame f;
    f.setup = "mov.u32 %r40, 0x22221111; mov.u32 %r41, 0x44443333; tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r11], {%r40, %r41}; tcgen05.wait::st.sync.aligned;\n";
    f.columns = 5;
    const auto high = [&](int how) {
      return all_of(f, [=](unsigned, unsigned l, unsigned c) -> std::int64_t {
        if (c > 3) return pattern(0, l, c);
        const std::uint32_t low = 0x1111U * (c + 1);
        return how == 0 ? low : how == 1 ? (low | (pattern(0, l, c) & 0xFFFF0000U)) : (low | low << 16);
      });
    };
    to.push_back(from_frame("tmem-st-unpack", "what does unpack::16b leave in the high halves of the columns", f, {}, {{"zeros", high(0)}, {"what was there", high(1)}, {"the same 16 bits", high(2)}}, "only code that reads whole columns after unpack can tell; the simulator should poison or follow"));
  }
}

// ---- accumulator layouts

/// A[m][0] = m % 16 + 1, B[n][0] = n + 1 (bf16, K 16): D[m][n] is their product.
std::vector<std::uint32_t> ramp_image(unsigned ctas, int m, int n) {
  const std::size_t a_bytes = static_cast<std::size_t>(m / static_cast<int>(ctas)) * 32, b_bytes = static_cast<std::size_t>(n / static_cast<int>(ctas)) * 32;
  std::vector<std::uint32_t> all;
  for (int c = 0; c < static_cast<int>(ctas); ++c) {
    image i((a_bytes + b_bytes + 1023) / 1024 * 1024);
    for (int r = 0; r < m / static_cast<int>(ctas); ++r) i.put16(place_in_image(32, static_cast<std::size_t>(r), 0), bf16_code((c * m / static_cast<int>(ctas) + r) % 16 + 1));
    for (int r = 0; r < n / static_cast<int>(ctas); ++r) i.put16(a_bytes + place_in_image(32, static_cast<std::size_t>(r), 0), bf16_code(c * n / static_cast<int>(ctas) + r + 1));
    const auto w = i.words32();
    all.insert(all.end(), w.begin(), w.end());
  }
  return all;
}
frame ramp_frame(unsigned ctas, int m, int n, const std::string& ws = {}) {
  frame f;
  f.ctas = ctas;
  const std::size_t a_bytes = static_cast<std::size_t>(m / static_cast<int>(ctas)) * 32, b_bytes = static_cast<std::size_t>(n / static_cast<int>(ctas)) * 32;
  f.image_bytes = (a_bytes + b_bytes + 1023) / 1024 * 1024;
  f.setup = make_descriptor(20, 0, 32) + make_descriptor(21, a_bytes, 32);
  std::string text = mma("f16", static_cast<int>(ctas), "%r10", "%l20", "%l21", dense_word(m, n, 1, 1, 1));
  if (!ws.empty()) text.replace(text.find("tcgen05.mma.cta"), 15, "tcgen05.mma.ws.cta");
  f.issue = text;
  f.filled = n + 8;
  f.columns = n + 2;
  return f;
}
double product(int m, int n) { return (m % 16 + 1) * (n + 1); }
/// Where the layouts of the sources say that (m, n) is; `row_of` gives (m, n) for a place, or a negative m for none.
words by_place(const frame& f, const std::function<std::pair<int, int>(int cta, int lane, int column)>& row_of) {
  return all_of(f, [&](unsigned c, unsigned lane, unsigned column) -> std::int64_t {
    const auto [m, n] = row_of(static_cast<int>(c), static_cast<int>(lane), static_cast<int>(column));
    return m < 0 ? std::int64_t{pattern(c, lane, column)} : f32_bits(product(m, n));
  });
}

void add_layouts(std::vector<probe>& to) {
  using place = std::pair<int, int>;
  const place none{-1, 0};
  {
    const frame f = ramp_frame(1, 128, 16);
    to.push_back(from_frame("acc-m128", "is row m of M 128 in lane m, column n in column n", f, ramp_image(1, 128, 16), {{"lane m, column n", by_place(f, [&](int, int l, int c) { return c < 16 ? place{l, c} : none; })}}, "nothing about accumulators can be trusted: start here"));
  }
  {
    const frame f = ramp_frame(1, 64, 16);
    to.push_back(from_frame("acc-m64", "are the 64 rows of M 64 in the first 16 lanes of each quarter", f, ramp_image(1, 64, 16),
                            {{"lanes m % 16 + 32 (m / 16), the rest untouched", by_place(f, [&](int, int l, int c) { return c < 16 && l % 32 < 16 ? place{l % 16 + l / 32 * 16, c} : none; })},
                             {"lanes 0 to 63", by_place(f, [&](int, int l, int c) { return c < 16 && l < 64 ? place{l, c} : none; })}},
                            "tile::tmem_16x256b of 64 rows and attention with 64 rows read the wrong lanes"));
  }
  {
    const frame f = ramp_frame(1, 64, 64, "ws");
    to.push_back(from_frame("acc-m64-ws", "does .ws M 64 put the right half of the columns into lanes 64 to 127", f, ramp_image(1, 64, 64),
                            {{"lane m + 64 (n >= N/2), column n % (N/2)", by_place(f, [&](int, int l, int c) { return c < 32 ? place{l % 64, l / 64 * 32 + c} : none; })}}, "only weight-stationary kernels, which code generation does not make"));
  }
  {
    const frame f = ramp_frame(1, 32, 64, "ws");
    to.push_back(from_frame("acc-m32-ws", "does .ws M 32 put a quarter of the columns into each quarter of the lanes", f, ramp_image(1, 32, 64),
                            {{"lane m + 32 (n / (N/4)), column n % (N/4)", by_place(f, [&](int, int l, int c) { return c < 16 ? place{l % 32, l / 32 * 16 + c} : none; })}}, "only weight-stationary kernels, which code generation does not make"));
  }
  {
    const frame f = ramp_frame(2, 256, 32);
    to.push_back(from_frame("pair-m256", "does each CTA of a pair give half of the rows of A and half of the columns of B, one thread of the even CTA issuing, results in both tensor memories", f, ramp_image(2, 256, 32),
                            {{"CTA m / 128, lane m % 128, column n", by_place(f, [&](int cta, int l, int c) { return c < 32 ? place{128 * cta + l, c} : none; })},
                             {"each CTA multiplies with its own half of B only", by_place(f, [&](int cta, int l, int c) { return c < 32 ? place{128 * cta + l, cta * 16 + c % 16} : none; })}},
                            "two-CTA GEMM (cta_group::2) computes another product: the kernels that use pairs are wrong"));
  }
  {
    const frame f = ramp_frame(2, 128, 32);
    to.push_back(from_frame("pair-m128", "is M 128 of a pair split by columns between the lane halves (layout B)", f, ramp_image(2, 128, 32),
                            {{"CTA m / 64, lane m % 64 + 64 (n >= N/2), column n % (N/2)", by_place(f, [&](int cta, int l, int c) { return c < 16 ? place{64 * cta + l % 64, l / 64 * 16 + c} : none; })},
                             {"CTA m / 64, lane m % 64, column n", by_place(f, [&](int cta, int l, int c) { return c < 32 && l < 64 ? place{64 * cta + l, c} : none; })}},
                            "tile::tmem_pair_128_32x32b reads the wrong places"));
  }
  {
    frame f = ramp_frame(1, 128, 16);
    // Four words, one bit a lane: lanes whose bit is set keep what they had.
    f.issue = cat("mov.u32 %r70, 0x000000FF; mov.u32 %r71, 0; mov.u32 %r72, 0x80000001; mov.u32 %r73, 0xFFFF0000;\n", mma("f16", 1, "%r10", "%l20", "%l21", dense_word(128, 16, 1, 1, 1), false, "{%r70, %r71, %r72, %r73}, "));
    const auto disabled = [](int l) { static const std::uint32_t mask[] = {0xFFU, 0, 0x80000001U, 0xFFFF0000U}; return (mask[l / 32] >> (l % 32) & 1U) != 0; };
    to.push_back(from_frame("disable-output-lane", "does bit b of word w of disable-output-lane keep lane 32 w + b", f, ramp_image(1, 128, 16),
                            {{"set bits keep their lanes", by_place(f, [&](int, int l, int c) { return c < 16 && !disabled(l) ? place{l, c} : none; })}, {"clear bits keep their lanes", by_place(f, [&](int, int l, int c) { return c < 16 && disabled(l) ? place{l, c} : none; })}},
                            "no kernel of the library uses it"));
  }
  {
    frame f = ramp_frame(2, 256, 32);
    f.issue = cat("mov.u32 %r70, 0xFFFFFFFF; mov.u32 %r71, 0;\n", mma("f16", 2, "%r10", "%l20", "%l21", dense_word(256, 32, 1, 1, 1), false, "{%r70, %r71, %r71, %r71, %r71, %r70, %r71, %r71}, "));
    to.push_back(from_frame("disable-output-lane-pair", "are words 4 to 7 of disable-output-lane the odd CTA's", f, ramp_image(2, 256, 32),
                            {{"words 0-3 even, 4-7 odd", by_place(f, [&](int cta, int l, int c) { return c < 32 && !(cta == 0 && l < 32) && !(cta == 1 && l / 32 == 1) ? place{128 * cta + l, c} : none; })},
                             {"words alternate between the CTAs", by_place(f, [&](int cta, int l, int c) { return c < 32 && !(cta == 0 && l < 32) && !(cta == 1 && l / 32 == 2) ? place{128 * cta + l, c} : none; })}},
                            "no kernel of the library uses it"));
  }
  {  // f16 accumulators
    frame f = ramp_frame(1, 128, 16);
    std::vector<std::uint32_t> in = ramp_image(1, 128, 16);
    image i(in.size() * 4);
    for (std::size_t r = 0; r < 128; ++r) i.put16(place_in_image(32, r, 0), f16_code(static_cast<double>(r % 16) + 1));
    for (std::size_t r = 0; r < 16; ++r) i.put16(4096 + place_in_image(32, r, 0), f16_code(static_cast<double>(r) + 1));
    f.issue = mma("f16", 1, "%r10", "%l20", "%l21", dense_word(128, 16, 0, 0, 0));
    const auto with_high = [&](int how) {
      return all_of(f, [=](unsigned, unsigned l, unsigned c) -> std::int64_t {
        if (c >= 16) return pattern(0, l, c);
        const std::uint32_t low = f16_code(product(static_cast<int>(l), static_cast<int>(c)));
        return how == 0 ? low : how == 1 ? (low | (pattern(0, l, c) & 0xFFFF0000U)) : (low | low << 16);
      });
    };
    const auto packed = all_of(f, [&](unsigned, unsigned l, unsigned c) -> std::int64_t {
      if (c >= 8) return pattern(0, l, c);
      return f16_code(product(static_cast<int>(l), static_cast<int>(2 * c))) | static_cast<std::int64_t>(f16_code(product(static_cast<int>(l), static_cast<int>(2 * c + 1)))) << 16;
    });
    to.push_back(from_frame("acc-f16", "does a 16-bit accumulator take one column an element, in the low half", f, i.words32(), {{"one a column, high half zero", with_high(0)}, {"one a column, high half kept", with_high(1)}, {"one a column, both halves", with_high(2)}, {"two a column", packed}},
                            "reads of f16 accumulators need another pack"));
  }
  {  // A in tensor memory
    frame f = ramp_frame(1, 128, 16);
    std::string store;
    for (int c = 0; c < 8; ++c) store += cat("ld.global.u32 %r4", c, ", [%l6+", 4 * c, "];\n");
    image i(4096 + 1024);
    for (std::size_t n = 0; n < 16; ++n) i.put16(4096 + place_in_image(32, n, 2 * n), bf16_code(1));  // B[n][k] = (n == k)
    std::vector<std::uint32_t> in = i.words32();
    const std::size_t a_at = in.size() * 4;
    const auto value = [](unsigned m, unsigned k) { return static_cast<double>((m * 3 + k * 5) % 64); };
    for (unsigned m = 0; m < 128; ++m)
      for (unsigned c = 0; c < 8; ++c) in.push_back(bf16_code(value(m, 2 * c)) | static_cast<std::uint32_t>(bf16_code(value(m, 2 * c + 1))) << 16);
    f.setup += cat("mul.wide.u32 %l6, %r0, 32; add.u64 %l6, %l1, %l6; add.u64 %l6, %l6, ", a_at, ";\n", store, "add.u32 %r50, %r11, 128; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r50], {%r40, %r41, %r42, %r43, %r44, %r45, %r46, %r47}; tcgen05.wait::st.sync.aligned;\n");
    f.issue = cat("add.u32 %r51, %r10, 128;\n", mma("f16", 1, "%r10", "[%r51]", "%l21", dense_word(128, 16, 1, 1, 1)));
    const auto reading_of = [&](auto k_of) { return all_of(f, [&](unsigned, unsigned l, unsigned c) -> std::int64_t { return c >= 16 ? std::int64_t{pattern(0, l, c)} : f32_bits(value(l, k_of(c))); }); };
    to.push_back(from_frame("a-in-tmem", "is a 16-bit A in tensor memory two per column, the lower k in the low half", f, in, {{"lower k in the low half", reading_of([](unsigned c) { return c; })}, {"lower k in the high half", reading_of([](unsigned c) { return c ^ 1U; })}}, "attention's second product reads a permuted P: wrong results"));
  }
}

// ---- copies into tensor memory, shifts

void add_copies(std::vector<probe>& to) {
  struct cp { const char* text; int rows, pieces; std::function<bool(int row, int lane)> goes; };
  for (const cp& s : {cp{"128x256b", 128, 2, [](int r, int l) { return r == l; }}, {"128x128b", 128, 1, [](int r, int l) { return r == l; }}, {"64x128b.warpx2::02_13", 64, 1, [](int r, int l) { return l % 64 == r; }},
                      {"64x128b.warpx2::01_23", 64, 1, [](int r, int l) { return l == r + (r < 32 ? 0 : 32) || l == r + (r < 32 ? 32 : 64); }}, {"32x128b.warpx4", 32, 1, [](int r, int l) { return l % 32 == r; }}, {"4x256b", 4, 2, [](int r, int l) { return l == 32 * r; }}}) {
    frame f;
    const std::size_t row_bytes = 16 * static_cast<std::size_t>(s.pieces);
    f.image_bytes = 4096;
    f.setup = make_descriptor(20, 0, row_bytes);
    f.issue = cat("tcgen05.cp.cta_group::1.", s.text, " [%r10], %l20;\n");
    f.columns = 10;
    std::vector<std::uint32_t> in(1024);
    for (std::size_t w = 0; w < in.size(); ++w) in[w] = 0x80000000U | static_cast<std::uint32_t>(4 * w);
    const auto ours = all_of(f, [&](unsigned, unsigned lane, unsigned c) -> std::int64_t {
      for (int r = 0; r < s.rows; ++r)
        if (c < 4U * static_cast<unsigned>(s.pieces) && s.goes(r, static_cast<int>(lane))) return 0x80000000U | static_cast<std::uint32_t>(place_in_image(row_bytes, static_cast<std::size_t>(r), 4 * c));
      return pattern(0, lane, c);
    });
    to.push_back(from_frame(cat("cp-", s.text), cat("which lanes and columns does tcgen05.cp.", s.text, " write"), f, in, {{"rows to lanes as in lib/sim/units/tensor_copy.cpp", ours}}, std::string(s.text) == "32x128b.warpx4" ? "block scales land in the wrong places: block-scaled kernels are wrong" : "no kernel of the library uses this shape"));
  }
  {
    frame f;
    f.issue = "tcgen05.shift.cta_group::1.down [%r10];\n";
    f.columns = 10;
    const auto moved = [&](int by, bool all_quarters) {
      return all_of(f, [=](unsigned, unsigned l, unsigned c) -> std::int64_t {
        const bool in = c < 8 && (all_quarters || l < 32) && (by > 0 ? l % 32 < 31 : l % 32 > 0);
        return pattern(0, in ? static_cast<unsigned>(static_cast<int>(l) + by) : l, c);
      });
    };
    to.push_back(from_frame("shift-down", "which way does tcgen05.shift.down move, and how far does it reach", f, {}, {{"lane i takes lane i + 1, 32 lanes", moved(1, false)}, {"lane i takes lane i - 1, 32 lanes", moved(-1, false)}, {"lane i takes lane i + 1, every quarter", moved(1, true)}, {"lane i takes lane i - 1, every quarter", moved(-1, true)}},
                            "no kernel of the library uses it"));
  }
}

// ---- block scales

/// e4m3 operands with A[m][0] = 1, B[n][0] = 1 (K 32): D[m][n] is the product of their two scales.
void add_scales(std::vector<probe>& to) {
  constexpr int n = 64;
  constexpr std::size_t a_bytes = 128 * 32, b_bytes = n * 32, scales_at = a_bytes + b_bytes, total = scales_at + 3 * 512 + 512;
  const auto exponent_a = [](int m) { return m % 13; };
  const auto exponent_b = [](int c) { return c % 7; };
  const auto image_with = [&](int second) {
    image i((total + 1023) / 1024 * 1024);
    const std::byte one{0x38};
    for (std::size_t r = 0; r < 128; ++r) i.put(place_in_image(32, r, 0), &one, 1);
    for (std::size_t r = 0; r < n; ++r) i.put(a_bytes + place_in_image(32, r, 0), &one, 1);
    // 512 bytes a unit: byte (r % 32) * 16 + (r / 32) * 4 + k.
    for (int unit = 0; unit < 3; ++unit)
      for (int r = 0; r < 128; ++r)
        for (int k = 0; k < 4; ++k) {
          const int e = unit == 0 ? exponent_a(r) + k : unit == 1 ? (r < n ? exponent_b(r) : 0) : exponent_a(r) + second;
          const std::byte code{static_cast<unsigned char>(127 + e)};
          i.put(scales_at + static_cast<std::size_t>(512 * unit + r % 32 * 16 + r / 32 * 4 + k), &code, 1);
        }
    return i.words32();
  };
  const std::uint32_t word = static_cast<std::uint32_t>(n / 8) << 17 | 1U << 23 | 1U << 27;
  const auto setup = make_descriptor(20, 0, 32) + make_descriptor(21, a_bytes, 32) + make_descriptor(22, scales_at, 16) + make_descriptor(23, scales_at + 512, 16) + make_descriptor(24, scales_at + 1024, 16);
  const auto scaled = [&](const std::string& d, std::uint32_t w) { return cat("mov.u32 %r63, ", w, "; setp.ne.u32 %p7, 0, 0; tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [", d, "], %l20, %l21, %r63, [%r51], [%r52], %p7;\n"); };
  const std::string addresses = "add.u32 %r51, %r10, 256; add.u32 %r52, %r10, 264; add.u32 %r53, %r10, 128;\n";
  for (int id = 0; id < 4; ++id) {
    frame f;
    f.image_bytes = (total + 1023) / 1024 * 1024;
    f.filled = 300;
    f.setup = setup;
    f.columns = n + 1;
    f.issue = cat(addresses, "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r51], %l22; tcgen05.cp.cta_group::1.32x128b.warpx4 [%r52], %l23;\n", scaled("%r10", word | static_cast<std::uint32_t>(id) << 29));
    const auto with = [&](auto e) { return all_of(f, [&](unsigned, unsigned m, unsigned c) -> std::int64_t { return c >= n ? std::int64_t{pattern(0, m, c)} : f32_bits(std::ldexp(1.0, e(static_cast<int>(m), static_cast<int>(c)))); }); };
    to.push_back(from_frame(cat("scales-id", id), cat("are scales copied by cp right before a block-scaled mma of the same thread used by it, row r from lane r % 32 and column r / 32, byte ", id), f, image_with(0),
                            {{"cp then mma is ordered; the scale id picks the byte", with([&](int m, int c) { return exponent_a(m) + id + exponent_b(c); })}, {"the scale id picks from the other end", with([&](int m, int c) { return exponent_a(m) + 3 - id + exponent_b(c); })}},
                            "block-scaled kernels need a commit and a wait between cp and mma, or another scale layout"));
  }
  {
    frame f;
    f.image_bytes = (total + 1023) / 1024 * 1024;
    f.filled = 300;
    f.setup = setup;
    f.columns = n;
    f.issue = cat(addresses, "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r51], %l22; tcgen05.cp.cta_group::1.32x128b.warpx4 [%r52], %l23;\n", scaled("%r10", word), "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r51], %l24;\n", scaled("%r53", word));
    const auto with = [&](int first) { return all_of(f, [&](unsigned, unsigned m, unsigned c) -> std::int64_t { return f32_bits(std::ldexp(1.0, exponent_a(static_cast<int>(m)) + first + exponent_b(static_cast<int>(c)))); }); };
    to.push_back(from_frame("mma-then-cp", "does a mma use the scales that were there when it was issued, though a cp of the same thread overwrites them after it", f, image_with(5), {{"mma then cp is ordered", with(0)}, {"the later scales were used", with(5)}}, "scale buffers need a commit and a wait before they are copied again"));
  }
}

// ---- sums

/// 1 + count * 2^-(m + n) - 1 in row m and column n: zero where the small terms are cut before the sum.
void add_sums(std::vector<probe>& to) {
  struct kind { const char* name; std::uint32_t code; int element_bytes; int ours; int smallest; std::function<void(image&, std::size_t, double)> put; };
  for (const kind& k : {kind{"f16", 1, 2, 25, 100, [](image& i, std::size_t at, double v) { i.put16(at, bf16_code(v)); }},
                        kind{"tf32", 2, 4, 25, 100, [](image& i, std::size_t at, double v) { const auto f = static_cast<float>(v); i.put(at, &f, 4); }},
                        kind{"f8f6f4", 1, 1, 25, 14, [](image& i, std::size_t at, double v) { const auto c = static_cast<std::byte>(e5m2(static_cast<float>(v)).code); i.put(at, &c, 1); }}}) {
    frame f = ramp_frame(1, 128, 16);
    image i(5120);
    const auto es = static_cast<std::size_t>(k.element_bytes);
    const std::size_t count = k.element_bytes == 4 ? 6 : 8;
    const auto row_exponent = [&](std::size_t m) { return std::min(static_cast<int>(m % 32), k.smallest); };
    for (std::size_t m = 0; m < 128; ++m) {
      k.put(i, place_in_image(32, m, 0), 1);
      for (std::size_t t = 1; t <= count; ++t) k.put(i, place_in_image(32, m, t * es), std::ldexp(1.0, -row_exponent(m)));
      k.put(i, place_in_image(32, m, (count + 1) * es), -1);
    }
    for (std::size_t n = 0; n < 16; ++n) {
      k.put(i, 4096 + place_in_image(32, n, 0), 1);
      for (std::size_t t = 1; t <= count; ++t) k.put(i, 4096 + place_in_image(32, n, t * es), std::ldexp(1.0, -std::min(static_cast<int>(n), k.smallest)));
      k.put(i, 4096 + place_in_image(32, n, (count + 1) * es), 1);
    }
    f.issue = mma(k.name, 1, "%r10", "%l20", "%l21", dense_word(128, 16, k.code, k.code, 1));
    const auto keeps = [&](int bits) {
      return all_of(f, [&](unsigned, unsigned m, unsigned n) -> std::int64_t {
        if (n >= 16) return pattern(0, m, n);
        const int shift = row_exponent(m) + std::min(static_cast<int>(n), k.smallest);
        return f32_bits(shift <= bits ? static_cast<double>(count) * std::ldexp(1.0, -shift) : 0.0);
      });
    };
    const int most = std::min(31, k.smallest) + std::min(15, k.smallest);
    std::vector<reading> readings = {{cat("terms are cut at 2^-", k.ours, " of the largest"), keeps(k.ours)}};
    for (int bits = 8; bits <= most; ++bits)
      if (bits != k.ours) readings.push_back({cat("terms are cut at 2^-", bits, " of the largest"), keeps(bits)});
    to.push_back(from_frame(cat("sum-", k.name), cat("how far below the largest term does kind::", k.name, " keep bits in one sum"), f, i.words32(), std::move(readings), "the constants in lib/sim/units/matrix.cpp: results agree to the stated error, not to the bit"));
  }
}

// ---- barriers and copies

probe plain(std::string id, std::string question, const std::string& body, std::size_t words_out, std::vector<reading> readings, std::string otherwise, std::vector<std::uint32_t> input = {}) {
  return {.id = std::move(id), .question = std::move(question), .ptx = module_text(body), .ctas = 1, .input = std::move(input), .output_words = words_out, .readings = std::move(readings), .otherwise = std::move(otherwise)};
}

void add_barriers(std::vector<probe>& to) {
  const std::string alone = "setp.ne.u32 %p0, %r0, 0; @%p0 ret; ld.param.u64 %l2, [p_out];\n.shared .align 8 .b64 bar; .shared .align 8 .b64 other;\n";
  const auto test = [](int at, int parity) { return cat("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], ", parity, "; selp.u32 %r20, 1, 0, %p1; st.global.u32 [%l2+", 4 * at, "], %r20;\n"); };
  to.push_back(plain("mbarrier-fresh", "does a fresh barrier let a wait for parity 1 through and hold one for parity 0", cat(alone, "mbarrier.init.shared::cta.b64 [bar], 1;\n", test(0, 0), test(1, 1)), 2, {{"0 blocks, 1 passes", {0, 1}}, {"1 blocks, 0 passes", {1, 0}}}, "every ring starts with the wrong parity"));
  to.push_back(plain("mbarrier-two-phases", "what does a waiter see that is two phases behind", cat(alone, "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.arrive.shared::cta.b64 %l3, [bar];\n", test(0, 0), "mbarrier.arrive.shared::cta.b64 %l3, [bar];\n", test(1, 0), test(2, 1)), 3,
                     {{"parity alone decides: after two phases parity 0 blocks again", {1, 0, 1}}, {"a completed phase stays visible", {1, 1, 1}}}, "a ring whose waiter falls two phases behind would be seen differently; none may"));
  to.push_back(plain("mbarrier-bare-expect", "does a bare expect_tx that brings the byte count back to zero complete a phase without pending arrivals",
                     cat(alone, "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 16; mbarrier.arrive.shared::cta.b64 %l3, [bar];\n", test(0, 0), "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n", test(1, 0)), 2,
                     {{"it does, as on an H200", {0, 1}}, {"it does not", {0, 0}}}, "only code with bytes before their announcement can tell"));
  {
    frame f;
    f.filled = 0;
    f.columns = 1;
    f.issue = "mov.u32 %r20, 0;\n";
    f.after = "mad.lo.u32 %r20, %r2, 128, %r0; mul.wide.u32 %l4, %r20, 4; add.u64 %l4, %l2, %l4; st.global.u32 [%l4], %r60;\n";
    to.push_back(from_frame("commit-nothing", "does a commit with nothing before it arrive at once", f, {}, {{"it arrives", all_of(f, [](unsigned, unsigned, unsigned) { return std::int64_t{1}; })}}, "rings that are drained without a product wait for ever"));
  }
  {
    frame f;
    f.columns = 1;
    f.filled = 8;
    probe p = from_frame("dealloc-by-another-warp", "may another warp than the one that allocated free tensor memory", f, {}, {{"it may", all_of(f, [](unsigned, unsigned l, unsigned) { return std::int64_t{pattern(0, l, 0)}; })}}, "the warp that allocates must free");
    const std::size_t at = p.ptx.rfind("@%p1 tcgen05.dealloc");
    p.ptx.replace(at, 4, "@%p8");
    p.ptx.insert(p.ptx.rfind("@%p8"), "setp.eq.u32 %p8, %r4, 2; ");
    to.push_back(std::move(p));
  }
  const std::string copy = R"(.shared .align 1024 .b8 data[1024]; .shared .align 8 .b64 bar;
    setp.ne.u32 %p0, %r0, 0; @%p0 ret; ld.param.u64 %l1, [p_in]; ld.param.u64 %l2, [p_out]; mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  )";
  to.push_back(plain("bulk-copy", "does a bulk copy complete its bytes on the barrier", cat(copy, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%l1], 64, [bar];\n", patient_wait("bar", 1), "st.global.u32 [%l2], %r60; ld.shared.u32 %r20, [data+60]; st.global.u32 [%l2+4], %r20;\n"), 2,
                     {{"it does", {1, 77}}}, "nothing asynchronous can be trusted", std::vector<std::uint32_t>(16, 77)));
  // A box of 16 x 8 words that hangs over two edges of a tensor of 20 x 11, or lies outside of it.
  for (const auto& [x, y, where] : {std::tuple{12, 6, "partly"}, {-32, 4, "wholly"}}) {
    device::tensor_map map{.element = device::map_element::u32, .rank = 2};
    map.extents = {20, 11, 1, 1, 1};
    map.strides_bytes[0] = 80;
    map.box = {16, 8, 1, 1, 1};
    words expected{1};
    std::vector<std::uint32_t> in(220);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint32_t>(i) + 1000;
    for (int r = 0; r < 8; ++r)
      for (int c = 0; c < 16; ++c) expected.push_back(x + c >= 0 && x + c < 20 && y + r < 11 ? in[static_cast<std::size_t>((y + r) * 20 + x + c)] : 0);
    std::string read;
    for (int i = 0; i < 128; ++i) read += cat("ld.shared.u32 %r20, [data+", 4 * i, "]; st.global.u32 [%l2+", 4 * i + 4, "], %r20;\n");
    probe p = plain(cat("box-", where, "-outside"), cat("does a tensor load ", where, " outside of its tensor complete the bytes of the whole box, with zeros"),
                    cat(copy, "mov.u64 %l6, map; cvta.param.u64 %l6, %l6; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512; cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [data], [%l6, {", x, ", ", y, "}], [bar];\n", patient_wait("bar", 1), "st.global.u32 [%l2], %r60;\n", read), 129,
                    {{"all of its bytes, zeros outside", expected}}, "every ragged shape waits for ever, or reads what was there before", in);
    p.ptx.replace(p.ptx.find("k(.param"), 8, "k(.param .align 64 .b8 map[128], .param");
    p.map = map;
    to.push_back(std::move(p));
  }
  // Conversions that the ISA's text leaves open.
  std::string conversions = "setp.ne.u32 %p0, %r0, 0; @%p0 ret; ld.param.u64 %l1, [p_in]; ld.param.u64 %l2, [p_out];\n";
  const std::vector<std::uint32_t> values = {0x00000000, 0x80000000, 0xBF800000, 0xFF800000, 0x00000001, 0x7F800000, 0x7FC00000, 0x3FC00000};
  for (int i = 0; i < 8; ++i) conversions += cat("ld.global.u32 %r20, [%l1+", 4 * i, "]; cvt.rz.satfinite.ue8m0x2.f32 %h2, %r20, %r20; cvt.u32.u16 %r21, %h2; and.b32 %r21, %r21, 255; st.global.u32 [%l2+", 4 * i, "], %r21;\n");
  to.push_back(plain("ue8m0-odd-values", "what are zero, negative and subnormal values as ue8m0", conversions, 8, {{"the sign is dropped", {0, 0, 127, 254, 0, 254, 255, 127}}, {"zero and negatives are 0", {0, 0, 0, 0, 0, 254, 255, 127}}}, "scales of negative or zero blocks", values));
}

}  // namespace

std::vector<probe> probes() {
  std::vector<probe> all;
  add_barriers(all);
  add_shapes(all);
  add_layouts(all);
  add_copies(all);
  add_scales(all);
  add_sums(all);
  return all;
}

const std::vector<unprobed>& unprobed_rules() {
  static const std::vector<unprobed> all = {
      {"proxy fences between generic and asynchronous accesses", "a missing fence usually gives right results; a program cannot show that it is needed"},
      {"tcgen05.fence before and after thread synchronisation", "the same: leaving it out proves nothing"},
      {"a barrier of which exited threads are counted", "the other reading hangs, and bar.sync has no limit"},
      {"metadata of sparse products, zero-column masks, K of 96", "the simulator refuses them; no kernel of the library uses them"},
      {"tensor memory address alignment of ld, st and mma", "the other reading faults and takes the process with it; run such a kernel alone"},
      {"who may be the issuer of a pair's products", "issuing from the odd CTA would prove one case only; the library issues from the even one"},
      {"multicast to a CTA that has exited", "undefined by the documents; the library waits for its peers"}};
  return all;
}

}  // namespace tlx::bench
