// Arithmetic outside the fast paths: other roundings, half precision, conversions through floats, bit fiddling, carries. One lane at a time.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/alu.hpp"

namespace tlx::sim {
namespace {

using u16 = std::uint16_t; using u32 = std::uint32_t; using u64 = std::uint64_t;
using s16 = std::int16_t; using s32 = std::int32_t; using s64 = std::int64_t;

u32* words(std::byte* r, u32 at) { return reinterpret_cast<u32*>(r + at); }
u64* longs(std::byte* r, u32 at) { return reinterpret_cast<u64*>(r + at); }
u64 read(std::byte* r, u32 at, int width, int lane) { return width == 64 ? longs(r, at)[lane] : words(r, at)[lane]; }
void write(std::byte* r, u32 at, int width, int lane, u64 v) { if (width == 64) longs(r, at)[lane] = v; else words(r, at)[lane] = static_cast<u32>(v); }
float single(u64 bits) { return std::bit_cast<float>(static_cast<u32>(bits)); }
u64 bits_of_float(float x) { return std::bit_cast<u32>(x); }
bool bit_at(std::byte* r, u32 at, int lane) { return *words(r, at) >> lane & 1U; }
void set_bit(std::byte* r, u32 at, int lane, bool on) { u32& w = *words(r, at); w = (w & ~(1U << lane)) | (on ? 1U << lane : 0U); }

template <class F> void each(lanes m, F&& f) { for (; m; m &= m - 1) f(std::countr_zero(m)); }

/// d = f(a), d = f(a, b), d = f(a, b, c) on raw words of one width.
template <int W, class F> void apply1(std::byte* r, const instruction& i, lanes m, F f) { each(m, [&](int l) { write(r, i.d, W, l, f(read(r, i.a, W, l))); }); }
template <int W, class F> void apply2(std::byte* r, const instruction& i, lanes m, F f) { each(m, [&](int l) { write(r, i.d, W, l, f(read(r, i.a, W, l), read(r, i.b, W, l))); }); }
template <int W, class F> void apply3(std::byte* r, const instruction& i, lanes m, F f) { each(m, [&](int l) { write(r, i.d, W, l, f(read(r, i.a, W, l), read(r, i.b, W, l), read(r, i.c, W, l))); }); }

// ---- f32, f64
f32_mode mode_of(const instruction& i) { return {i.mode.how, i.mode.ftz, i.mode.sat}; }
extreme_mode extreme_of(const instruction& i) { return {i.mode.nan, i.mode.ftz, i.mode.xorsign_abs}; }

void add_f(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); apply2<32>(r, i, m, [&](u64 a, u64 b) { return bits_of_float(add_f32(single(a), single(b), k)); }); }
void sub_f(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); apply2<32>(r, i, m, [&](u64 a, u64 b) { return bits_of_float(add_f32(single(a), -single(b), k)); }); }
void mul_f(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); apply2<32>(r, i, m, [&](u64 a, u64 b) { return bits_of_float(mul_f32(single(a), single(b), k)); }); }
void fma_f(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) { return bits_of_float(fma_f32(single(a), single(b), single(c), k)); }); }
void div_f(std::byte* r, const instruction& i, lanes m) {
  const auto k = mode_of(i);
  if (i.mode.kind == 1) apply2<32>(r, i, m, [&](u64 a, u64 b) { return bits_of_float(approx_div_f32(single(a), single(b), k.ftz)); });
  else apply2<32>(r, i, m, [&](u64 a, u64 b) { return bits_of_float(div_f32(single(a), single(b), k)); });
}
void rcp_f(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); apply1<32>(r, i, m, [&](u64 a) { return bits_of_float(rcp_f32(single(a), k)); }); }
void sqrt_f(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); apply1<32>(r, i, m, [&](u64 a) { return bits_of_float(sqrt_f32(single(a), k)); }); }
void approx_f(std::byte* r, const instruction& i, lanes m) {
  const auto f = static_cast<approximation>(i.mode.kind);
  apply1<32>(r, i, m, [&](u64 a) { return bits_of_float(approx_f32(f, single(a), i.mode.ftz)); });
}
template <bool Max> void extreme_f(std::byte* r, const instruction& i, lanes m) {
  const auto k = extreme_of(i);
  const auto absolute = [&](u64 x) { return i.mode.absolute ? std::fabs(single(x)) : single(x); };
  apply2<32>(r, i, m, [&](u64 a, u64 b) { return bits_of_float(Max ? max_f32(absolute(a), absolute(b), k) : min_f32(absolute(a), absolute(b), k)); });
}
template <bool Max> void extreme3_f(std::byte* r, const instruction& i, lanes m) {
  const auto k = extreme_of(i);
  const auto absolute = [&](u64 x) { return i.mode.absolute ? std::fabs(single(x)) : single(x); };
  apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) {
    const float x = absolute(a), y = absolute(b), z = absolute(c);
    return bits_of_float(Max ? max_f32(max_f32(x, y, k), z, k) : min_f32(min_f32(x, y, k), z, k));
  });
}
double real(u64 b) { return std::bit_cast<double>(b); }
u64 bits_of_double(double x) { return std::bit_cast<u64>(x); }
void add_d(std::byte* r, const instruction& i, lanes m) { apply2<64>(r, i, m, [&](u64 a, u64 b) { return bits_of_double(add_f64(real(a), real(b), i.mode.how)); }); }
void sub_d(std::byte* r, const instruction& i, lanes m) { apply2<64>(r, i, m, [&](u64 a, u64 b) { return bits_of_double(add_f64(real(a), -real(b), i.mode.how)); }); }
void mul_d(std::byte* r, const instruction& i, lanes m) { apply2<64>(r, i, m, [&](u64 a, u64 b) { return bits_of_double(mul_f64(real(a), real(b), i.mode.how)); }); }
void fma_d(std::byte* r, const instruction& i, lanes m) { apply3<64>(r, i, m, [&](u64 a, u64 b, u64 c) { return bits_of_double(fma_f64(real(a), real(b), real(c), i.mode.how)); }); }
void div_d(std::byte* r, const instruction& i, lanes m) { apply2<64>(r, i, m, [&](u64 a, u64 b) { return bits_of_double(div_f64(real(a), real(b), i.mode.how)); }); }
void rcp_d(std::byte* r, const instruction& i, lanes m) { apply1<64>(r, i, m, [&](u64 a) { return bits_of_double(div_f64(1.0, real(a), i.mode.how)); }); }
void sqrt_d(std::byte* r, const instruction& i, lanes m) { apply1<64>(r, i, m, [&](u64 a) { return bits_of_double(sqrt_f64(real(a), i.mode.how)); }); }
void approx_d(std::byte* r, const instruction& i, lanes m) { apply1<64>(r, i, m, [&](u64 a) { return bits_of_double(approx_f64(static_cast<approximation>(i.mode.kind), real(a))); }); }
template <bool Max> void extreme_d(std::byte* r, const instruction& i, lanes m) { apply2<64>(r, i, m, [&](u64 a, u64 b) { return bits_of_double(Max ? max_f64(real(a), real(b)) : min_f64(real(a), real(b))); }); }
void copysign_f(std::byte* r, const instruction& i, lanes m) { apply2<32>(r, i, m, [](u64 a, u64 b) { return (b & 0x7FFFFFFFU) | (a & 0x80000000U); }); }
void copysign_d(std::byte* r, const instruction& i, lanes m) { apply2<64>(r, i, m, [](u64 a, u64 b) { return (b & ~(u64{1} << 63)) | (a & (u64{1} << 63)); }); }
template <int W> void testp(std::byte* r, const instruction& i, lanes m) {
  each(m, [&](int l) {
    const u64 raw = read(r, i.a, W, l);
    const double x = W == 64 ? real(raw) : static_cast<double>(single(raw));
    const int klass = W == 64 ? std::fpclassify(x) : std::fpclassify(single(raw));
    bool v = false;
    switch (i.mode.kind) {
      case 0: v = std::isfinite(x); break;
      case 1: v = std::isinf(x); break;
      case 2: v = !std::isnan(x); break;
      case 3: v = std::isnan(x); break;
      case 4: v = klass == FP_NORMAL || klass == FP_ZERO; break;  // zeros count as normal
      default: v = klass == FP_SUBNORMAL; break;
    }
    set_bit(r, i.d, l, v);
  });
}

