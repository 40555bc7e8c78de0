// Matrix instructions of one warp or warpgroup on random small numbers, which every type holds exactly, against plain loops. The fragments are those of the PTX ISA,
// written out again here.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "sim/units/formats.hpp"
#include "support.hpp"

using namespace sim_test;
using tlx::sim::number;

namespace {

struct type { const char* name; number n; int bits; };
const type f16{"f16", number::f16, 16}, bf16{"bf16", number::bf16, 16}, tf32{"tf32", number::tf32, 32}, f32{"f32", number::f32, 32}, f64{"f64", number::f64, 64}, e4m3{"e4m3", number::e4m3, 8},
    e5m2{"e5m2", number::e5m2, 8}, s8{"s8", number::s8, 8}, u8{"u8", number::u8, 8}, s4{"s4", number::s4, 4}, u4{"u4", number::u4, 4}, s32{"s32", number::s32, 32}, b1{"b1", number::b1, 1};

bool integer(const type& t) { return tlx::sim::is_integer(t.n); }
std::uint32_t encoded(const type& t, int v) {
  if (t.n == number::b1) return static_cast<std::uint32_t>(v & 1);
  if (integer(t)) return static_cast<std::uint32_t>(v) & (t.bits == 32 ? ~0U : (1U << t.bits) - 1);
  return t.n == number::tf32 || t.n == number::f32 ? bits(static_cast<float>(v)) : tlx::sim::narrow(t.n, static_cast<float>(v));
}
int drawn(std::mt19937& r, const type& t) {
  if (t.n == number::b1) return static_cast<int>(r() % 2);
  const bool positive = t.n == number::u8 || t.n == number::u4;
  return static_cast<int>(r() % 4) - (positive ? 0 : 2);
}
std::string registers(const std::string& prefix, int first, int count) {
  std::string s = "{";
  for (int k = 0; k < count; ++k) s += (k ? ", %" : "%") + prefix + std::to_string(first + k);
  return s + "}";
}

struct form { int m, n, k; type d, a, b, c; std::string extra = {}; };

/// One mma.sync; `in` words per lane: A, B, C registers; out: D registers.
void check_mma(const form& f, const std::string& target) {
  std::mt19937 random(static_cast<unsigned>(f.m * 1000 + f.k * 10 + f.a.bits));
  std::vector<int> a(static_cast<std::size_t>(f.m * f.k)), b(static_cast<std::size_t>(f.k * f.n)), c(static_cast<std::size_t>(f.m * f.n));
  for (int& v : a) v = drawn(random, f.a);
  for (int& v : b) v = drawn(random, f.b);
  for (int& v : c) v = static_cast<int>(random() % 16);
  const bool wide = f.a.n == number::f64;
  const int per_a = wide ? 1 : 32 / f.a.bits, per_b = wide ? 1 : 32 / f.b.bits, per_c = f.c.bits == 16 ? 2 : 1, per_d = f.d.bits == 16 ? 2 : 1;
  const int na = f.m * f.k / 32 / per_a, nb = f.k * f.n / 32 / per_b, nc = f.m * f.n / 32 / per_c, nd = f.m * f.n / 32 / per_d;
  std::vector<std::uint32_t> in;
  const int size = wide ? 2 : 1;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    const auto put = [&](const type& x, int per, int count, auto&& value) {
      for (int r = 0; r < count; ++r) {
        if (wide) { const double v = value(r, 0); std::uint64_t u; std::memcpy(&u, &v, 8); in.push_back(static_cast<std::uint32_t>(u)); in.push_back(static_cast<std::uint32_t>(u >> 32)); continue; }
        std::uint32_t w = 0;
        for (int e = 0; e < per; ++e) w |= encoded(x, value(r, e)) << (x.bits * e % 32);
        in.push_back(w);
      }
    };
    // Registers of A step through the row halves first, then along k; those of B along k; C and D hold pairs of columns, then the lower row half.
    put(f.a, per_a, na, [&](int r, int e) { const int row = g + (f.m == 16 ? 8 * (r % 2) : 0), k = t * per_a + e + 4 * per_a * (f.m == 16 ? r / 2 : r); return a[static_cast<std::size_t>(row * f.k + k)]; });
    put(f.b, per_b, nb, [&](int r, int e) { const int k = t * per_b + e + 4 * per_b * r; return b[static_cast<std::size_t>(k * f.n + g)]; });
    put(f.c, per_c, nc, [&](int r, int e) { const int i = r * per_c + e; return c[static_cast<std::size_t>((g + 8 * (i / 2)) * f.n + 2 * t + i % 2)]; });
  }
  const std::string p = wide ? "fd" : "r", pf = wide ? "fd" : "f";
  const int stride = (na + nb + nc) * size * 4;
  std::string body = "mul.lo.u32 %r60, %r0, " + std::to_string(stride) + "; cvt.u64.u32 %rd40, %r60; add.s64 %rd40, %rd1, %rd40; mul.lo.u32 %r61, %r0, " + std::to_string(nd * size * 4) + "; cvt.u64.u32 %rd41, %r61; add.s64 %rd41, %rd2, %rd41;\n";
  const bool float_c = f.c.n == number::f32, float_d = f.d.n == number::f32;
  const std::string load = wide ? "ld.global.f64" : "ld.global.b32";
  for (int k = 0; k < na + nb + nc; ++k) body += load + " %" + (k >= na + nb && float_c ? "f" : p) + std::to_string(k + 1) + ", [%rd40+" + std::to_string(4 * size * k) + "];\n";
  body += "mma.sync.aligned.m" + std::to_string(f.m) + "n" + std::to_string(f.n) + "k" + std::to_string(f.k) + ".row.col." + f.d.name + "." + f.a.name + "." + f.b.name + "." + f.c.name + f.extra + " " +
          registers(float_d ? "f" : p, 20, nd) + ", " + registers(p, 1, na) + ", " + registers(p, 1 + na, nb) + ", " + registers(float_c ? "f" : p, 1 + na + nb, nc) + ";\n";
  for (int k = 0; k < nd; ++k) body += (wide ? "st.global.f64 [%rd41+" : "st.global.b32 [%rd41+") + std::to_string(4 * size * k) + "], %" + (float_d ? pf : p) + std::to_string(20 + k) + ";\n";
  setup s;
  s.target = target;
  s.out_words = static_cast<std::size_t>(32 * nd * size);
  const auto out = run(body, in, s);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < f.m * f.n / 32; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
      int sum = c[static_cast<std::size_t>(row * f.n + column)];
      for (int k = 0; k < f.k; ++k) {
        const int x = a[static_cast<std::size_t>(row * f.k + k)], y = b[static_cast<std::size_t>(k * f.n + column)];
        sum += f.extra == ".xor.popc" ? x ^ y : x * y;
      }
      const std::size_t at = static_cast<std::size_t>(lane * nd * size + i / per_d * size);
      double got;
      if (wide) { std::uint64_t u = out[at] | static_cast<std::uint64_t>(out[at + 1]) << 32; std::memcpy(&got, &u, 8); }
      else if (integer(f.d)) got = static_cast<std::int32_t>(out[at]);
      else if (per_d == 2) got = static_cast<double>(tlx::sim::widen(number::f16, out[at] >> (16 * (i % 2)) & 0xFFFFU));
      else got = static_cast<double>(real(out[at]));
      INFO(f.a.name << " x " << f.b.name << " m" << f.m << "k" << f.k << " row " << row << " column " << column);
      CHECK(got == sum);
    }
}

}  // namespace

