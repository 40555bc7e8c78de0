// A scan over many CTAs by decoupled look-back, a grid-wide ticket, and a spin lock: CTAs that wait for one another.
#include <cuda/atomic>
#include "case.h"
extern "C" __global__ void lookback(const int* x, int* y, unsigned long long* state, int* ticket) {
  __shared__ int tile, before, part[4];
  int t = threadIdx.x;
  if (t == 0) tile = atomicAdd(ticket, 1);
  __syncthreads();
  int b = tile, v = x[b * 128 + t], own = v;
  for (int o = 1; o < 32; o <<= 1) { int n = __shfl_up_sync(~0u, v, o); if (t % 32 >= o) v += n; }
  if (t % 32 == 31) part[t / 32] = v;
  __syncthreads();
  for (int w = 0; w < t / 32; ++w) v += part[w];
  int total = part[0] + part[1] + part[2] + part[3];
  if (t == 0) {
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> mine(state[b]);
    int sum = 0;
    if (b == 0) mine.store(2ull << 32 | (unsigned)total, cuda::memory_order_release);
    else {
      mine.store(1ull << 32 | (unsigned)total, cuda::memory_order_release);
      for (int k = b - 1;;) {
        unsigned long long s = cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(state[k]).load(cuda::memory_order_acquire);
        if (s >> 32 == 0) continue;
        sum += (int)(unsigned)s;
        if (s >> 32 == 2) break;
        --k;
      }
      mine.store(2ull << 32 | (unsigned)(sum + total), cuda::memory_order_release);
    }
    before = sum;
  }
  __syncthreads();
  y[b * 128 + t] = before + v - own;
}
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 13; const int n = 128 * 24; std::vector<int> x(n), y(n), ticket(1, 24); std::vector<unsigned long long> st(24); int sum = 0;
  for (auto& v : x) v = (int)(lcg(s) % 100) - 30; for (int i = 0; i < n; ++i) { y[i] = sum; sum += x[i]; if (i % 128 == 127) st[i / 128] = 2ull << 32 | (unsigned)sum; }
  case_writer c{a[1], "lookback", "sm_90a", 24, 128}; const char* e = "\"exact\": true"; c.input("x", "s32", x); c.output("y", "s32", y); c.output("state", "u64", st, e, "zero"); c.output("ticket", "s32", ticket, e, "zero"); c.write();
}
#endif