// ---- half precision. A packed register holds two.
template <class F> void halves2(std::byte* r, const instruction& i, lanes m, bool packed, F f) {
  apply2<32>(r, i, m, [&](u64 a, u64 b) {
    u64 v = f(static_cast<u16>(a), static_cast<u16>(b));
    if (packed) v |= static_cast<u64>(f(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16))) << 16;
    return v;
  });
}
template <number N, bool P> half_mode half_of(const instruction& i) { return {i.mode.ftz, i.mode.sat, i.mode.relu}; }
template <number N, bool P> void add_h(std::byte* r, const instruction& i, lanes m) { const auto k = half_of<N, P>(i); halves2(r, i, m, P, [&](u16 a, u16 b) { return add_half(N, a, b, k); }); }
template <number N, bool P> void sub_h(std::byte* r, const instruction& i, lanes m) { const auto k = half_of<N, P>(i); halves2(r, i, m, P, [&](u16 a, u16 b) { return sub_half(N, a, b, k); }); }
template <number N, bool P> void mul_h(std::byte* r, const instruction& i, lanes m) { const auto k = half_of<N, P>(i); halves2(r, i, m, P, [&](u16 a, u16 b) { return mul_half(N, a, b, k); }); }
template <number N, bool P, bool Max> void extreme_h(std::byte* r, const instruction& i, lanes m) { const auto k = extreme_of(i); halves2(r, i, m, P, [&](u16 a, u16 b) { return Max ? max_half(N, a, b, k) : min_half(N, a, b, k); }); }
template <number N, bool P> void fma_h(std::byte* r, const instruction& i, lanes m) {
  const auto k = half_of<N, P>(i);
  apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) {
    u64 v = fma_half(N, static_cast<u16>(a), static_cast<u16>(b), static_cast<u16>(c), k);
    if (P) v |= static_cast<u64>(fma_half(N, static_cast<u16>(a >> 16), static_cast<u16>(b >> 16), static_cast<u16>(c >> 16), k)) << 16;
    return v;
  });
}
/// Another sign: a NaN becomes the canonical one, .ftz flushes.
template <number N, bool P, bool Negate> void sign_h(std::byte* r, const instruction& i, lanes m) {
  constexpr u32 exponent = N == number::f16 ? 0x7C00U : 0x7F80U;
  const auto one = [&](u32 a) -> u32 {
    if ((a & 0x7FFFU) > exponent) return 0x7FFFU;
    if (i.mode.ftz && (a & exponent) == 0) a &= 0x8000U;
    return Negate ? a ^ 0x8000U : a & 0x7FFFU;
  };
  apply1<32>(r, i, m, [&](u64 a) {
    u64 v = one(static_cast<u32>(a & 0xFFFFU));
    if (P) v |= static_cast<u64>(one(static_cast<u32>(a >> 16 & 0xFFFFU))) << 16;
    return v;
  });
}
template <number N, bool P> void approx_h(std::byte* r, const instruction& i, lanes m) {
  const auto f = static_cast<approximation>(i.mode.kind);
  apply1<32>(r, i, m, [&](u64 a) {
    u64 v = approx_half(f, N, static_cast<u16>(a), i.mode.ftz);
    if (P) v |= static_cast<u64>(approx_half(f, N, static_cast<u16>(a >> 16), i.mode.ftz)) << 16;
    return v;
  });
}
bool compare_floats(compare how, double a, double b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (how) {
    case compare::eq: return a == b;
    case compare::ne: return a < b || a > b;
    case compare::lt: return a < b;
    case compare::le: return a <= b;
    case compare::gt: return a > b;
    case compare::ge: return a >= b;
    case compare::equ: return unordered || a == b;
    case compare::neu: return unordered || a != b;
    case compare::ltu: return unordered || a < b;
    case compare::leu: return unordered || a <= b;
    case compare::gtu: return unordered || a > b;
    case compare::geu: return unordered || a >= b;
    case compare::num: return !unordered;
    default: return unordered;
  }
}
bool combined(const instruction& i, std::byte* r, int l, bool v) {
  if (!i.mode.combine) return v;
  const bool c = bit_at(r, i.c, l) != i.mode.invert_c;
  return i.mode.combine == 1 ? v && c : i.mode.combine == 2 ? v || c : v != c;
}
/// Subnormal halves to zero, the sign kept.
template <number N> u32 flush_halves(u32 x) {
  constexpr u32 exponent = N == number::f16 ? 0x7C00U : 0x7F80U;
  if ((x & exponent) == 0) x &= 0xFFFF8000U;
  if ((x & exponent << 16) == 0) x &= 0x8000FFFFU;
  return x;
}
template <number N, bool P> void setp_h(std::byte* r, const instruction& i, lanes m) {
  const auto how = static_cast<compare>(i.mode.kind);
  each(m, [&](int l) {
    u32 a = words(r, i.a)[l], b = words(r, i.b)[l];
    if (i.mode.ftz) a = flush_halves<N>(a), b = flush_halves<N>(b);
    const bool low = compare_floats(how, static_cast<double>(widen(N, a & 0xFFFFU)), static_cast<double>(widen(N, b & 0xFFFFU)));
    // Packed: the first predicate is that of the low half, the second that of the high half.
    const bool high = P ? compare_floats(how, static_cast<double>(widen(N, a >> 16)), static_cast<double>(widen(N, b >> 16))) : !low;
    const bool p = combined(i, r, l, low), q = combined(i, r, l, high);
    if (i.d != no_slot) set_bit(r, i.d, l, p);
    if (i.d2 != no_slot) set_bit(r, i.d2, l, q);
  });
}

