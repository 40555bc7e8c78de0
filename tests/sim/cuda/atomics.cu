// Atomics on all types, in global and shared memory, with scopes and orders (cuda::atomic_ref); order-free results only.
#include <cuda/atomic>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include "case.h"
extern "C" __global__ void atomics(const int* x, int* i32, unsigned* u32, unsigned long long* u64, long long* s64, float* f, double* d, __half2* h, __nv_bfloat162* b, unsigned short* u16) {
  __shared__ int si; __shared__ float sf; __shared__ unsigned long long sl;
  int t = threadIdx.x, v = x[blockIdx.x * blockDim.x + t];
  if (t == 0) { si = 0; sf = 0; sl = 0; }
  __syncthreads();
  atomicAdd(&si, v); atomicAdd(&sf, (float)(v % 8)); atomicMax(&sl, (unsigned long long)v << 33);
  __syncthreads();
  if (t == 0) { atomicAdd(&i32[0], si); atomicAdd(&f[0], sf); atomicMax(&u64[0], sl); }
  atomicSub(&i32[1], v); atomicMin(&i32[2], v); atomicMax(&i32[3], -v); atomicAnd(&i32[4], v | 0x7000); atomicOr(&i32[5], v & 0xFF0); atomicXor(&i32[6], v);
  atomicAdd(&u32[0], (unsigned)v); atomicInc(&u32[1], 99); atomicDec(&u32[2], 50); atomicMin(&u32[3], (unsigned)v);
  atomicAdd(&u64[1], (unsigned long long)v << 20); atomicXor(&u64[2], (unsigned long long)v << 31); atomicMin(&s64[0], (long long)-v << 30); atomicMax(&s64[1], (long long)v * 1000000007);
  atomicAdd(&d[0], (double)v / 4); atomicAdd(&h[0], __half2half2(__float2half((float)(v & 1)))); atomicAdd(&b[0], __float2bfloat162_rn(v % 97 == 0 ? 1.0f : 0.0f));
  unsigned long long seen = u64[3], want;
  do { want = seen; seen = atomicCAS(&u64[3], want, want + (unsigned)v); } while (seen != want);
  unsigned short was = u16[0], old;
  do { old = was; was = atomicCAS(&u16[0], old, (unsigned short)(old + 1)); } while (was != old);
  cuda::atomic_ref<int, cuda::thread_scope_device> ref(i32[7]); ref.fetch_add(v, cuda::memory_order_relaxed);
  cuda::atomic_ref<unsigned, cuda::thread_scope_system> sys(u32[4]); sys.fetch_max((unsigned)v, cuda::memory_order_acq_rel);
  cuda::atomic_ref<float, cuda::thread_scope_device> fr(f[1]); fr.fetch_add((float)(v % 4), cuda::memory_order_release);
  unsigned lock;
  for (bool done = false; !done;) { lock = atomicExch(&u32[6], 1u); if (lock == 0) { __threadfence(); i32[8] = i32[8] + v; __threadfence(); atomicExch(&u32[6], 0u); done = true; } }
  unsigned ticket = atomicAdd(&u32[5], 1u);
  u16[1 + ticket] = 7;
}
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 7; const int n = 128; std::vector<int> x(n), i(9, 0); std::vector<unsigned> u(7, 0); std::vector<unsigned long long> ul(4, 0); std::vector<long long> sl(2, 0); std::vector<float> f(2, 0); std::vector<double> d(1, 0); std::vector<unsigned short> h(2), b(2), u16(1 + n, 7);
  for (auto& v : x) v = lcg(s) % 4000; int odd = 0, z = 0;
  for (int v : x) { i[0] += v; i[1] -= v; i[2] = std::min(i[2], v); i[3] = std::max(i[3], -v); i[4] &= v | 0x7000; i[5] |= v & 0xFF0; i[6] ^= v; i[7] += v; i[8] += v; f[0] += v % 8; f[1] += v % 4; u[0] += v; u[1] = u[1] >= 99 ? 0 : u[1] + 1; u[2] = u[2] == 0 || u[2] > 50 ? 50 : u[2] - 1; u[3] = 0; u[4] = std::max<unsigned>(u[4], v);
    ul[0] = std::max(ul[0], (unsigned long long)v << 33); ul[1] += (unsigned long long)v << 20; ul[2] ^= (unsigned long long)v << 31; ul[3] += v; sl[0] = std::min(sl[0], (long long)-v << 30); sl[1] = std::max(sl[1], (long long)v * 1000000007); d[0] += v / 4.0; odd += v & 1; z += v % 97 == 0; }
  u[5] = n; u16[0] = n; __half hh = __float2half((float)odd); __nv_bfloat16 bb = __float2bfloat16((float)z); memcpy(&h[0], &hh, 2); h[1] = h[0]; memcpy(&b[0], &bb, 2); b[1] = b[0];
  const char* e = "\"exact\": true"; case_writer c{a[1], "atomics", "sm_90a", 2, 64}; c.input("x", "s32", x); c.output("i32", "s32", i, e, "zero"); c.output("u32", "u32", u, e, "zero"); c.output("u64", "u64", ul, e, "zero"); c.output("s64", "s64", sl, e, "zero"); c.output("f", "f32", f, e, "zero"); c.output("d", "f64", d, e, "zero"); c.output("h", "f16", h, e, "zero"); c.output("b", "bf16", b, e, "zero"); c.output("u16", "u16", u16, e, "zero"); c.write();
}
#endif