TEST_CASE("mma.sync of every dense shape and type") {
  std::vector<form> forms;
  for (const int k : {8, 16}) {
    forms.push_back({16, 8, k, f32, f16, f16, f32});
    forms.push_back({16, 8, k, f16, f16, f16, f16});
    forms.push_back({16, 8, k, f32, bf16, bf16, f32});
  }
  for (const int k : {4, 8}) forms.push_back({16, 8, k, f32, tf32, tf32, f32});
  forms.push_back({8, 8, 4, f64, f64, f64, f64});
  for (const int k : {4, 8, 16}) forms.push_back({16, 8, k, f64, f64, f64, f64});
  for (const int k : {16, 32})
    for (const type& a : {e4m3, e5m2})
      for (const type& b : {e4m3, e5m2}) for (const type& d : {f32, f16}) forms.push_back({16, 8, k, d, a, b, d});
  for (const type& a : {s8, u8})
    for (const type& b : {s8, u8}) { forms.push_back({8, 8, 16, s32, a, b, s32}); for (const int k : {16, 32}) forms.push_back({16, 8, k, s32, a, b, s32}); }
  for (const type& a : {s4, u4})
    for (const type& b : {s4, u4}) { forms.push_back({8, 8, 32, s32, a, b, s32}); for (const int k : {32, 64}) forms.push_back({16, 8, k, s32, a, b, s32}); }
  for (const std::string extra : {".and.popc", ".xor.popc"}) { forms.push_back({8, 8, 128, s32, b1, b1, s32, extra}); for (const int k : {128, 256}) forms.push_back({16, 8, k, s32, b1, b1, s32, extra}); }
  for (const form& f : forms) check_mma(f, "sm_90a");
  check_mma(forms[0], "sm_100a");
}