// ---- conversions
number number_of(scalar t) {
  switch (t) {
    case scalar::f16: case scalar::f16x2: return number::f16;
    case scalar::bf16: case scalar::bf16x2: return number::bf16;
    case scalar::tf32: return number::tf32;
    case scalar::f64: return number::f64;
    case scalar::e4m3x2: case scalar::e4m3x4: return number::e4m3;
    case scalar::e5m2x2: case scalar::e5m2x4: return number::e5m2;
    case scalar::e2m3x2: case scalar::e2m3x4: return number::e2m3;
    case scalar::e3m2x2: case scalar::e3m2x4: return number::e3m2;
    case scalar::e2m1x2: case scalar::e2m1x4: return number::e2m1;
    case scalar::ue8m0x2: return number::ue8m0;
    default: return number::f32;
  }
}
int width_of(scalar t) { return bits_of(t) > 32 ? 64 : 32; }

double read_real(std::byte* r, u32 at, scalar t, int lane, bool ftz) {
  switch (t) {
    case scalar::f64: return real(longs(r, at)[lane]);
    case scalar::f32: { const float x = single(words(r, at)[lane]); return static_cast<double>(ftz ? flush_f32(x) : x); }
    default: return static_cast<double>(widen(number_of(t), words(r, at)[lane] & (bits_of(t) == 16 ? 0xFFFFU : 0xFFFFFFFFU)));
  }
}
s64 sign_extended(u64 v, int width) { return width >= 64 ? static_cast<s64>(v) : static_cast<s64>(v << (64 - width)) >> (64 - width); }

void cvt_real_to_integer(std::byte* r, const instruction& i, lanes m) {
  const scalar to = i.mode.to, from = i.mode.from;
  const int width = bits_of(to);
  each(m, [&](int l) {
    const u64 v = to_integer(read_real(r, i.a, from, l, i.mode.ftz), width, is_signed(to), i.mode.how, from == scalar::f64);
    write(r, i.d, width_of(to), l, is_signed(to) ? static_cast<u64>(sign_extended(v, width)) : width < 64 ? v & ((u64{1} << width) - 1) : v);
  });
}
void cvt_integer_to_real(std::byte* r, const instruction& i, lanes m) {
  const scalar to = i.mode.to, from = i.mode.from;
  const int width = bits_of(from);
  each(m, [&](int l) {
    u64 v = read(r, i.a, width_of(from), l);
    if (is_signed(from)) v = static_cast<u64>(sign_extended(v, width));
    else if (width < 64) v &= (u64{1} << width) - 1;
    u64 out = from_integer(v, is_signed(from), number_of(to), i.mode.how);
    if (i.mode.sat && to == scalar::f32) out = bits_of_float(std::min(1.0F, std::max(0.0F, single(out))));
    write(r, i.d, width_of(to), l, out);
  });
}
void cvt_integer_saturated(std::byte* r, const instruction& i, lanes m) {
  const scalar to = i.mode.to, from = i.mode.from;
  const int width = bits_of(to), source = bits_of(from);
  each(m, [&](int l) {
    const u64 raw = read(r, i.a, width_of(from), l);
    u64 out;
    if (is_signed(from)) {
      const s64 v = sign_extended(raw, source);
      const s64 low = is_signed(to) ? (width == 64 ? std::numeric_limits<s64>::min() : -(s64{1} << (width - 1))) : 0;
      const s64 high = is_signed(to) ? (width == 64 ? std::numeric_limits<s64>::max() : (s64{1} << (width - 1)) - 1) : width == 64 ? std::numeric_limits<s64>::max() : (s64{1} << width) - 1;
      out = static_cast<u64>(std::clamp(v, low, high));
    } else {
      const u64 v = source < 64 ? raw & ((u64{1} << source) - 1) : raw;
      const u64 high = is_signed(to) ? (u64{1} << (width - 1)) - 1 : width == 64 ? ~u64{0} : (u64{1} << width) - 1;
      out = std::min(v, high);
    }
    write(r, i.d, width_of(to), l, out);
  });
}
/// float -> float of any two formats with one element. mode.kind 1: round to an integral value.
void cvt_real_to_real(std::byte* r, const instruction& i, lanes m) {
  const scalar to = i.mode.to, from = i.mode.from;
  each(m, [&](int l) {
    double v = read_real(r, i.a, from, l, i.mode.ftz);
    if (i.mode.kind == 1) v = round_to_integral(v, i.mode.how);
    if (i.mode.sat) v = std::isnan(v) || v <= 0 ? 0.0 : std::min(v, 1.0);
    u64 out;
    if (to == scalar::f64) out = std::isnan(v) ? 0xFFF8000000000000ULL & 0x7FFFFFFFFFFFFFFFULL : bits_of_double(v);
    else if (to == scalar::f32) {
      float f = narrow_to_f32(v, i.mode.kind == 1 ? rounding::rn : i.mode.how);
      if (i.mode.ftz) f = flush_f32(f);
      out = bits_of_float(f);
    } else {
      narrowing n;
      n.how = i.mode.how; n.satfinite = i.mode.satfinite; n.relu = i.mode.relu;
      out = narrow(number_of(to), v, n);
      if (to == scalar::tf32 && i.mode.how == rounding::rna && std::isnan(v)) out = words(r, i.a)[l] & 0xFFFFE000U;  // .rna only drops bits of a NaN: seen on an H200
    }
    write(r, i.d, width_of(to), l, out);
  });
}
/// Two or four f32 (or a packed register) to a packed narrow register. Operands: a is the upper element.
void cvt_pack(std::byte* r, const instruction& i, lanes m) {
  const scalar to = i.mode.to, from = i.mode.from;
  const number n = number_of(to);
  const int element = n == number::f16 || n == number::bf16 ? 16 : n == number::e2m1 ? 4 : 8;
  narrowing k;
  k.how = i.mode.how; k.satfinite = i.mode.satfinite; k.relu = i.mode.relu; k.ftz = i.mode.ftz;
  const bool four = to >= scalar::e4m3x4 && to <= scalar::e2m1x4;
  each(m, [&](int l) {
    double v[4];  // v[0] is the lowest element
    int count = 2;
    if (four) {
      count = 4;
      v[3] = read_real(r, i.a, scalar::f32, l, k.ftz); v[2] = read_real(r, i.b, scalar::f32, l, k.ftz);
      v[1] = read_real(r, i.c, scalar::f32, l, k.ftz); v[0] = read_real(r, i.e, scalar::f32, l, k.ftz);
    } else if (from == scalar::f32) {
      v[1] = read_real(r, i.a, scalar::f32, l, k.ftz); v[0] = read_real(r, i.b, scalar::f32, l, k.ftz);
    } else {
      const u32 packed = words(r, i.a)[l];
      v[0] = static_cast<double>(widen(number_of(from), packed & 0xFFFFU)); v[1] = static_cast<double>(widen(number_of(from), packed >> 16));
    }
    const u32 random = k.how == rounding::rs ? words(r, i.d2)[l] : 0;
    u32 out = 0;
    for (int j = 0; j < count; ++j) {
      narrowing kj = k;
      if (k.how == rounding::rs) {
        if (element == 16) { kj.random_width = n == number::f16 ? 13 : 16; kj.random_bits = (random >> (16 * j)) & ((1U << kj.random_width) - 1); }
        else if (element == 8) { kj.random_width = 16; kj.random_bits = (random >> (j >= 2 ? 16 : 0)) & 0xFFFFU; }
        else { kj.random_width = 8; kj.random_bits = (random >> (8 * j)) & 0xFFU; }
      }
      out |= narrow(n, v[j], kj) << (element * j);
    }
    words(r, i.d)[l] = out;
  });
}
/// A packed narrow register to a packed f16x2 or bf16x2.
void cvt_unpack(std::byte* r, const instruction& i, lanes m) {
  const number n = number_of(i.mode.from);
  const int element = n == number::e2m1 ? 4 : 8;
  narrowing k;
  k.how = rounding::rn; k.relu = i.mode.relu;
  each(m, [&](int l) {
    const u32 in = words(r, i.a)[l];
    u32 out = 0;
    for (int j = 0; j < 2; ++j) out |= narrow(number_of(i.mode.to), widen(n, (in >> (element * j)) & ((1U << element) - 1)), k) << (16 * j);
    words(r, i.d)[l] = out;
  });
}

