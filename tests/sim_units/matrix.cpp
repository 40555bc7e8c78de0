// Tensor-core arithmetic against a reference written from the definition in long double, against exact integers, and within the derived bound of float64.
#include "sim/units/matrix.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>

using namespace tlx::sim;

namespace {

int lowest_exponent(number n) {
  switch (n) {
    case number::f16: case number::e5m2: return -14;
    case number::e4m3: return -6;
    case number::e3m2: return -2;
    case number::e2m3: case number::e2m1: return 0;
    default: return -126;
  }
}

int exponent_of(float x, number n) { return std::max(std::ilogb(x), lowest_exponent(n)); }

/// One block from the definition: largest exponent, cut, sum, cut, store.
float reference_block(const mma_model& model, const float* a, const float* b, number fa, number fb, int k, float c) {
  int top = std::numeric_limits<int>::min();
  double plain = static_cast<double>(c);
  bool special = !std::isfinite(c);
  if (c != 0 && !special) top = std::max(std::ilogb(c), -126);
  for (int i = 0; i < k; ++i) {
    const double p = static_cast<double>(a[i]) * static_cast<double>(b[i]);
    plain += p;
    if (!std::isfinite(p)) special = true;
    if (a[i] != 0 && b[i] != 0 && std::isfinite(p)) top = std::max(top, exponent_of(a[i], fa) + exponent_of(b[i], fb));
  }
  if (special) return std::isnan(plain) ? std::bit_cast<float>(0x7FFFFFFFU) : static_cast<float>(plain);
  if (top == std::numeric_limits<int>::min()) return 0;
  long double sum = truncl(ldexpl(static_cast<long double>(c), model.fraction_bits - top));
  for (int i = 0; i < k; ++i)
    sum += truncl(ldexpl(static_cast<long double>(a[i]) * static_cast<long double>(b[i]), model.fraction_bits - top));
  if (sum == 0) return 0;
  sum = ldexpl(sum, top - model.fraction_bits);
  const int e = std::max(ilogbl(sum), -1000);
  sum = ldexpl(truncl(ldexpl(sum, model.result_bits - e)), e - model.result_bits);
  if (fabsl(sum) >= 0x1p128L) return sum > 0 ? HUGE_VALF : -HUGE_VALF;
  const int place = std::max(ilogbl(sum), -126) - 23;
  return static_cast<float>(ldexpl(truncl(ldexpl(sum, -place)), place));
}

bool same(float x, float y) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y); }

struct tile {
  int m, n, k;
  number fa, fb;
  std::vector<float> a, b, c;
  mma_operands operands() const { return {.m = m, .n = n, .k = k, .a = a.data(), .b = b.data(), .a_format = fa, .b_format = fb}; }
};

/// `style`: 0 normal numbers, 1 every code of the format (NaN and infinity too), 2 finite codes of every size, 3 mostly zero.
tile random_tile(int m, int n, int k, number fa, number fb, int style, std::mt19937& random) {
  tile t{m, n, k, fa, fb, {}, {}, {}};
  std::normal_distribution<double> normal;
  const auto one = [&](number f) -> float {
    for (;;) {
      if (style == 3 && random() % 4 != 0) return 0;
      const std::uint32_t code = style == 0 || style == 3 ? narrow(f, normal(random)) : static_cast<std::uint32_t>(random());
      const float v = widen(f, bits_of(f) >= 32 ? code : code & ((1U << bits_of(f)) - 1U));
      if (style == 1 ? std::isfinite(v) || random() % 64 == 0 : std::isfinite(v)) return v;
    }
  };
  for (int i = 0; i < m * k; ++i) t.a.push_back(one(fa));
  for (int i = 0; i < n * k; ++i) t.b.push_back(one(fb));
  for (int i = 0; i < m * n; ++i) {
    float c = style == 0 ? static_cast<float>(4 * normal(random)) : std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (style == 3 && random() % 2 != 0) c = 0;
    if (style != 1 && !std::isfinite(c)) c = 1;
    t.c.push_back(c);
  }
  return t;
}

