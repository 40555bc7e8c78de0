// Block-wide sort, scan, histogram, run lengths and merge sort from CUB, with their shared memory reused.
#include <cub/cub.cuh>
#include "case.h"
extern "C" __global__ void blocks(const int* x, int* sorted, int* order, int* sums, int* histogram, float* merged) {
  using sort = cub::BlockRadixSort<int, 128, 4, int>; using scan = cub::BlockScan<int, 128>; using reduce = cub::BlockReduce<int, 128>; using merge = cub::BlockMergeSort<float, 128, 2>; using count = cub::BlockHistogram<unsigned char, 128, 4, 16>;
  __shared__ union { sort::TempStorage a; scan::TempStorage b; reduce::TempStorage c; merge::TempStorage d; count::TempStorage e; } s;
  __shared__ int bins[16];
  int t = threadIdx.x, keys[4], values[4], sum[4]; float f[2]; unsigned char small[4];
  cub::LoadDirectBlocked(t, x, keys);
  for (int k = 0; k < 4; ++k) { values[k] = t * 4 + k; small[k] = keys[k] & 15; }
  f[0] = keys[0] * 0.5f; f[1] = -keys[1];
  scan(s.b).InclusiveSum(keys, sum); __syncthreads();
  int total = reduce(s.c).Reduce(keys[0], [](int a, int b) { return a > b ? a : b; }); __syncthreads();
  count(s.e).Histogram(small, bins); __syncthreads();
  merge(s.d).Sort(f, [](float a, float b) { return a < b; }); __syncthreads();
  sort(s.a).Sort(keys, values); __syncthreads();
  cub::StoreDirectBlocked(t, sorted, keys); cub::StoreDirectBlocked(t, order, values); cub::StoreDirectBlocked(t, sums, sum); cub::StoreDirectBlocked(t, merged, f);
  if (t < 16) histogram[t] = bins[t]; if (t == 0) histogram[16] = total;
}
#ifndef __CUDA_ARCH__
#include <algorithm>
#include <numeric>
int main(int, char** a) {
  uint32_t s = 12; std::vector<int> x(512), so, o(512), su(512), h(17, 0); std::vector<float> m; for (auto& v : x) v = (int)(lcg(s) % 2000) - 1000;
  so = x; std::sort(so.begin(), so.end()); std::iota(o.begin(), o.end(), 0); std::stable_sort(o.begin(), o.end(), [&](int i, int j) { return x[i] < x[j]; }); std::partial_sum(x.begin(), x.end(), su.begin()); h[16] = -9999;
  for (int i = 0; i < 512; ++i) { h[x[i] & 15]++; if (i % 4 == 0) { h[16] = std::max(h[16], x[i]); m.push_back(x[i] * 0.5f); m.push_back(-x[i + 1]); } } std::sort(m.begin(), m.end());
  case_writer c{a[1], "blocks", "sm_90a", 1, 128}; c.input("x", "s32", x); c.output("sorted", "s32", so); c.output("order", "s32", o); c.output("sums", "s32", su); c.output("histogram", "s32", h); c.output("merged", "f32", m); c.write();
}
#endif