// ---- bits
template <int W> void popc(std::byte* r, const instruction& i, lanes m) { each(m, [&](int l) { words(r, i.d)[l] = static_cast<u32>(std::popcount(read(r, i.a, W, l))); }); }
template <int W> void clz(std::byte* r, const instruction& i, lanes m) { each(m, [&](int l) { const u64 a = read(r, i.a, W, l); words(r, i.d)[l] = static_cast<u32>(W == 64 ? std::countl_zero(a) : std::countl_zero(static_cast<u32>(a))); }); }
template <int W> void brev(std::byte* r, const instruction& i, lanes m) { apply1<W>(r, i, m, [](u64 a) { u64 v = 0; for (int k = 0; k < W; ++k) v |= (a >> k & 1U) << (W - 1 - k); return v; }); }
template <int W, bool S> void bfind(std::byte* r, const instruction& i, lanes m) {
  each(m, [&](int l) {
    u64 a = read(r, i.a, W, l);
    if (S && (a >> (W - 1) & 1U)) a = W == 64 ? ~a : ~a & 0xFFFFFFFFU;
    u32 at = a == 0 ? 0xFFFFFFFFU : static_cast<u32>(63 - std::countl_zero(a));
    if (i.mode.kind && at != 0xFFFFFFFFU) at = static_cast<u32>(W - 1) - at;
    words(r, i.d)[l] = at;
  });
}
template <int W, bool S> void bfe(std::byte* r, const instruction& i, lanes m) {
  each(m, [&](int l) {
    const u64 a = read(r, i.a, W, l);
    const u32 pos = words(r, i.b)[l] & 0xFFU, len = words(r, i.c)[l] & 0xFFU;
    const u32 top = std::min<u32>(pos + len - 1, W - 1);
    const bool sign = S && len != 0 && (a >> top & 1U);
    u64 v = 0;
    for (u32 k = 0; k < static_cast<u32>(W); ++k) {
      const bool b = k < len && pos + k < static_cast<u32>(W) ? (a >> (pos + k) & 1U) != 0 : sign;
      v |= static_cast<u64>(b) << k;
    }
    write(r, i.d, W, l, v);
  });
}
template <int W> void bfi(std::byte* r, const instruction& i, lanes m) {
  each(m, [&](int l) {
    const u64 a = read(r, i.a, W, l), b = read(r, i.b, W, l);
    const u32 pos = words(r, i.c)[l] & 0xFFU, len = words(r, i.e)[l] & 0xFFU;
    u64 v = b;
    for (u32 k = 0; k < len && pos + k < static_cast<u32>(W); ++k) v = (v & ~(u64{1} << (pos + k))) | ((a >> k & 1U) << (pos + k));
    write(r, i.d, W, l, v);
  });
}
void prmt(std::byte* r, const instruction& i, lanes m) {
  apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) {
    const u64 source = a | b << 32;
    u64 out = 0;
    for (u32 k = 0; k < 4; ++k) {
      u32 pick = 0;
      bool sign = false;
      const u32 s = static_cast<u32>(c & 3U);
      switch (i.mode.kind) {
        case 0: pick = static_cast<u32>(c >> (4 * k)) & 7U; sign = c >> (4 * k + 3) & 1U; break;
        case 1: pick = s + k; break;                                        // f4e
        case 2: pick = (s + 8 - k) & 7U; break;                             // b4e
        case 3: pick = s; break;                                            // rc8
        case 4: pick = std::max(k, s); break;                               // ecl
        case 5: pick = std::min(k, s); break;                               // ecr
        default: pick = 2 * (s & 1U) + (k & 1U); break;                     // rc16
      }
      u64 byte = source >> (8 * pick) & 0xFFU;
      if (sign) byte = byte & 0x80U ? 0xFFU : 0U;
      out |= byte << (8 * k);
    }
    return out;
  });
}
void lop3(std::byte* r, const instruction& i, lanes m) {
  const u32 table = static_cast<u32>(i.imm);
  apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) {
    u64 v = 0;
    if (table & 0x01U) v |= ~a & ~b & ~c;
    if (table & 0x02U) v |= ~a & ~b & c;
    if (table & 0x04U) v |= ~a & b & ~c;
    if (table & 0x08U) v |= ~a & b & c;
    if (table & 0x10U) v |= a & ~b & ~c;
    if (table & 0x20U) v |= a & ~b & c;
    if (table & 0x40U) v |= a & b & ~c;
    if (table & 0x80U) v |= a & b & c;
    return v;
  });
}
/// lop3.or and lop3.and: the predicate d2 = (result != 0) combined with e. The word itself may be unwanted.
void lop3_predicate(std::byte* r, const instruction& i, lanes m) {
  lanes nonzero = 0;
  each(m, [&](int l) {
    const u32 a = words(r, i.a)[l], b = words(r, i.b)[l], c = words(r, i.c)[l];
    u32 v = 0;
    for (u32 k = 0; k < 8; ++k) if (static_cast<u64>(i.imm) >> k & 1U) v |= (k & 4U ? a : ~a) & (k & 2U ? b : ~b) & (k & 1U ? c : ~c);
    if (v) nonzero |= 1U << l;
    if (i.d != no_slot) words(r, i.d)[l] = v;
  });
  const lanes q = *words(r, i.e) ^ (i.mode.invert_c ? all_lanes : 0U);
  if (i.d2 != no_slot) { u32& p = *words(r, i.d2); p = (p & ~m) | ((i.mode.kind == 1 ? nonzero & q : nonzero | q) & m); }
}
/// cvt.pack: a and b clamped to mode.kind bits, side by side under the low bits of c.
void pack_saturated(std::byte* r, const instruction& i, lanes m) {
  const int width = i.mode.kind;
  const s64 low = i.mode.hi ? -(s64{1} << (width - 1)) : 0, high = i.mode.hi ? (s64{1} << (width - 1)) - 1 : (s64{1} << width) - 1;
  const u32 keep = (1U << width) - 1;
  each(m, [&](int l) {
    const auto cut = [&](u32 at) { return static_cast<u32>(std::clamp<s64>(static_cast<s32>(words(r, at)[l]), low, high)) & keep; };
    const u32 c = i.c == no_slot ? 0U : words(r, i.c)[l];
    words(r, i.d)[l] = cut(i.b) | cut(i.a) << width | (width == 16 ? 0U : c << (2 * width));
  });
}
/// vadd, vsub, vavrg, vabsdiff, vmin, vmax, vset on two or four parts of a word (mode.combine). hi, wrap, relu: a, b and the result are signed. absolute: the parts
/// are added to c instead.
void video(std::byte* r, const instruction& i, lanes m) {
  const int parts = i.mode.combine, width = 32 / parts;
  const u32 keep = width == 16 ? 0xFFFFU : 0xFFU;
  const s64 low = i.mode.relu ? -(s64{1} << (width - 1)) : 0, high = i.mode.relu ? (s64{1} << (width - 1)) - 1 : s64{keep};
  each(m, [&](int l) {
    u32 out = 0;
    s64 sum = i.mode.absolute ? s64{static_cast<s32>(words(r, i.c)[l])} : 0;
    for (int p = 0; p < parts; ++p) {
      const u32 ra = words(r, i.a)[l] >> (width * p) & keep, rb = words(r, i.b)[l] >> (width * p) & keep;
      const s64 a = i.mode.hi ? sign_extended(ra, width) : s64{ra}, b = i.mode.wrap ? sign_extended(rb, width) : s64{rb};
      s64 v;
      switch (i.mode.kind) {
        case 0: v = a + b; break;
        case 1: v = a - b; break;
        case 2: v = (a + b + (a + b >= 0 ? 1 : 0)) >> 1; break;
        case 3: v = a < b ? b - a : a - b; break;
        case 4: v = std::min(a, b); break;
        case 5: v = std::max(a, b); break;
        default: {
          const auto how = static_cast<compare>(i.imm);
          v = how == compare::eq ? a == b : how == compare::ne ? a != b : how == compare::lt ? a < b : how == compare::le ? a <= b : how == compare::gt ? a > b : a >= b;
        }
      }
      if (i.mode.sat) v = std::clamp(v, low, high);
      sum += i.mode.relu ? sign_extended(static_cast<u64>(v), width) : static_cast<s64>(static_cast<u64>(v) & keep);
      out |= (static_cast<u32>(v) & keep) << (width * p);
    }
    words(r, i.d)[l] = i.mode.absolute ? static_cast<u32>(sum) : out;
  });
}
void mad_hi_sat(std::byte* r, const instruction& i, lanes m) {
  apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) {
    const s64 p = i.mode.kind == 1 ? sign_extended(a, 24) * sign_extended(b, 24) >> 16 : s64{static_cast<s32>(a)} * static_cast<s32>(b) >> 32;
    return static_cast<u64>(static_cast<u32>(std::clamp<s64>(static_cast<s32>(p) + s64{static_cast<s32>(c)}, INT32_MIN, INT32_MAX)));
  });
}
template <bool Left> void shf(std::byte* r, const instruction& i, lanes m) {
  apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) {
    const u32 n = i.mode.wrap ? static_cast<u32>(c) & 31U : std::min<u32>(static_cast<u32>(c), 32U);
    const u64 both = b << 32 | (a & 0xFFFFFFFFU);
    return Left ? (n == 32 ? a : both << n >> 32) : both >> n;
  });
}
void dp4a(std::byte* r, const instruction& i, lanes m) {
  apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) {
    u32 sum = static_cast<u32>(c);
    for (int k = 0; k < 4; ++k) {
      const u32 x = static_cast<u32>(a >> (8 * k)) & 0xFFU, y = static_cast<u32>(b >> (8 * k)) & 0xFFU;
      const s32 p = i.mode.kind & 1 ? static_cast<std::int8_t>(x) : static_cast<s32>(x), q = i.mode.kind & 2 ? static_cast<std::int8_t>(y) : static_cast<s32>(y);
      sum += static_cast<u32>(p * q);
    }
    return u64{sum};
  });
}
void dp2a(std::byte* r, const instruction& i, lanes m) {
  apply3<32>(r, i, m, [&](u64 a, u64 b, u64 c) {
    u32 sum = static_cast<u32>(c);
    for (int k = 0; k < 2; ++k) {
      const u32 x = static_cast<u32>(a >> (16 * k)) & 0xFFFFU, y = static_cast<u32>(b >> (8 * (k + (i.mode.hi ? 2 : 0)))) & 0xFFU;
      const s32 p = i.mode.kind & 1 ? static_cast<s16>(x) : static_cast<s32>(x), q = i.mode.kind & 2 ? static_cast<std::int8_t>(y) : static_cast<s32>(y);
      sum += static_cast<u32>(p * q);
    }
    return u64{sum};
  });
}
template <int W> void slct(std::byte* r, const instruction& i, lanes m) {  // mode.from: f32 or s32
  each(m, [&](int l) {
    const u32 c = words(r, i.c)[l];
    const bool first = i.mode.from == scalar::f32 ? (i.mode.ftz ? flush_f32(single(c)) : single(c)) >= 0.0F : static_cast<s32>(c) >= 0;
    write(r, i.d, W, l, read(r, first ? i.a : i.b, W, l));
  });
}
void fns(std::byte* r, const instruction& i, lanes m) {
  apply3<32>(r, i, m, [](u64 mask, u64 base, u64 offset) -> u64 {
    const s32 n = static_cast<s32>(offset);
    int left = n == 0 ? 1 : std::abs(n);
    for (s32 at = static_cast<s32>(base); at >= 0 && at < 32; at += n < 0 ? -1 : 1) {
      if (n == 0) return mask >> at & 1U ? static_cast<u64>(at) : 0xFFFFFFFFU;
      if (mask >> at & 1U && --left == 0) return static_cast<u64>(at);
    }
    return 0xFFFFFFFFU;
  });
}
void bmsk(std::byte* r, const instruction& i, lanes m) {
  apply2<32>(r, i, m, [&](u64 a, u64 b) -> u64 {
    const u32 first = i.mode.wrap ? static_cast<u32>(a) & 31U : static_cast<u32>(std::min<u64>(a, 32)), count = i.mode.wrap ? static_cast<u32>(b) & 31U : static_cast<u32>(std::min<u64>(b, 32));
    return (((u64{1} << count) - 1) << first) & 0xFFFFFFFFU;
  });
}
template <bool S> void szext(std::byte* r, const instruction& i, lanes m) {
  apply2<32>(r, i, m, [&](u64 a, u64 b) -> u64 {
    const u32 n = i.mode.wrap ? static_cast<u32>(b) & 31U : static_cast<u32>(std::min<u64>(b, 32));
    if (n == 0) return 0;
    if (n >= 32) return a;
    const u64 low = a & ((u64{1} << n) - 1);
    return S && (low >> (n - 1) & 1U) ? low | (0xFFFFFFFFU & ~((u64{1} << n) - 1)) : low;
  });
}
template <bool S> void mul24(std::byte* r, const instruction& i, lanes m) {
  each(m, [&](int l) {
    const s64 a = S ? sign_extended(words(r, i.a)[l], 24) : static_cast<s64>(words(r, i.a)[l] & 0xFFFFFFU), b = S ? sign_extended(words(r, i.b)[l], 24) : static_cast<s64>(words(r, i.b)[l] & 0xFFFFFFU);
    u64 v = static_cast<u64>(a * b);
    if (i.mode.hi) v >>= 16;
    if (i.mode.kind) v += words(r, i.c)[l];
    words(r, i.d)[l] = static_cast<u32>(v);
  });
}