const number all_formats[] = {number::f16, number::bf16, number::tf32, number::e4m3, number::e5m2, number::e3m2, number::e2m3, number::e2m1};
int instruction_k(number f) { return bits_of(f) == 16 ? 16 : bits_of(f) == 32 ? 8 : 32; }

}  // namespace

TEST_CASE("the fast path, the slow path and the reference agree to the bit") {
  std::mt19937 random(10);
  mma_scratch scratch;
  for (const number f : all_formats)
    for (const chip on : {chip::hopper, chip::blackwell})
      for (int style = 0; style < 4; ++style) {
        const mma_model& model = model_of(on, on == chip::hopper ? matrix_unit::wgmma : matrix_unit::tcgen05, f);
        const number g = f == number::e4m3 ? number::e5m2 : f;
        const tile t = random_tile(24, 72, instruction_k(f) * 2, f, g, style, random);
        for (const bool use_d : {true, false}) {
          std::vector<float> fast = t.c, slow = t.c;
          multiply(model, t.operands(), fast.data(), t.n, use_d, scratch);
          multiply_slow(model, t.operands(), slow.data(), t.n, use_d);
          for (int m = 0; m < t.m; ++m)
            for (int n = 0; n < t.n; ++n) {
              float want = use_d ? t.c[static_cast<std::size_t>(m * t.n + n)] : 0.0F;
              for (int k = 0; k < t.k; k += model.block_k)
                want = reference_block(model, &t.a[static_cast<std::size_t>(m * t.k + k)], &t.b[static_cast<std::size_t>(n * t.k + k)], f, g, std::min(model.block_k, t.k - k), want);
              const std::size_t at = static_cast<std::size_t>(m * t.n + n);
              INFO(std::string(to_string(f)), " style ", style, " at ", m, ",", n, ": ", fast[at], " ", slow[at], " ", want);
              REQUIRE(same(slow[at], want));
              REQUIRE(same(fast[at], want));
            }
        }
      }
}

TEST_CASE("small integers are exact") {
  std::mt19937 random(11);
  mma_scratch scratch;
  for (const number f : {number::f16, number::bf16, number::tf32, number::e4m3}) {
    const mma_model& model = model_of(chip::blackwell, matrix_unit::tcgen05, f);
    const int m = 128, n = 96, k = instruction_k(f);
    std::vector<float> a, b, d(static_cast<std::size_t>(m * n));
    std::vector<int> want(d.size());
    for (int i = 0; i < m * k; ++i) a.push_back(static_cast<float>(static_cast<int>(random() % 17) - 8));
    for (int i = 0; i < n * k; ++i) b.push_back(static_cast<float>(static_cast<int>(random() % 17) - 8));
    for (int step = 0; step < 3; ++step) {
      multiply(model, {.m = m, .n = n, .k = k, .a = a.data(), .b = b.data(), .a_format = f, .b_format = f}, d.data(), n, step > 0, scratch);
      for (int r = 0; r < m; ++r)
        for (int c = 0; c < n; ++c)
          for (int i = 0; i < k; ++i) want[static_cast<std::size_t>(r * n + c)] += static_cast<int>(a[static_cast<std::size_t>(r * k + i)] * b[static_cast<std::size_t>(c * k + i)]);
    }
    for (std::size_t i = 0; i < d.size(); ++i) REQUIRE(d[i] == static_cast<float>(want[i]));
  }
}

TEST_CASE("results stay within the bound that the cuts imply") {
  std::mt19937 random(12);
  mma_scratch scratch;
  for (const number f : {number::f16, number::bf16, number::tf32, number::e4m3}) {
    const mma_model& model = model_of(chip::hopper, matrix_unit::wgmma, f);
    const tile t = random_tile(64, 64, model.block_k, f, f, 0, random);
    std::vector<float> d = t.c;
    multiply(model, t.operands(), d.data(), t.n, true, scratch);
    for (int m = 0; m < t.m; ++m)
      for (int n = 0; n < t.n; ++n) {
        const std::size_t at = static_cast<std::size_t>(m * t.n + n);
        double exact = static_cast<double>(t.c[at]), top = std::fabs(exact);
        for (int i = 0; i < t.k; ++i) {
          const double p = static_cast<double>(t.a[static_cast<std::size_t>(m * t.k + i)]) * static_cast<double>(t.b[static_cast<std::size_t>(n * t.k + i)]);
          exact += p;
          top = std::max(top, std::fabs(p));
        }
        const double bound = (t.k + 1) * std::ldexp(top, -model.fraction_bits) + std::ldexp(std::fabs(exact) + std::ldexp(top, 6 - model.fraction_bits), -model.result_bits);
        REQUIRE(std::fabs(static_cast<double>(d[at]) - exact) <= bound);
      }
  }
}

