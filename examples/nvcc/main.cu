// A project built by nvcc, with kernels of its own, calls a tlx kernel in between: one stream, one allocation, no copy. C interface; the bundle is in the program.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>

#include "tlx/c.h"

extern "C" const unsigned char shop_bundle[], shop_bundle_end[];  // made by tlxc build --object

__global__ void fill(__nv_bfloat16* to, int count, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = __float2bfloat16(scale * float(i % 7 - 3));
}
__global__ void fill(float* to, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = float(i % 5) * 0.25f;
}
// Every sum is exact in f32, so what is left is gelu and one rounding.
__global__ void count_wrong(const __nv_bfloat16* y, const __nv_bfloat16* x, const __nv_bfloat16* w, const float* bias, int rows, int cols, int depth, int* wrong) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= rows * cols) return;
  double sum = bias[at % cols];
  for (int k = 0; k < depth; ++k) sum += double(__bfloat162float(x[at / cols * depth + k])) * double(__bfloat162float(w[at % cols * depth + k]));
  const double expected = 0.5 * sum * (1 + erf(sum * 0.7071067811865476)), off = fabs(double(__bfloat162float(y[at])) - expected);
  if (!(off <= fabs(expected) / 256 + 1e-6)) atomicAdd(wrong, 1);
}

static bool tlx_failed(tlx_status status) {
  if (status != TLX_OK) std::fprintf(stderr, "%s\n", tlx_last_error());
  return status != TLX_OK;
}

int main() {
  const int rows = 300, cols = 264, depth = 192;
  __nv_bfloat16 *x, *w, *y;
  float* bias;
  int* wrong;
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) != cudaSuccess) return std::puts("needs a GPU"), 77;
  cudaMalloc(&x, rows * depth * sizeof *x), cudaMalloc(&w, cols * depth * sizeof *w), cudaMalloc(&y, rows * cols * sizeof *y);
  cudaMalloc(&bias, cols * sizeof *bias), cudaMallocManaged(&wrong, sizeof *wrong);
  *wrong = 0;
  fill<<<(rows * depth + 255) / 256, 256, 0, stream>>>(x, rows * depth, 0.25f);
  fill<<<(cols * depth + 255) / 256, 256, 0, stream>>>(w, cols * depth, 0.125f);
  fill<<<(cols + 255) / 256, 256, 0, stream>>>(bias, cols);

  // [launch]
  tlx_machine* machine = nullptr;  // the device's primary context, which is that of the CUDA runtime
  tlx_bundle* bundle = nullptr;
  tlx_kernel* linear = nullptr;
  if (tlx_failed(tlx_open("gpu:0", &machine)) || tlx_failed(tlx_bundle_open_memory(shop_bundle, size_t(shop_bundle_end - shop_bundle), nullptr, &bundle)) ||
      tlx_failed(tlx_load_from(machine, bundle, "linear", "128x256", &linear)))
    return 1;
  const int64_t of_x[] = {rows, depth}, of_w[] = {cols, depth}, of_bias[] = {cols}, of_y[] = {rows, cols};
  const tlx_value values[] = {{uint64_t(x), 2, of_x}, {uint64_t(w), 2, of_w}, {uint64_t(bias), 1, of_bias}, {uint64_t(y), 2, of_y}};
  if (tlx_failed(tlx_launch(linear, values, 4, uint64_t(stream)))) return 1;
  // [/launch]

  count_wrong<<<(rows * cols + 255) / 256, 256, 0, stream>>>(y, x, w, bias, rows, cols, depth, wrong);
  const cudaError_t end = cudaStreamSynchronize(stream);
  std::printf("%s: %d of %d wrong\n", cudaGetErrorString(end), *wrong, rows * cols);
  tlx_release(linear), tlx_bundle_close(bundle), tlx_close(machine);
  return end == cudaSuccess && *wrong == 0 ? 0 : 1;
}