// ---- set: all ones or 1.0
template <class T> bool compare_values(compare how, T a, T b) {
  switch (how) {
    case compare::eq: return a == b;
    case compare::ne: return a != b;
    case compare::lt: case compare::lo: return a < b;
    case compare::le: case compare::ls: return a <= b;
    case compare::gt: case compare::hi: return a > b;
    default: return a >= b;
  }
}
void set(std::byte* r, const instruction& i, lanes m) {
  const auto how = static_cast<compare>(i.mode.kind);
  const scalar from = i.mode.from;
  if (from == scalar::f16x2 || from == scalar::bf16x2) {  // each half on its own; the predicate goes with both
    const number n = number_of(from);
    const u32 one = i.mode.to == scalar::f16x2 ? 0x3C00U : i.mode.to == scalar::bf16x2 ? 0x3F80U : 0xFFFFU;
    each(m, [&](int l) {
      const u32 a = words(r, i.a)[l], b = words(r, i.b)[l];
      u32 out = 0;
      for (int h = 0; h < 2; ++h) {
        const auto half = [&](u32 x) { return static_cast<double>(widen(n, x >> (16 * h) & 0xFFFFU)); };
        if (combined(i, r, l, compare_floats(how, half(a), half(b)))) out |= one << (16 * h);
      }
      words(r, i.d)[l] = out;
    });
    return;
  }
  each(m, [&](int l) {
    bool v;
    if (from == scalar::f16x2 || from == scalar::bf16x2) {  // two results, 1.0 or 0 each (or all ones in each half)
      const number n = from == scalar::f16x2 ? number::f16 : number::bf16;
      u32 a = words(r, i.a)[l], b = words(r, i.b)[l], both = 0;
      if (i.mode.ftz) a = n == number::f16 ? flush_halves<number::f16>(a) : flush_halves<number::bf16>(a), b = n == number::f16 ? flush_halves<number::f16>(b) : flush_halves<number::bf16>(b);
      const u32 one = i.mode.to == scalar::f16x2 ? 0x3C00U : i.mode.to == scalar::bf16x2 ? 0x3F80U : 0xFFFFU;
      for (int h = 0; h < 32; h += 16)
        if (combined(i, r, l, compare_floats(how, static_cast<double>(widen(n, a >> h & 0xFFFFU)), static_cast<double>(widen(n, b >> h & 0xFFFFU))))) both |= one << h;
      words(r, i.d)[l] = both;
      return;
    }
    if (is_float(from)) v = compare_floats(how, read_real(r, i.a, from, l, i.mode.ftz), read_real(r, i.b, from, l, i.mode.ftz));
    else {
      const int width = bits_of(from);
      const u64 a = read(r, i.a, width_of(from), l), b = read(r, i.b, width_of(from), l);
      const u64 keep = width == 64 ? ~u64{0} : (u64{1} << width) - 1;
      v = is_signed(from) ? compare_values(how, sign_extended(a, width), sign_extended(b, width)) : compare_values(how, a & keep, b & keep);
    }
    v = combined(i, r, l, v);
    u32 out = v ? 0xFFFFFFFFU : 0U;
    if (i.mode.to == scalar::f32) out = v ? 0x3F800000U : 0U;
    else if (i.mode.to == scalar::f16) out = v ? 0x3C00U : 0U;
    else if (i.mode.to == scalar::bf16) out = v ? 0x3F80U : 0U;
    words(r, i.d)[l] = out;
  });
}