TEST_CASE("bf16 keeps two bits below the place of the largest term and cuts, fp8 on Hopper drops below 2^-13") {
  mma_scratch scratch;
  const auto sum = [&](number f, float small, int count) {
    const int k = instruction_k(f);
    std::vector<float> a(static_cast<std::size_t>(k)), b(static_cast<std::size_t>(k) * 8, 1.0F);
    a[0] = 1.0F;
    float d[8] = {};
    // The small terms are products of two representable numbers.
    const float half = std::ldexp(1.0F, std::ilogb(small) / 2);
    for (int i = 1; i <= count; ++i) a[static_cast<std::size_t>(i)] = small / half;
    for (int n = 0; n < 8; ++n)
      for (int i = 1; i <= count; ++i) b[static_cast<std::size_t>(n * k + i)] = half;
    multiply(model_of(chip::hopper, matrix_unit::wgmma, f), {.m = 1, .n = 8, .k = k, .a = a.data(), .b = b.data(), .a_format = f, .b_format = f}, d, 8, false, scratch);
    return d[3];
  };
  CHECK(sum(number::bf16, 0x1p-25F, 4) == 1.0F + 0x1p-23F);
  CHECK(sum(number::bf16, 0x1p-25F, 3) == 1.0F);
  CHECK(sum(number::bf16, 0x1p-26F, 15) == 1.0F);
  CHECK(sum(number::e4m3, 0x1p-13F, 1) == 1.0F + 0x1p-13F);
  CHECK(sum(number::e4m3, 0x1p-14F, 31) == 1.0F);
}

// Row 1 of A and column 7 of B of a generated mma.sync.m16n8k32 of e4m3 and e5m2, and what an H200 gave. One product of depth 32, the order of k, one more bit
// and an accumulator that enters the sum all give other bits.
TEST_CASE("fp8 of mma.sync on Hopper are f16 products whose accumulator is added last") {
  const float a[32] = {-0.28125F, 0.02734375F, -9, 10, -3.5F, 0.21875F, 0.1875F, -6.5F, 48, 0.02734375F, 0.02734375F, 26, -0.046875F, -0.171875F, -12, 0.015625F,
                       -0.03515625F, -32, 0.03125F, 1.625F, 60, -3.25F, 3.25F, 64, -0.46875F, 0.5F, -0.0703125F, 0.234375F, 6, -32, 72, 0.02734375F};
  const float b[32] = {-16, 1280, -0x1.4p-9F, -0.15625F, -1024, -160, -0.01171875F, -0x1.4p-8F, -0x1.8p-9F, -0x1.8p-11F, -0x1p-12F, 0.0234375F, 28672, -20480, -0.0234375F, 20480,
                       -2048, -1.5F, -0x1p-9F, 256, -224, 896, 0x1p-12F, -0x1.cp-12F, 0.09375F, 0x1.8p-12F, -0.4375F, -448, -20, -1792, -128, -2};
  float d = -0x1.ce0736p-9F;
  mma_scratch s;
  multiply_fp8_as_f16(model_of(chip::hopper, matrix_unit::mma_sync, number::f16), {.m = 1, .n = 1, .k = 32, .a = a, .b = b, .a_format = number::e4m3, .b_format = number::e5m2}, &d, 1, s);
  CHECK(std::bit_cast<std::uint32_t>(d) == 0x47151AA2);
  // m16n8k16: two steps of 8. With f16 sums every step is rounded to f16.
  const float a16[16] = {3.75F, 0.25F, 3.75F, 11, -448, 3, -11, -2.75F, 1.125F, -0.09375F, -0x1p-9F, -32, -0x1p-9F, -0x1.6p-5F, -3.25F, -128};
  const float b16[16] = {-384, -0.625F, -12288, -0.5F, 1.25F, 0.109375F, -0x1.8p-6F, 1.75F, 57344, 0x1.cp-8F, -2, -24, 1, -10240, 0x1p-16F, -3};
  float e = -0x1.ba8334p+0F;
  multiply_fp8_as_f16(model_of(chip::hopper, matrix_unit::mma_sync, number::f16), {.m = 1, .n = 1, .k = 16, .a = a16, .b = b16, .a_format = number::e4m3, .b_format = number::e5m2}, &e, 1, s);
  CHECK(std::bit_cast<std::uint32_t>(e) == 0x468CB8C7);
  const float ah[16] = {3, 0.375F, -3.25F, -2.75F, -2.5F, 1.25F, 3.5F, -2.25F, 0.140625F, -1.25F, -2.5F, -1.5F, -0.625F, 1.5F, -3.25F, -1.125F};
  const float bh[16] = {-0.5625F, -2.25F, 0.4375F, -0.875F, 2.75F, -1.875F, 2.75F, 3.5F, -2.25F, 2.25F, -3.25F, 1.5F, -1.375F, 1.5F, -1.375F, 2.75F};
  float h = -0x1.888p+0F;
  multiply_fp8_as_f16(model_of(chip::hopper, matrix_unit::mma_sync, number::f16), {.m = 1, .n = 1, .k = 16, .a = ah, .b = bh, .a_format = number::e4m3, .b_format = number::e4m3}, &h, 1, s, true);
  CHECK(narrow(number::f16, h) == 0xC2A1);
}

