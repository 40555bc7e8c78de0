// Warp and block reductions: shuffles, votes, matches, redux, shared memory, atomics on the result.
#include "case.h"
extern "C" __global__ void reduce(const float* x, const int* k, float* sum, int* info, unsigned* warps) {
  __shared__ float part[8];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  float v = x[i];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (t % 32 == 0) part[t / 32] = v;
  __syncthreads();
  if (t < 32) {
    v = t < 8 ? part[t] : 0.f;
    for (int o = 4; o; o >>= 1) v += __shfl_down_sync(~0u, v, o, 8);
    if (t == 0) sum[blockIdx.x] = v;
  }
  int key = k[i];
  unsigned same = __match_any_sync(~0u, key), odd = __ballot_sync(~0u, key & 1);
  int total = __reduce_add_sync(~0u, key), top = __reduce_max_sync(~0u, key), all = (int)__reduce_xor_sync(~0u, (unsigned)key);
  int up = __shfl_up_sync(~0u, key, 3), at = __shfl_sync(~0u, key, (t * 7) & 31);
  info[i] = __popc(same) + 64 * __popc(odd) + 4096 * (__any_sync(~0u, key == 5) ? 1 : 0) + 8192 * (__all_sync(~0u, key < 7) ? 1 : 0) + up * 65536 + at * 1048576;
  if (t % 32 == 0) { atomicAdd(&warps[0], (unsigned)total); atomicMax(&warps[1], (unsigned)top); atomicXor(&warps[2], (unsigned)all); }
  unsigned double_key = __match_any_sync(~0u, (unsigned long long)key << 32);
  int first = __ffs(double_key) - 1;
  if ((t & 31) == first) atomicInc(&warps[3], 1000);
  int pred; unsigned uniform_mask = __match_all_sync(~0u, t / 32, &pred);
  if (pred && uniform_mask != ~0u) atomicAdd(&warps[4], 1u);
}
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 1; const int n = 512; std::vector<float> x(n), sum(2, 0); std::vector<int> k(n), info(n); std::vector<unsigned> w(5, 0);
  for (auto& v : x) v = (float)(int)(lcg(s) % 64) - 31; for (auto& v : k) v = lcg(s) % 7;
  for (int i = 0; i < n; ++i) { sum[i / 256] += x[i]; }
  for (int b = 0; b < n; b += 32) {
    int same[32], odd = 0, any = 0, all = 1; unsigned tot = 0, top = 0, xr = 0, kinds = 0;
    for (int l = 0; l < 32; ++l) { same[l] = 0; for (int m = 0; m < 32; ++m) same[l] += k[b + m] == k[b + l]; odd += k[b + l] & 1; any |= k[b + l] == 5; all &= k[b + l] < 7; tot += k[b + l]; top = std::max<unsigned>(top, k[b + l]); xr ^= k[b + l]; kinds |= 1u << k[b + l]; }
    for (int l = 0; l < 32; ++l) info[b + l] = same[l] + 64 * odd + 4096 * any + 8192 * all + k[b + (l >= 3 ? l - 3 : l)] * 65536 + k[b + ((((b + l) % 256) * 7) & 31)] * 1048576;
    w[0] += tot; w[1] = std::max(w[1], top); w[2] ^= xr; w[3] += __builtin_popcount(kinds);
  }
  case_writer c{a[1], "reduce", "sm_90a", 2, 256}; c.input("x", "f32", x); c.input("k", "s32", k); c.output("sum", "f32", sum); c.output("info", "s32", info); c.output("warps", "u32", w, "\"exact\": true", "zero"); c.write();
}
#endif