// ---- carries. e is the carry register (one bit a lane). mode.kind: 1 reads the carry, 2 writes it, 3 both. A subtraction adds the complement, as the hardware does: its
// flag is set when nothing was borrowed, and nvcc's 128-bit division reads it so with addc. (Between sub.cc and subc it makes no difference.)
template <int W, bool Subtract> void carry(std::byte* r, const instruction& i, lanes m) {
  each(m, [&](int l) {
    const u64 a = read(r, i.a, W, l), b = read(r, i.b, W, l);
    const u64 in = i.mode.kind & 1 ? (bit_at(r, i.e, l) ? 1U : 0U) : Subtract ? 1U : 0U;
    __extension__ typedef unsigned __int128 wide;
    const u64 keep = W == 64 ? ~u64{0} : 0xFFFFFFFFU;
    const wide v = static_cast<wide>(a) + (Subtract ? ~b & keep : b) + in;
    write(r, i.d, W, l, static_cast<u64>(v));
    if (i.mode.kind & 2) set_bit(r, i.e, l, static_cast<u64>(v >> W) & 1U);
  });
}
template <int W, bool S> void mad_carry(std::byte* r, const instruction& i, lanes m) {  // mode.hi selects the half
  each(m, [&](int l) {
    __extension__ typedef unsigned __int128 wide;
    __extension__ typedef __int128 signed_wide;
    const u64 a = read(r, i.a, W, l), b = read(r, i.b, W, l), c = read(r, i.c, W, l);
    wide p = S ? static_cast<wide>(static_cast<signed_wide>(sign_extended(a, W)) * sign_extended(b, W)) : static_cast<wide>(a) * b;
    if (i.mode.hi) p >>= W;
    p &= W == 64 ? static_cast<wide>(~u64{0}) : static_cast<wide>(0xFFFFFFFFU);
    const wide v = p + c + (i.mode.kind & 1 ? (bit_at(r, i.e, l) ? 1U : 0U) : 0U);
    write(r, i.d, W, l, static_cast<u64>(v));
    if (i.mode.kind & 2) set_bit(r, i.e, l, static_cast<u64>(v >> W) & 1U);
  });
}
void add_sat(std::byte* r, const instruction& i, lanes m) { apply2<32>(r, i, m, [](u64 a, u64 b) { return static_cast<u64>(static_cast<u32>(std::clamp<s64>(s64{static_cast<s32>(a)} + static_cast<s32>(b), INT32_MIN, INT32_MAX))); }); }
void sub_sat(std::byte* r, const instruction& i, lanes m) { apply2<32>(r, i, m, [](u64 a, u64 b) { return static_cast<u64>(static_cast<u32>(std::clamp<s64>(s64{static_cast<s32>(a)} - static_cast<s32>(b), INT32_MIN, INT32_MAX))); }); }
template <bool Max> void extreme_relu(std::byte* r, const instruction& i, lanes m) { apply2<32>(r, i, m, [](u64 a, u64 b) { const s32 x = static_cast<s32>(a), y = static_cast<s32>(b); return static_cast<u64>(static_cast<u32>(std::max(0, Max ? std::max(x, y) : std::min(x, y)))); }); }
template <class T, int Op> void packed16(std::byte* r, const instruction& i, lanes m) {  // u16x2, s16x2: 0 add, 1 min, 2 max
  apply2<32>(r, i, m, [&](u64 a, u64 b) {
    u64 out = 0;
    for (int h = 0; h < 2; ++h) {
      const T x = static_cast<T>(a >> (16 * h)), y = static_cast<T>(b >> (16 * h));
      T v = Op == 0 ? static_cast<T>(x + y) : Op == 1 ? std::min(x, y) : std::max(x, y);
      if (i.mode.relu) v = std::max(v, T{0});
      out |= static_cast<u64>(static_cast<u16>(v)) << (16 * h);
    }
    return out;
  });
}