TEST_CASE("a tile with scales equals the tile of scaled numbers when nothing is cut") {
  std::mt19937 random(13);
  mma_scratch scratch;
  const mma_model& model = model_of(chip::blackwell, matrix_unit::tcgen05, number::e2m1);
  const int m = 128, n = 64, k = 64;
  tile t = random_tile(m, n, k, number::e2m1, number::e2m1, 2, random);
  const auto scale = [&](int block) {
    const std::uint32_t code = static_cast<std::uint32_t>(random() % 32);
    return block == 16 ? widen(number::ue4m3, 40 + code) : widen(number::ue8m0, 124 + code % 6);
  };
  for (const int block : {16, 32}) {
    std::vector<float> sa, sb, d(t.c.size());
    for (int i = 0; i < m * k / block; ++i) sa.push_back(scale(block));
    for (int i = 0; i < n * k / block; ++i) sb.push_back(scale(block));
    mma_operands x = t.operands();
    x.a_scale = sa.data(), x.b_scale = sb.data(), x.scale_block = block;
    multiply(model, x, d.data(), n, false, scratch);
    for (int r = 0; r < m; ++r)
      for (int c = 0; c < n; ++c) {
        double exact = 0;
        for (int i = 0; i < k; ++i)
          exact += static_cast<double>(t.a[static_cast<std::size_t>(r * k + i)]) * static_cast<double>(sa[static_cast<std::size_t>((r * k + i) / block)]) *
                   static_cast<double>(t.b[static_cast<std::size_t>(c * k + i)]) * static_cast<double>(sb[static_cast<std::size_t>((c * k + i) / block)]);
        REQUIRE(same(d[static_cast<std::size_t>(r * n + c)], std::bit_cast<float>(narrow(number::f32, exact == 0 ? 0.0 : exact, {.how = rounding::rz}))));
      }
  }
}