TEST_CASE("mma.sync m8n8k4 of f16 multiplies four times, by pairs of quads") {
  // Row-major A, column-major B: lanes 4q + i hold rows and columns i, lanes 16 above them 4 + i. A[r][k] = r + 1 for k = q, B[k][c] = c + 1 for k = q: D = (r+1)(c+1).
  const auto out = per_lane(R"(shr.u32 %r2, %r1, 2; and.b32 %r2, %r2, 3; shr.u32 %r3, %r1, 4; and.b32 %r4, %r1, 3; mad.lo.u32 %r4, %r3, 4, %r4; add.u32 %r4, %r4, 1; cvt.rn.f16.u32 %rs1, %r4; cvt.u32.u16 %r4, %rs1;
      and.b32 %r5, %r2, 1; setp.eq.u32 %p1, %r5, 1; shl.b32 %r6, %r4, 16; selp.b32 %r6, %r6, %r4, %p1; setp.lt.u32 %p2, %r2, 2; selp.b32 %r7, %r6, 0, %p2; selp.b32 %r8, 0, %r6, %p2; mov.f32 %f20, 0f42C80000;
      mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, {%r7, %r8}, {%r7, %r8}, {%f20, %f20, %f20, %f20, %f20, %f20, %f20, %f20}; mov.b32 %r9, %f7;)", counting_lanes());
  for (std::uint32_t l = 0; l < 32; ++l) {
    const std::uint32_t i = 6, row = (l & 1) + (i & 2) + (l >= 16 ? 4 : 0), column = (i & 4) + (l & 2) + (i & 1);
    CHECK(real(out[l]) == 100.0F + static_cast<float>((row + 1) * (column + 1)));
  }
}

TEST_CASE("movmatrix transposes a tile of 16-bit elements in registers") {
  const auto out = per_lane("shl.b32 %r2, %r1, 1; add.u32 %r3, %r2, 1; shl.b32 %r3, %r3, 16; or.b32 %r2, %r2, %r3; movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r2;", counting_lanes());
  for (std::uint32_t t = 0; t < 32; ++t) { const std::uint32_t r = 2 * (t % 4), c = t / 4; CHECK(out[t] == ((8 * r + c) | (8 * (r + 1) + c) << 16)); }
}

