// half2 and bfloat162 arithmetic, comparisons and conversions, each rounded once; the host emulates them.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cmath>
#include "case.h"
__host__ __device__ inline unsigned bits_of(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
union word { __host__ __device__ word() : u(0) {} __host__ __device__ word(const word& o) : u(o.u) {} unsigned u; __half2 h; __nv_bfloat162 b; };
__host__ __device__ inline __nv_bfloat162 fma_bf16(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
#ifdef __CUDA_ARCH__
  return __hfma2(a, b, c);
#else
  const auto one = [](__nv_bfloat16 x, __nv_bfloat16 y, __nv_bfloat16 z) { return __double2bfloat16(fma((double)__bfloat162float(x), (double)__bfloat162float(y), (double)__bfloat162float(z))); };
  __nv_bfloat162 r; r.x = one(a.x, b.x, c.x); r.y = one(a.y, b.y, c.y); return r;
#endif
}
__host__ __device__ inline __half2 fma_any(__half2 a, __half2 b, __half2 c) {
#ifdef __CUDA_ARCH__
  return __hfma2(a, b, c);
#else
  const auto one = [](__half x, __half y, __half z) { return __double2half(fma((double)__half2float(x), (double)__half2float(y), (double)__half2float(z))); };
  __half2 r; r.x = one(a.x, b.x, c.x); r.y = one(a.y, b.y, c.y); return r;
#endif
}
__host__ __device__ inline __nv_bfloat162 fma_any(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) { return fma_bf16(a, b, c); }
template <class T> __host__ __device__ T fma_relu(T a, T b, T c) {
#ifdef __CUDA_ARCH__
  return __hfma2_relu(a, b, c);
#else
  T zero; memset(&zero, 0, sizeof zero); return __hmax2(fma_any(a, b, c), zero);
#endif
}
template <class Put> __host__ __device__ void all(word x, word z, Put put) {
  word r;
  r.h = __hadd2_rn(x.h, z.h); put(r.u); r.h = __hsub2(x.h, z.h); put(r.u); r.h = __hmul2_rn(x.h, z.h); put(r.u); r.h = fma_any(x.h, z.h, x.h); put(r.u);
  r.h = __hmin2(x.h, z.h); put(r.u); r.h = __hmax2_nan(x.h, z.h); put(r.u); r.h = fma_relu(x.h, z.h, z.h); put(r.u); r.h = __hadd2_sat(x.h, z.h); put(r.u);
  r.h = __hneg2(__habs2(x.h)); put(r.u); put(__hgt2_mask(x.h, z.h)); put(__heq2_mask(x.h, z.h)); r.h = __hle2(x.h, z.h); put(r.u);
  r.b = __hadd2_rn(x.b, z.b); put(r.u); r.b = __hsub2(x.b, z.b); put(r.u); r.b = __hmul2_rn(x.b, z.b); put(r.u); r.b = fma_bf16(x.b, z.b, x.b); put(r.u);
  r.b = __hmin2(x.b, z.b); put(r.u); r.b = __hmax2_nan(x.b, z.b); put(r.u); r.b = fma_relu(x.b, z.b, z.b); put(r.u); put(__hlt2_mask(x.b, z.b));
  float2 f = __half22float2(x.h); put(bits_of(f.x)); put(bits_of(f.y)); float2 g = __bfloat1622float2(z.b); put(bits_of(g.x * 3.1f));
  r.h = __floats2half2_rn(g.x, g.y); put(r.u); r.b = __floats2bfloat162_rn(f.x * 1.7f, f.y); put(r.u);
  put(__half_as_ushort(__float2half_rz(g.x))); put(__half_as_ushort(__float2half_ru(g.y))); put(__bfloat16_as_ushort(__float2bfloat16_rz(f.x * 1.3f))); put(__bfloat16_as_ushort(__float2bfloat16_rd(f.y * 1.3f)));
  put((unsigned)__half2int_rz(x.h.x)); put(__half_as_ushort(__int2half_rn((int)x.u >> 12))); put((unsigned)__bfloat162int_rz(x.b.x)); put(__bfloat16_as_ushort(__int2bfloat16_rn((int)z.u)));
  put(__half_as_ushort(__double2half(1.0000001 * (double)f.x))); put(__bfloat16_as_ushort(__double2bfloat16(1.003 * (double)g.y))); put(__half_as_ushort(__float2half(g.x * 1e-6f)));
}
extern "C" __global__ void half_kernel(const unsigned* a, const unsigned* b, unsigned* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x, k = 0;
  word x, z; x.u = a[i]; z.u = b[i];
  all(x, z, [&](unsigned v) { y[k++ * n + i] = v; });
}
#ifndef __CUDA_ARCH__
int main(int, char** ar) {
  uint32_t s = 10; const int n = 256; std::vector<unsigned> a(n), b(n), y; 
  const auto finite = [&] { unsigned v = 0; for (int k = 0; k < 2; ++k) { unsigned h = lcg(s) & 0xFFFF; h = (h & 0x83FF) | ((10 + lcg(s) % 9) << 10); v |= h << (16 * k); } return v; };
  for (int i = 0; i < n; ++i) { a[i] = finite(); b[i] = finite(); if (i % 5 == 0) b[i] = (b[i] & 0xFFFF) | (a[i] & 0xFFFF0000); }
  a[0] = 0x3C003C00; b[0] = 0x80000000; a[1] = 0x00010001; b[1] = 0x3C000001;
  std::vector<std::vector<unsigned>> rows;
  for (int i = 0; i < n; ++i) { std::vector<unsigned> r; word x, z; x.u = a[i]; z.u = b[i]; all(x, z, [&](unsigned v) { r.push_back(v); }); rows.push_back(r); }
  for (size_t k = 0; k < rows[0].size(); ++k) for (int i = 0; i < n; ++i) y.push_back(rows[i][k]);
  case_writer c{ar[1], "half_kernel", "sm_90a", 2, 128}; c.input("a", "u32", a); c.input("b", "u32", b); c.output("y", "u32", y); c.write();
}
#endif
