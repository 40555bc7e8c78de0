// cp.async through __pipeline_memcpy_async with a zero-filled tail, and a bulk copy through cuda::ptx with an mbarrier.
#include <cuda_pipeline.h>
#include <cuda/ptx>
#include <cuda/barrier>
#include "case.h"
namespace ptx = cuda::ptx;
extern "C" __global__ void copies(const float4* x, float4* y, float* z, int n) {
  __shared__ alignas(128) float4 stage[3][64];
  __shared__ alignas(8) uint64_t bar;
  __shared__ alignas(128) float bulk[256];
  int t = threadIdx.x;
  float4 acc = {0, 0, 0, 0};
  for (int k = 0; k < 2; ++k) { __pipeline_memcpy_async(&stage[k][t], &x[k * 64 + t], 16, k * 64 + t < n ? 0 : 16); __pipeline_commit(); }
  for (int k = 0; k < 6; ++k) {
    int p = k + 2;
    if (p < 6) __pipeline_memcpy_async(&stage[p % 3][t], &x[p * 64 + t], 16, p * 64 + t < n ? 0 : 16);
    __pipeline_commit();
    __pipeline_wait_prior(2);
    __syncthreads();
    float4 v = stage[k % 3][63 - t];
    acc.x += v.x; acc.y += v.y; acc.z += v.z; acc.w += v.w;
    __syncthreads();
  }
  y[t] = acc;
  if (t == 0) { ptx::mbarrier_init(&bar, 1); }
  __syncthreads();
  if (t == 0) {
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, bulk, x, 1024, &bar);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 1024);
  }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  for (int k = t; k < 256; k += 64) bulk[k] = bulk[k] * 2;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (t == 0) { ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, z, bulk, 1024); ptx::cp_async_bulk_commit_group(); ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{}); }
}
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 4; const int n = 350; std::vector<float> x(384 * 4), y(256, 0), z(256);
  for (auto& v : x) v = (float)(lcg(s) % 64);
  for (int t = 0; t < 64; ++t) for (int k = 0; k < 6; ++k) for (int e = 0; e < 4; ++e) { int i = k * 64 + 63 - t; y[t * 4 + e] += i < n ? x[i * 4 + e] : 0; }
  for (int i = 0; i < 256; ++i) z[i] = 2 * x[i];
  case_writer c{a[1], "copies", "sm_90a", 1, 64}; c.input("x", "f32", x); c.output("y", "f32", y); c.output("z", "f32", z); c.scalar("s32", std::to_string(n)); c.write();
}
#endif
