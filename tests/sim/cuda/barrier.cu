// cuda::barrier with split arrive and wait, memcpy_async on it, and cuda::pipeline with two stages.
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>
#include "case.h"
extern "C" __global__ void barrier_kernel(const float* x, float* y, int rounds) {
  __shared__ alignas(16) float buf[2][256];
  #pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cooperative_groups::this_thread_block();
  int t = threadIdx.x;
  if (t == 0) init(&bar, blockDim.x);
  block.sync();
  cuda::memcpy_async(block, buf[0], x, sizeof(float) * 256, bar);
  bar.arrive_and_wait();
  float acc = buf[0][255 - t];
  auto token = bar.arrive();
  acc *= 2;
  bar.wait(std::move(token));
  auto pipe = cuda::make_pipeline(block, &state);
  for (int k = 0; k < 2 && k < rounds; ++k) { pipe.producer_acquire(); cuda::memcpy_async(block, buf[k], x + 256 * (k + 1), sizeof(float) * 256, pipe); pipe.producer_commit(); }
  for (int k = 0; k < rounds; ++k) {
    pipe.consumer_wait();
    acc += buf[k % 2][(t + 1) % 256];
    pipe.consumer_release();
    if (k + 2 < rounds) { pipe.producer_acquire(); cuda::memcpy_async(block, buf[k % 2], x + 256 * (k + 3), sizeof(float) * 256, pipe); pipe.producer_commit(); }
  }
  y[t] = acc;
}
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 3; const int r = 5; std::vector<float> x(256 * (r + 1)), y(256);
  for (auto& v : x) v = (float)(lcg(s) % 64);
  for (int t = 0; t < 256; ++t) { y[t] = 2 * x[255 - t]; for (int k = 0; k < r; ++k) y[t] += x[256 * (k + 1) + (t + 1) % 256]; }
  case_writer c{a[1], "barrier_kernel", "sm_90a", 1, 256}; c.input("x", "f32", x); c.output("y", "f32", y); c.scalar("s32", "5"); c.write();
}
#endif