TEST_CASE("ldmatrix and stmatrix of bytes: transposed, and unpacked from six and four bits") {
  const setup b{.target = "sm_100a"};
  // 16 rows of 16 bytes, byte (r, c) = 16 r + c.
  const std::string fill = ".shared .align 16 .b8 x[512]; mov.u32 %r2, x; mad.lo.u32 %r3, %r0, 8, %r2; mul.lo.u32 %r4, %r0, 0x08080808; add.u32 %r4, %r4, 0x03020100; add.u32 %r5, %r4, 0x04040404; st.shared.v2.u32 [%r3], {%r4, %r5}; bar.warp.sync -1; mad.lo.u32 %r6, %r0, 16, %r2;";
  auto out = per_lane(fill + "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r7, %r9}, [%r6];", counting_lanes(), b);
  for (std::uint32_t t = 0; t < 32; ++t) { std::uint32_t e = 0; for (std::uint32_t k = 0; k < 4; ++k) e |= (16 * (4 * (t % 4) + k) + t / 4 + 8) << (8 * k); CHECK(out[t] == e); }
  out = per_lane(fill + "mov.u32 %r8, 0; st.shared.v2.u32 [%r3+256], {%r8, %r8}; bar.warp.sync -1; add.u32 %r10, %r6, 256; mul.lo.u32 %r11, %r0, 0x01010101; stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r10], {%r11}; bar.warp.sync -1; mad.lo.u32 %r12, %r0, 4, %r2; ld.shared.u32 %r9, [%r12+256];", counting_lanes(), b);
  // Row j of memory is column j of the 16x8 tile: byte i came from lane 4 (i % 8) + j / 2.
  for (std::uint32_t t = 0; t < 32; ++t) { std::uint32_t e = 0; for (std::uint32_t k = 0; k < 4; ++k) { const std::uint32_t j = t / 4, i = 4 * (t % 4) + k; e |= (4 * (i % 8) + j / 2) << (8 * k); } CHECK(out[t] == e); }
  // Eight rows; element c of row r is (r + c) % 64 in six bits, % 16 in four. Only the packed bytes are written: the pad is never read.
  for (const int width : {6, 4}) {
    std::string store = ".shared .align 16 .b8 x[128]; mov.u32 %r2, x; mad.lo.u32 %r3, %r0, 16, %r2; setp.lt.u32 %p1, %r0, 8; mov.u64 %rd10, 0; mov.u64 %rd11, 0;";
    for (int c = 0; c < 16; ++c) {
      const int at = width * c;
      store += "add.u32 %r4, %r0, " + std::to_string(c) + "; and.b32 %r4, %r4, " + std::to_string((1 << width) - 1) + "; cvt.u64.u32 %rd12, %r4;";
      if (at < 64) store += "shl.b64 %rd13, %rd12, " + std::to_string(at) + "; or.b64 %rd10, %rd10, %rd13;";
      if (at + width > 64) store += at >= 64 ? "shl.b64 %rd13, %rd12, " + std::to_string(at - 64) + "; or.b64 %rd11, %rd11, %rd13;" : "shr.u64 %rd13, %rd12, " + std::to_string(64 - at) + "; or.b64 %rd11, %rd11, %rd13;";
    }
    store += "@%p1 st.shared.u64 [%r3], %rd10; cvt.u32.u64 %r5, %rd11;" + std::string(width == 6 ? "@%p1 st.shared.u32 [%r3+8], %r5;" : "") + "bar.warp.sync -1; and.b32 %r6, %r0, 7; mad.lo.u32 %r6, %r6, 16, %r2;";
    out = per_lane(store + "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16." + (width == 6 ? "b6x16_p32" : "b4x16_p64") + " {%r9}, [%r6];", counting_lanes(), b);
    for (std::uint32_t t = 0; t < 32; ++t) { std::uint32_t e = 0; for (std::uint32_t k = 0; k < 4; ++k) e |= ((t / 4 + 4 * (t % 4) + k) % (1U << width) << (width == 4 ? 2 : 0)) << (8 * k); CHECK(out[t] == e); }
  }
  CHECK(id_of([&] { per_lane(fill + "add.u32 %r6, %r6, 8; ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r7, %r9}, [%r6];", counting_lanes(), b); }) == "misaligned");
}

