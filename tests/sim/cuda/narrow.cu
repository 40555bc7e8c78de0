// Conversions to and from fp8, fp6, fp4 and e8m0 by instruction; the host emulates them.
#include <cuda_fp8.h>
#include <cuda_fp6.h>
#include <cuda_fp4.h>
#include "case.h"
template <class Put> __host__ __device__ void all(float2 v, unsigned bits, Put put) {
  put(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E4M3)); put(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E5M2));
  put(__nv_cvt_float2_to_fp6x2(v, __NV_E2M3, cudaRoundNearest)); put(__nv_cvt_float2_to_fp6x2(v, __NV_E3M2, cudaRoundNearest)); put(__nv_cvt_float2_to_fp4x2(v, __NV_E2M1, cudaRoundNearest));
  put(__nv_cvt_float2_to_e8m0x2(v, __NV_SATFINITE, cudaRoundZero)); put(__nv_cvt_float2_to_e8m0x2(v, __NV_SATFINITE, cudaRoundPosInf));
  __half2_raw h = __nv_cvt_fp8x2_to_halfraw2(bits & 0xFFFF, __NV_E4M3); put(h.x | (unsigned)h.y << 16); h = __nv_cvt_fp8x2_to_halfraw2(bits & 0xFFFF, __NV_E5M2); put(h.x | (unsigned)h.y << 16);
  h = __nv_cvt_fp6x2_to_halfraw2(bits & 0x3F3F, __NV_E2M3); put(h.x | (unsigned)h.y << 16); h = __nv_cvt_fp6x2_to_halfraw2(bits & 0x3F3F, __NV_E3M2); put(h.x | (unsigned)h.y << 16);
  h = __nv_cvt_fp4x2_to_halfraw2(bits & 0xFF, __NV_E2M1); put(h.x | (unsigned)h.y << 16); __nv_bfloat162_raw b = __nv_cvt_e8m0x2_to_bf162raw(bits & 0xFFFF); put(b.x | (unsigned)b.y << 16);
}
extern "C" __global__ void narrow(const float2* x, const unsigned* bits, unsigned* y) { int i = threadIdx.x, k = 0, n = blockDim.x; all(x[i], bits[i], [&](unsigned v) { y[k++ * n + i] = v; }); }
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 9; const int n = 256; std::vector<float> x(2 * n); std::vector<unsigned> b(n), y(13 * n);
  for (int i = 0; i < 2 * n; ++i) { int e = (int)(lcg(s) % 40) - 24; x[i] = ldexpf(uniform(s), e); if (x[i] == 0) x[i] = 1; } x[0] = 448; x[1] = -500; x[2] = 7.25f; x[3] = -28; x[4] = INFINITY; x[5] = 5; x[6] = 1e-9f; x[7] = -6;
  for (auto& v : b) v = lcg(s); for (int i = 0; i < n; ++i) if (i < 256) b[i] = (b[i] & ~0xFFu) | i;
  for (int i = 0; i < n; ++i) { int k = 0; float2 v; v.x = x[2 * i]; v.y = x[2 * i + 1]; all(v, b[i], [&](unsigned r) { y[k++ * n + i] = r; }); }
  case_writer c{a[1], "narrow", "sm_100a", 1, 256}; c.input("x", "f32", x); c.input("bits", "u32", b); c.output("y", "u32", y); c.write();
}
#endif