// ---- mov between a register and a vector. a, b, c, e are the elements, lowest first; mode.kind counts them; mode.from is the element, mode.to the whole.
void pack(std::byte* r, const instruction& i, lanes m) {
  const int count = i.mode.kind, width = bits_of(i.mode.from);
  const u32 at[4] = {i.a, i.b, i.c, i.e};
  each(m, [&](int l) {
    if (bits_of(i.mode.to) == 128) {
      for (int k = 0; k < 2; ++k) {
        const u64 v = count == 2 ? longs(r, at[k])[l] : words(r, at[2 * k])[l] | u64{words(r, at[2 * k + 1])[l]} << 32;
        longs(r, i.d + 256U * static_cast<u32>(k))[l] = v;
      }
      return;
    }
    u64 v = 0;
    for (int k = 0; k < count; ++k) v |= (static_cast<u64>(words(r, at[k])[l]) & ((u64{1} << width) - 1)) << (width * k);
    write(r, i.d, width_of(i.mode.to), l, v);
  });
}
void unpack(std::byte* r, const instruction& i, lanes m) {
  const int count = i.mode.kind, width = bits_of(i.mode.to);
  const u32 at[4] = {i.d, i.d2, i.c, i.e};
  each(m, [&](int l) {
    if (bits_of(i.mode.from) == 128) {
      for (int k = 0; k < count; ++k) {
        if (at[k] == no_slot) continue;
        const u64 v = longs(r, i.a + 256U * static_cast<u32>(count == 2 ? k : k / 2))[l];
        if (count == 2) longs(r, at[k])[l] = v;
        else words(r, at[k])[l] = static_cast<u32>(v >> (32 * (k & 1)));
      }
      return;
    }
    const u64 v = read(r, i.a, width_of(i.mode.from), l);
    for (int k = 0; k < count; ++k) if (at[k] != no_slot) words(r, at[k])[l] = static_cast<u32>(v >> (width * k) & ((u64{1} << width) - 1));
  });
}
void mov128(std::byte* r, const instruction& i, lanes m) {
  each(m, [&](int l) { const u64 x = longs(r, i.a)[l], y = longs(r, i.a + 256)[l]; longs(r, i.d)[l] = x; longs(r, i.d + 256)[l] = y; });
}

template <class F> void pairs2(std::byte* r, const instruction& i, lanes m, F f) {
  apply2<64>(r, i, m, [&](u64 a, u64 b) { return bits_of_float(f(single(a), single(b))) | bits_of_float(f(single(a >> 32), single(b >> 32))) << 32; });
}
void add_ff(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); pairs2(r, i, m, [&](float a, float b) { return add_f32(a, b, k); }); }
void sub_ff(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); pairs2(r, i, m, [&](float a, float b) { return add_f32(a, -b, k); }); }
void mul_ff(std::byte* r, const instruction& i, lanes m) { const auto k = mode_of(i); pairs2(r, i, m, [&](float a, float b) { return mul_f32(a, b, k); }); }
void fma_ff(std::byte* r, const instruction& i, lanes m) {
  const auto k = mode_of(i);
  apply3<64>(r, i, m, [&](u64 a, u64 b, u64 c) { return bits_of_float(fma_f32(single(a), single(b), single(c), k)) | bits_of_float(fma_f32(single(a >> 32), single(b >> 32), single(c >> 32), k)) << 32; });
}

