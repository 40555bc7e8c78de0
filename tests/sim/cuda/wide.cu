// 128-bit integers, big rotations, byte and bit tricks, integer dot products, float special cases and classification.
#include "case.h"
__host__ __device__ inline unsigned f2u(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
__host__ __device__ inline float u2f(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
template <class Put> __host__ __device__ void all(unsigned a, unsigned b, unsigned long long c, Put put) {
  unsigned __int128 w = (unsigned __int128)c * ((unsigned long long)a << 32 | b); put((unsigned)w); put((unsigned)(w >> 64)); put((unsigned)(w >> 96)); unsigned __int128 q = w / ((unsigned __int128)b << 20 | 77); put((unsigned)q); put((unsigned)(w % (a | 1)));
  __int128 sg = -(__int128)c * (int)a; put((unsigned)(sg >> 70));
  put((unsigned)(c / (a | 1))); put((unsigned)((long long)c % (int)(b | 1))); put((unsigned)(c << (b & 63))); put((unsigned)((long long)c >> (a & 63))); put(a << (b & 31) | a >> (31 & -b));
  int cls = 0; float f = u2f(a), g = u2f(b); cls |= f != f; cls |= (f < g) << 1; cls |= (f <= g) << 2; cls |= (f == g) << 3; cls |= !(f >= g) << 4; cls |= (f2u(f) << 1 > 0xFF000000u) << 5; put(cls);
  put((unsigned)((int)(short)a * (int)(signed char)b)); put(a % 10 + b / 10 * 7); put((unsigned)((unsigned short)a / (unsigned short)(b | 1)));
  double d = (double)(long long)c, e = (double)c; put((unsigned)(long long)(d * 0.37)); put((unsigned)(unsigned long long)(e * 1e-3)); put((unsigned)(int)((float)(int)a * 0.001f)); put(f2u((float)c)); put(f2u((float)(long long)c));
}
extern "C" __global__ void wide(const unsigned* a, const unsigned* b, const unsigned long long* c, unsigned* y, unsigned* z) {
  int i = threadIdx.x, k = 0, n = blockDim.x; all(a[i], b[i], c[i], [&](unsigned v) { y[k++ * n + i] = v; });
  z[i] = __popcll(c[i]) + 100 * __clz(a[i]) + 10000 * __ffsll(c[i]) + 1000000 * (__brev(b[i]) & 15); z[n + i] = __dp4a((int)a[i], (int)b[i], 5); z[2 * n + i] = __byte_perm(a[i], b[i], 0x2705); z[3 * n + i] = __funnelshift_l(a[i], b[i], i); z[4 * n + i] = __umulhi(a[i], b[i]) + (unsigned)__mul64hi((long long)c[i], 123456789012345ll); z[5 * n + i] = __vadd4(a[i], b[i]) ^ __vmaxs2(a[i], b[i]) ^ __vabsdiffu4(a[i], b[i]); z[6 * n + i] = __sad((int)a[i], (int)b[i], 3u) + __uhadd(a[i], b[i]);
}
#ifndef __CUDA_ARCH__
int main(int, char** ar) {
  uint32_t s = 14; const int n = 64; std::vector<unsigned> a(n), b(n), y(20 * n), z(7 * n); std::vector<unsigned long long> c(n);
  for (int i = 0; i < n; ++i) { a[i] = lcg(s) << 8 ^ lcg(s); b[i] = lcg(s) << 8 ^ lcg(s); c[i] = (unsigned long long)lcg(s) << 40 ^ (unsigned long long)lcg(s) << 17 ^ lcg(s); } a[0] = 0x7FC00000; b[1] = a[1]; a[2] = 0x80000000; b[2] = 0;
  for (int i = 0; i < n; ++i) { int k = 0; all(a[i], b[i], c[i], [&](unsigned v) { y[k++ * n + i] = v; });
    unsigned rev = 0; for (int q = 0; q < 32; ++q) rev |= (b[i] >> q & 1) << (31 - q); z[i] = __builtin_popcountll(c[i]) + 100 * (a[i] ? __builtin_clz(a[i]) : 32) + 10000 * __builtin_ffsll(c[i]) + 1000000 * (rev & 15);
    int dot = 5; for (int q = 0; q < 4; ++q) dot += (int)(signed char)(a[i] >> 8 * q) * (int)(signed char)(b[i] >> 8 * q); z[n + i] = dot;
    unsigned char by[8]; memcpy(by, &a[i], 4); memcpy(by + 4, &b[i], 4); z[2 * n + i] = by[5] | by[0] << 8 | by[7] << 16 | (unsigned)by[2] << 24; z[3 * n + i] = (unsigned)((((unsigned long long)b[i] << 32 | a[i]) << (i & 31)) >> 32);
    z[4 * n + i] = (unsigned)((unsigned long long)a[i] * b[i] >> 32) + (unsigned)(long long)((__int128)(long long)c[i] * 123456789012345ll >> 64);
    unsigned v4 = 0, m2 = 0, d4 = 0; for (int q = 0; q < 4; ++q) { unsigned char p = a[i] >> 8 * q, r = b[i] >> 8 * q; v4 |= (unsigned)(unsigned char)(p + r) << 8 * q; d4 |= (unsigned)(unsigned char)(p > r ? p - r : r - p) << 8 * q; } for (int q = 0; q < 2; ++q) { short p = a[i] >> 16 * q, r = b[i] >> 16 * q; m2 |= (unsigned)(unsigned short)std::max(p, r) << 16 * q; }
    z[5 * n + i] = v4 ^ m2 ^ d4; long long diff = (long long)(int)a[i] - (int)b[i]; z[6 * n + i] = (unsigned)(diff < 0 ? -diff : diff) + 3 + (unsigned)(((unsigned long long)a[i] + b[i]) >> 1); }
  case_writer w{ar[1], "wide", "sm_90a", 1, n}; w.input("a", "u32", a); w.input("b", "u32", b); w.input("c", "u64", c); w.output("y", "u32", y); w.output("z", "u32", z); w.write();
}
#endif
