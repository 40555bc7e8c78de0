// A small GEMM by ldmatrix and mma.sync with cp.async stages, in bf16 and in int8, and Philox random numbers.
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <curand_philox4x32_x.h>
#include <cmath>
#include "case.h"
__device__ void load4(unsigned (&r)[4], const void* p) { unsigned a = (unsigned)__cvta_generic_to_shared(p); asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory"); }
__device__ void load2t(unsigned (&r)[2], const void* p) { unsigned a = (unsigned)__cvta_generic_to_shared(p); asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a) : "memory"); }
extern "C" __global__ void matrix(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, const signed char* ia, const signed char* ib, int* ic, unsigned* random) {
  __shared__ alignas(16) __nv_bfloat16 sa[2][32][24], sb[2][16][40];
  int t = threadIdx.x, w = t / 32, l = t % 32, m0 = w / 2 * 16, n0 = w % 2 * 16;
  const auto stage = [&](int k) {
    if (t < 64) __pipeline_memcpy_async(&sa[k & 1][t / 2][t % 2 * 8], a + t / 2 * 64 + k * 16 + t % 2 * 8, 16);
    else __pipeline_memcpy_async(&sb[k & 1][(t - 64) / 4][(t - 64) % 4 * 8], b + (k * 16 + (t - 64) / 4) * 32 + (t - 64) % 4 * 8, 16);
    __pipeline_commit();
  };
  float d[2][4] = {};
  stage(0);
  for (int k = 0; k < 4; ++k) {
    if (k + 1 < 4) { stage(k + 1); __pipeline_wait_prior(1); } else __pipeline_wait_prior(0);
    __syncthreads();
    unsigned ra[4]; load4(ra, &sa[k & 1][m0 + l % 16][l / 16 * 8]);
    for (int j = 0; j < 2; ++j) {
      unsigned rb[2]; load2t(rb, &sb[k & 1][l % 16][n0 + j * 8]);
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    }
    __syncthreads();
  }
  for (int j = 0; j < 2; ++j) for (int e = 0; e < 4; ++e) c[(m0 + l / 4 + e / 2 * 8) * 32 + n0 + j * 8 + l % 4 * 2 + e % 2] = d[j][e];
  if (w == 0) {
    int acc[4] = {}; const unsigned* pa = (const unsigned*)ia; const unsigned* pb = (const unsigned*)ib;
    unsigned x0 = pa[(l / 4) * 8 + l % 4], x1 = pa[(l / 4 + 8) * 8 + l % 4], x2 = pa[(l / 4) * 8 + 4 + l % 4], x3 = pa[(l / 4 + 8) * 8 + 4 + l % 4], y0 = pb[(l / 4) * 8 + l % 4], y1 = pb[(l / 4) * 8 + 4 + l % 4];
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3]) : "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(y0), "r"(y1));
    for (int e = 0; e < 4; ++e) ic[(l / 4 + e / 2 * 8) * 8 + l % 4 * 2 + e % 2] = acc[e];
  }
  uint4 u = curand_Philox4x32_10(make_uint4(1, 0, t, 0), make_uint2(1234, 0)); random[t * 4] = u.x; random[t * 4 + 1] = u.y; random[t * 4 + 2] = u.z; random[t * 4 + 3] = u.w;
}
#ifndef __CUDA_ARCH__
static void philox(unsigned c[4], unsigned k0, unsigned k1) { for (int r = 0; r < 10; ++r) { unsigned long long p0 = (unsigned long long)0xD2511F53u * c[0], p1 = (unsigned long long)0xCD9E8D57u * c[2]; unsigned n[4] = {(unsigned)(p1 >> 32) ^ c[1] ^ k0, (unsigned)p1, (unsigned)(p0 >> 32) ^ c[3] ^ k1, (unsigned)p0}; memcpy(c, n, 16); k0 += 0x9E3779B9u; k1 += 0xBB67AE85u; } }
int main(int, char** ar) {
  uint32_t s = 15; std::vector<float> fa(32 * 64), fb(64 * 32), c(1024); std::vector<unsigned short> a(2048), b(2048); std::vector<signed char> ia(16 * 32), ib(8 * 32); std::vector<int> ic(128); std::vector<unsigned> r(512);
  const auto h = [](float f) { uint32_t u; memcpy(&u, &f, 4); return (unsigned short)(u >> 16); };
  for (int i = 0; i < 2048; ++i) { fa[i] = (int)(lcg(s) % 17) - 8; fb[i] = (int)(lcg(s) % 17) - 8; a[i] = h(fa[i]); b[i] = h(fb[i]); } for (auto& v : ia) v = lcg(s); for (auto& v : ib) v = lcg(s);
  for (int i = 0; i < 32; ++i) for (int j = 0; j < 32; ++j) for (int k = 0; k < 64; ++k) c[i * 32 + j] += fa[i * 64 + k] * fb[k * 32 + j];
  for (int i = 0; i < 16; ++i) for (int j = 0; j < 8; ++j) for (int k = 0; k < 32; ++k) ic[i * 8 + j] += ia[i * 32 + k] * ib[j * 32 + k];
  for (unsigned t = 0; t < 128; ++t) { unsigned k[4] = {1, 0, t, 0}; philox(k, 1234, 0); memcpy(&r[t * 4], k, 16); }
  case_writer w{ar[1], "matrix", "sm_90a", 1, 128}; w.input("a", "bf16", a); w.input("b", "bf16", b); w.output("c", "f32", c); w.input("ia", "s8", ia); w.input("ib", "s8", ib); w.output("ic", "s32", ic);  w.output("random", "u32", r); w.write();
}
#endif