template <number N, bool P> alu_function half(alu op) {
  switch (op) {
    case alu::add: return add_h<N, P>;
    case alu::sub: return sub_h<N, P>;
    case alu::mul: return mul_h<N, P>;
    case alu::fma: return fma_h<N, P>;
    case alu::neg: return sign_h<N, P, true>;
    case alu::abs: return sign_h<N, P, false>;
    case alu::minimum: return extreme_h<N, P, false>;
    case alu::maximum: return extreme_h<N, P, true>;
    case alu::setp: return setp_h<N, P>;
    case alu::approximate: return approx_h<N, P>;
    default: return nullptr;
  }
}
bool packed_narrow(scalar t) { return t >= scalar::e4m3x2 && t <= scalar::ue8m0x2; }

}  // namespace

alu_function find_rare(alu op, scalar t, const arithmetic_mode& mode) {
  const int width = bits_of(t);
  const bool s = is_signed(t);
  switch (op) {
    case alu::pack: return pack;
    case alu::unpack: return unpack;
    case alu::set: return set;
    case alu::prmt: return prmt;
    case alu::lop3: return mode.kind ? lop3_predicate : lop3;
    case alu::pack_saturated: return pack_saturated;
    case alu::video: return video;
    case alu::mad_hi: return s && width == 32 && mode.sat ? mad_hi_sat : nullptr;
    case alu::shf_l: return shf<true>;
    case alu::shf_r: return shf<false>;
    case alu::dp4a: return dp4a;
    case alu::dp2a: return dp2a;
    case alu::fns: return fns;
    case alu::bmsk: return bmsk;
    case alu::szext: return s ? szext<true> : szext<false>;
    case alu::mul24: return s ? mul24<true> : mul24<false>;
    case alu::popc: return width == 64 ? popc<64> : popc<32>;
    case alu::clz: return width == 64 ? clz<64> : clz<32>;
    case alu::brev: return width == 64 ? brev<64> : brev<32>;
    case alu::bfind: return width == 64 ? (s ? bfind<64, true> : bfind<64, false>) : s ? bfind<32, true> : bfind<32, false>;
    case alu::bfe: return width == 64 ? (s ? bfe<64, true> : bfe<64, false>) : s ? bfe<32, true> : bfe<32, false>;
    case alu::bfi: return width == 64 ? bfi<64> : bfi<32>;
    case alu::slct: return width == 64 ? slct<64> : slct<32>;
    case alu::addc: return width == 64 ? carry<64, false> : carry<32, false>;
    case alu::subc: return width == 64 ? carry<64, true> : carry<32, true>;
    case alu::madc_lo: return width == 64 ? (s ? mad_carry<64, true> : mad_carry<64, false>) : s ? mad_carry<32, true> : mad_carry<32, false>;
    case alu::cvt: {
      const scalar to = mode.to, from = mode.from;
      const bool to_int = to >= scalar::u8 && to <= scalar::s64, from_int = from >= scalar::u8 && from <= scalar::s64;
      if (to_int && from_int) return cvt_integer_saturated;
      const auto one = [](scalar x) { return x == scalar::f16 || x == scalar::bf16 || x == scalar::f32 || x == scalar::f64 || x == scalar::tf32; };
      if (to_int && one(from)) return cvt_real_to_integer;
      if (from_int && one(to)) return cvt_integer_to_real;
      if (one(to) && one(from)) return cvt_real_to_real;
      const bool half_pair = to == scalar::f16x2 || to == scalar::bf16x2;
      if (half_pair && packed_narrow(from)) return cvt_unpack;
      if ((half_pair || packed_narrow(to) || (to >= scalar::e4m3x4 && to <= scalar::e2m1x4)) && (from == scalar::f32 || from == scalar::f16x2 || from == scalar::bf16x2)) return cvt_pack;
      return nullptr;
    }
    default: break;
  }
  switch (t) {
    case scalar::f32:
      switch (op) {
        case alu::add: return add_f;
        case alu::sub: return sub_f;
        case alu::mul: return mul_f;
        case alu::fma: return fma_f;
        case alu::div: return div_f;
        case alu::rcp: return rcp_f;
        case alu::sqrt: return sqrt_f;
        case alu::approximate: return approx_f;
        case alu::minimum: return extreme_f<false>;
        case alu::maximum: return extreme_f<true>;
        case alu::minimum3: return extreme3_f<false>;
        case alu::maximum3: return extreme3_f<true>;
        case alu::copysign: return copysign_f;
        case alu::testp: return testp<32>;
        default: return nullptr;
      }
    case scalar::f64:
      switch (op) {
        case alu::add: return add_d;
        case alu::sub: return sub_d;
        case alu::mul: return mul_d;
        case alu::fma: return fma_d;
        case alu::div: return div_d;
        case alu::rcp: return rcp_d;
        case alu::sqrt: return sqrt_d;
        case alu::approximate: return approx_d;
        case alu::minimum: return extreme_d<false>;
        case alu::maximum: return extreme_d<true>;
        case alu::copysign: return copysign_d;
        case alu::testp: return testp<64>;
        default: return nullptr;
      }
    case scalar::f32x2:
      switch (op) {
        case alu::add: return add_ff;
        case alu::sub: return sub_ff;
        case alu::mul: return mul_ff;
        case alu::fma: return fma_ff;
        default: return nullptr;
      }
    case scalar::f16: return half<number::f16, false>(op);
    case scalar::f16x2: return half<number::f16, true>(op);
    case scalar::bf16: return half<number::bf16, false>(op);
    case scalar::bf16x2: return half<number::bf16, true>(op);
    case scalar::s32:
      if (mode.relu && op == alu::minimum) return extreme_relu<false>;
      if (mode.relu && op == alu::maximum) return extreme_relu<true>;
      if (op == alu::add && mode.sat) return add_sat;
      if (op == alu::sub && mode.sat) return sub_sat;
      return nullptr;
    case scalar::b128: return op == alu::mov ? mov128 : nullptr;
    case scalar::u16: case scalar::s16:
      // With mode.kind 2 the operation is on packed pairs (u16x2, s16x2).
      if (mode.kind == 2 && op == alu::add) return packed16<u16, 0>;
      if (mode.kind == 2 && op == alu::minimum) return s ? packed16<s16, 1> : packed16<u16, 1>;
      if (mode.kind == 2 && op == alu::maximum) return s ? packed16<s16, 2> : packed16<u16, 2>;
      return nullptr;
    default: return nullptr;
  }
}

}  // namespace tlx::sim