TEST_CASE("a NaN scale, negation, shifted accumulators and f16 results") {
  mma_scratch scratch;
  const mma_model model{};
  std::vector<float> a(16, 1.0F), b(128, 2.0F);
  float d[8], scale[1] = {std::nanf("")}, one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  mma_operands x{.m = 1, .n = 8, .k = 16, .a = a.data(), .b = b.data()};
  x.a_scale = scale, x.b_scale = one, x.scale_block = 16;
  multiply(model, x, d, 8, false, scratch);
  CHECK(std::bit_cast<std::uint32_t>(d[5]) == 0x7FFFFFFFU);
  x.a_scale = x.b_scale = nullptr;
  x.negate_a = true;
  multiply(model, x, d, 8, false, scratch);
  CHECK(d[0] == -32.0F);
  x.negate_b = true;
  multiply(model, x, d, 8, true, scratch, 3);
  CHECK(d[7] == 32.0F - 4.0F);
  d[0] = 2048.0F;
  a.assign(16, 0.0F), b.assign(128, 0.0F);
  a[0] = b[0] = 1.0F;
  x.negate_a = x.negate_b = false;
  multiply_f16(model, x, d, 8, true, scratch);
  CHECK(d[0] == 2048.0F);  // 2049 lies between and rounds to even
  a[0] = 3.0F;
  multiply_f16(model, x, d, 8, true, scratch);
  CHECK(d[0] == 2052.0F);
}

TEST_CASE("integers wrap, or saturate when asked") {
  std::mt19937 random(14);
  mma_scratch scratch;
  const int m = 64, n = 40, k = 32;
  std::vector<std::int16_t> a, b;
  for (int i = 0; i < m * k; ++i) a.push_back(static_cast<std::int16_t>(static_cast<int>(random() % 256) - 128));
  for (int i = 0; i < n * k; ++i) b.push_back(static_cast<std::int16_t>(random() % 256));
  std::vector<std::int32_t> d(static_cast<std::size_t>(m * n), INT32_MAX - 1000), s = d;
  multiply_integers(m, n, k, a.data(), b.data(), d.data(), n, true, false, scratch);
  multiply_integers(m, n, k, a.data(), b.data(), s.data(), n, true, true, scratch);
  for (int r = 0; r < m; ++r)
    for (int c = 0; c < n; ++c) {
      std::int64_t exact = INT32_MAX - 1000;
      for (int i = 0; i < k; ++i) exact += a[static_cast<std::size_t>(r * k + i)] * b[static_cast<std::size_t>(c * k + i)];
      REQUIRE(d[static_cast<std::size_t>(r * n + c)] == static_cast<std::int32_t>(static_cast<std::uint32_t>(exact)));
      REQUIRE(s[static_cast<std::size_t>(r * n + c)] == std::min<std::int64_t>(exact, INT32_MAX));
    }
  double da[4] = {1, 0x1p-60, 1, 0}, db[4] = {1, 1, -1, 0}, dd[1] = {0};
  multiply_f64(1, 1, 4, da, db, dd, 1);
  CHECK(dd[0] == 0.0);  // 1, then 1 (the small term is lost), then 0
}

TEST_CASE("fragments cover every element exactly once") {
  struct form { int m, k, bits; };
  for (const form& f : {form{16, 8, 16}, {16, 16, 16}, {16, 4, 32}, {16, 8, 32}, {16, 16, 8}, {16, 32, 8}, {8, 16, 8}, {16, 32, 4}, {16, 64, 4}, {8, 4, 64}, {16, 4, 64}, {16, 16, 64}}) {
    std::set<std::pair<int, int>> a, b, c;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < mma_a_count(f.m, f.k); ++i) { const cell x = mma_a_cell(f.m, f.k, f.bits, lane, i); a.insert({x.row, x.column}); }
      for (int i = 0; i < mma_b_count(f.k, 8); ++i) { const cell x = mma_b_cell(f.k, f.bits, lane, i); b.insert({x.row, x.column}); }
      for (int i = 0; i < mma_c_count(f.m, 8); ++i) { const cell x = mma_c_cell(f.m, lane, i); c.insert({x.row, x.column}); }
    }
    INFO("m", f.m, "n8k", f.k, " of ", f.bits, " bits");
    CHECK(a.size() == static_cast<std::size_t>(f.m * f.k));
    CHECK(std::prev(a.end())->first == f.m - 1);
    CHECK(b.size() == static_cast<std::size_t>(f.k * 8));
    CHECK(std::prev(b.end())->first == f.k - 1);
    CHECK(c.size() == static_cast<std::size_t>(f.m * 8));
  }
}