TEST_CASE("wgmma of every dense type, A from shared memory and from registers") {
  struct wide_form { int n, k; type d, a, b; };
  std::vector<wide_form> forms;
  for (const int n : {8, 40}) {
    for (const type& d : {f32, f16}) forms.push_back({n, 16, d, f16, f16});
    forms.push_back({n, 16, f32, bf16, bf16});
    forms.push_back({n, 8, f32, tf32, tf32});
    for (const type& a : {e4m3, e5m2}) for (const type& x : {e4m3, e5m2}) for (const type& d : {f32, f16}) forms.push_back({n, 32, d, a, x});
  }
  for (const int n : {8, 48}) {
    for (const type& a : {s8, u8}) for (const type& x : {s8, u8}) forms.push_back({n, 32, s32, a, x});
    forms.push_back({n, 256, s32, b1, b1});
  }
  for (const wide_form& f : forms)
    for (const bool from_registers : {false, true}) {
      std::mt19937 random(static_cast<unsigned>(f.n + f.k));
      std::vector<int> a(static_cast<std::size_t>(64 * f.k)), b(static_cast<std::size_t>(f.n * f.k));
      for (int& v : a) v = drawn(random, f.a);
      for (int& v : b) v = drawn(random, f.b);
      // Shared images, K-major without swizzle: 8 rows of 16 bytes together, the two 16-byte columns 128 bytes apart, row groups 256. One row has 32 bytes.
      const auto image = [&](const std::vector<int>& x, const type& t, int rows) {
        std::vector<std::uint32_t> words(static_cast<std::size_t>(rows * 8));
        for (int r = 0; r < rows; ++r)
          for (int k = 0; k < f.k; ++k) {
            const int bit = k * t.bits, byte = bit / 8, place = r / 8 * 256 + byte / 16 * 128 + r % 8 * 16 + byte % 16;
            words[static_cast<std::size_t>(place / 4)] |= encoded(t, x[static_cast<std::size_t>(r * f.k + k)]) << (8 * (place % 4) + bit % 8);
          }
        return words;
      };
      std::vector<std::uint32_t> in = image(a, f.a, 64);
      const auto image_b = image(b, f.b, f.n);
      in.insert(in.end(), image_b.begin(), image_b.end());
      const int words = static_cast<int>(in.size()), per = 32 / f.a.bits;
      for (int thread = 0; thread < 128; ++thread)  // A fragments of the register form
        for (int r = 0; r < 4; ++r) {
          std::uint32_t w = 0;
          for (int e = 0; e < per; ++e) { const int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * (r % 2), k = thread % 4 * per + e + 4 * per * (r / 2); w |= encoded(f.a, a[static_cast<std::size_t>(row * f.k + k)]) << (f.a.bits * e % 32); }
          in.push_back(w);
        }
      const int nd = f.n / 2 / (f.d.n == number::f16 ? 2 : 1);
      const std::string pd = f.d.n == number::f32 ? "f" : "r";
      std::string body = ".shared .align 128 .b8 x[" + std::to_string(4 * words) + "]; mov.u32 %r1, %r0; mov.u32 %r2, x; L: setp.ge.u32 %p1, %r1, " + std::to_string(words) + "; @%p1 bra D; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd1, %rd3; ld.global.u32 %r3, [%rd3]; mad.lo.u32 %r4, %r1, 4, %r2; st.shared.u32 [%r4], %r3; add.u32 %r1, %r1, 128; bra L; D: " +
                         "fence.proxy.async.shared::cta; bar.sync 0; shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd4, %r5; or.b64 %rd4, %rd4, 0x0000001000080000; add.u64 %rd5, %rd4, 128; mul.wide.u32 %rd6, %r0, 16; add.s64 %rd6, %rd1, %rd6; ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd6+" + std::to_string(4 * words) + "];\n";
      for (int k = 0; k < nd; ++k) body += "mov.b32 %" + pd + std::to_string(20 + k) + ", 0; ";
      const std::string tail = integer(f.a) ? "" : f.a.bits == 16 ? (from_registers ? ", 1, -1, 0" : ", 1, -1, 0, 0") : ", 1, -1";
      body += "setp.ne.u32 %p2, 0, 0; wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n" + std::to_string(f.n) + "k" + std::to_string(f.k) + "." + f.d.name + "." + f.a.name + "." + f.b.name + (f.a.n == number::b1 ? ".and.popc " : " ") + registers(pd, 20, nd) + ", " +
              (from_registers ? "{%r6, %r7, %r8, %r9}" : "%rd4") + ", %rd5, %p2" + tail + "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mul.lo.u32 %r10, %r0, " + std::to_string(4 * nd) + "; cvt.u64.u32 %rd7, %r10; add.s64 %rd7, %rd2, %rd7;\n";
      for (int k = 0; k < nd; ++k) body += "st.global.b32 [%rd7+" + std::to_string(4 * k) + "], %" + pd + std::to_string(20 + k) + ";\n";
      setup s;
      s.threads = 128;
      s.out_words = static_cast<std::size_t>(128 * nd);
      const auto out = run(body, in, s);
      for (int thread = 0; thread < 128; ++thread)
        for (int d = 0; d < f.n / 2; ++d) {
          const int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * ((d >> 1) & 1), column = 2 * (thread % 4) + (d & 1) + 8 * (d >> 2);
          int sum = 0;
          for (int k = 0; k < f.k; ++k) sum += a[static_cast<std::size_t>(row * f.k + k)] * b[static_cast<std::size_t>(column * f.k + k)];
          if (!integer(f.a)) sum = -sum;  // scale-b is -1
          const std::uint32_t w = out[static_cast<std::size_t>(thread * nd + (f.d.n == number::f16 ? d / 2 : d))];
          const double got = integer(f.d) ? static_cast<std::int32_t>(w) : f.d.n == number::f16 ? static_cast<double>(tlx::sim::widen(number::f16, w >> (16 * (d % 2)) & 0xFFFFU)) : static_cast<double>(real(w));
          INFO(f.a.name << " x " << f.b.name << " -> " << f.d.name << " n" << f.n << (from_registers ? " A in registers" : "") << " row " << row << " column " << column);
          REQUIRE(got == sum);
        }
    }
}
