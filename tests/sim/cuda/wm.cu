// Warp matrices through nvcuda::wmma: loads, products and stores in both layouts.
#include <mma.h>
#include "case.h"
using namespace nvcuda;
extern "C" __global__ void warp_matrices(const __half* a, const __half* b, const float* c, float* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa; wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb; wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, b, 16); wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2;
  wmma::store_matrix_sync(d, fc, 16, wmma::mem_col_major);
}
#ifndef __CUDA_ARCH__
int main(int, char** ar) {
  uint32_t s = 11; std::vector<unsigned short> a(256), b(256); std::vector<float> c(256), d(256), fa(256), fb(256);
  const auto h = [](float f) { __half x = __float2half(f); unsigned short u; memcpy(&u, &x, 2); return u; };
  for (int i = 0; i < 256; ++i) { fa[i] = (int)(lcg(s) % 15) - 7; fb[i] = (int)(lcg(s) % 15) - 7; c[i] = lcg(s) % 100; a[i] = h(fa[i]); b[i] = h(fb[i]); }
  for (int i = 0; i < 16; ++i) for (int j = 0; j < 16; ++j) { float v = c[i * 16 + j]; for (int k = 0; k < 16; ++k) v += fa[i * 16 + k] * fb[j * 16 + k]; d[j * 16 + i] = 2 * v; }
  case_writer w{ar[1], "warp_matrices", "sm_90a", 1, 32}; w.input("a", "f16", a); w.input("b", "f16", b); w.input("c", "f32", c); w.output("d", "f32", d); w.write();
}
#endif