TEST_CASE("fragment places named by the PTX ISA") {
  // m16n8k16 f16, A: a2 and a3 are 8 rows down, a4.. are 8 columns on. m16n8k32 s8: a4..a7 are 8 rows down, a8.. 16 columns on.
  CHECK(mma_a_cell(16, 16, 16, 5, 2).row == 9);
  CHECK(mma_a_cell(16, 16, 16, 5, 2).column == 2);
  CHECK(mma_a_cell(16, 16, 16, 5, 5).row == 1);
  CHECK(mma_a_cell(16, 16, 16, 5, 5).column == 11);
  CHECK(mma_a_cell(16, 32, 8, 6, 5).row == 9);
  CHECK(mma_a_cell(16, 32, 8, 6, 9).column == 8 + 1 + 16);
  CHECK(mma_b_cell(16, 16, 7, 3).row == 6 + 1 + 8);
  CHECK(mma_b_cell(16, 16, 7, 3).column == 1);
  CHECK(mma_c_cell(16, 7, 3).row == 9);
  CHECK(mma_c_cell(16, 7, 3).column == 7);
}

TEST_CASE("wgmma fragments are bijections for every N and A type") {
  for (int n = 8; n <= 256; n += 8) {
    std::vector<bool> hit(static_cast<std::size_t>(64 * n));
    for (int t = 0; t < 128; ++t)
      for (int i = 0; i < n / 2; ++i) {
        const cell c = wgmma_d_cell(t, i);
        REQUIRE(c.row < 64);
        REQUIRE(c.column < n);
        REQUIRE_FALSE(hit[static_cast<std::size_t>(c.row * n + c.column)]);
        hit[static_cast<std::size_t>(c.row * n + c.column)] = true;
      }
  }
  for (const int bits : {8, 16, 32}) {
    const int k = 256 / bits;
    std::vector<bool> hit(static_cast<std::size_t>(64 * k));
    for (int t = 0; t < 128; ++t)
      for (int i = 0; i < k / 2; ++i) {
        const cell c = wgmma_a_cell(bits, t, i);
        REQUIRE_FALSE(hit[static_cast<std::size_t>(c.row * k + c.column)]);
        hit[static_cast<std::size_t>(c.row * k + c.column)] = true;
      }
  }
  // The closed forms of the tables: 16-bit v of 8, 8-bit v of 16, tf32 v of 4.
  for (int t = 0; t < 128; ++t) {
    const int row = 16 * (t / 32) + t % 32 / 4;
    for (int v = 0; v < 8; ++v) {
      CHECK(wgmma_a_cell(16, t, v).row == row + 8 * ((v >> 1) & 1));
      CHECK(wgmma_a_cell(16, t, v).column == 2 * (t % 4) + (v & 1) + 8 * (v >> 2));
    }
    for (int v = 0; v < 16; ++v) {
      CHECK(wgmma_a_cell(8, t, v).row == row + 8 * ((v >> 2) & 1));
      CHECK(wgmma_a_cell(8, t, v).column == 4 * (t % 4) + (v & 3) + 16 * (v >> 3));
    }
    for (int v = 0; v < 4; ++v) {
      CHECK(wgmma_a_cell(32, t, v).row == row + 8 * (v & 1));
      CHECK(wgmma_a_cell(32, t, v).column == t % 4 + 4 * (v >> 1));
    }
  }
}

TEST_CASE("a transposed 8x8 matrix load swaps rows and columns") {
  std::set<std::pair<int, int>> seen;
  for (int lane = 0; lane < 32; ++lane)
    for (int half = 0; half < 2; ++half) {
      const cell x = matrix_8x8_cell(lane, half, false), y = matrix_8x8_cell(lane, half, true);
      CHECK(x.row == y.column);
      CHECK(x.column == y.row);
      CHECK(x.row == mma_c_cell(8, lane, half).row);
      seen.insert({x.row, x.column});
    }
  CHECK(seen.size() == 64);
}
