// A switch that becomes a table, recursion, indirect calls, local arrays with run-time indices, 64-bit division, early returns in loops.
#include "case.h"
__host__ __device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__host__ __device__ __noinline__ int f0(int x) { return x * 3; }
__host__ __device__ __noinline__ int f1(int x) { return x - 7; }
__host__ __device__ __noinline__ int f2(int x) { return x ^ 0x55; }
__host__ __device__ __noinline__ int f3(int x) { return x / 3; }
__device__ int (*const table[4])(int) = {f0, f1, f2, f3};
static int (*const host_table[4])(int) = {f0, f1, f2, f3};
__host__ __device__ int pick(int k, int x) {
  switch (k) {
    case 0: return x + 1; case 1: return x * x; case 2: return x - 9; case 3: return ~x; case 4: return x << 3; case 5: return x >> 2; case 6: return x & 0xFF; case 7: return x | 0x100;
    case 8: return x % 7; case 9: return x / 5; case 10: return -x; case 11: return x ^ 0xABC; default: return 0;
  }
}
template <class T> __host__ __device__ int body(int i, int v, T tab) {
  int local[16]; for (int k = 0; k < 16; ++k) local[k] = v * k;
  int s = 0; for (int k = 0; k < (v & 15); ++k) { local[(v + k) & 15] += local[(k * 5) & 15]; if (local[k] > 5000) break; s += local[(k * 3 + v) & 15]; }
  long long q = (long long)v * 1234567891011LL / (i + 3) % 1000003;
  return s + pick(v % 13, v) + fib(i % 9) + tab[i & 3](v) + (int)q;
}
extern "C" __global__ void switches(const int* x, int* y) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = body(i, x[i], table); }
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 5; std::vector<int> x(64), y(64); for (auto& v : x) v = lcg(s) % 1000;
  for (int i = 0; i < 64; ++i) y[i] = body(i, x[i], host_table);
  case_writer c{a[1], "switches", "sm_90a", 1, 64}; c.input("x", "s32", x); c.output("y", "s32", y); c.write();
}
#endif
