// Cooperative groups: a cluster of two, distributed shared memory, cluster barriers, tiles, a coalesced group.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include "case.h"
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster(const int* x, int* y, int* tile_sum, int* group) {
  __shared__ int mine[128];
  auto c = cg::this_cluster();
  auto block = cg::this_thread_block();
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  mine[t] = x[i];
  c.sync();
  int* peer = c.map_shared_rank(mine, c.block_rank() ^ 1);
  int v = peer[127 - t] * 2 + (int)c.block_rank();
  c.sync();
  auto tile = cg::tiled_partition<8>(block);
  int s = cg::reduce(tile, v, cg::plus<int>());
  if (tile.thread_rank() == 0) tile_sum[i / 8] = s;
  if (v % 3 == 0) { auto g = cg::coalesced_threads(); group[i] = (int)g.size() * 100 + (int)g.thread_rank(); } else group[i] = -1;
  if (t < 64) atomicAdd(&peer[t], 1000);
  c.sync();
  y[i] = v + mine[t];
}
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 2; const int n = 512; std::vector<int> x(n), v(n), y(n), ts(n / 8, 0), g(n, -1);
  for (auto& q : x) q = lcg(s) % 1000;
  for (int i = 0; i < n; ++i) { int b = i / 128, t = i % 128; v[i] = x[(b ^ 1) * 128 + 127 - t] * 2 + b % 2; y[i] = v[i] + x[i] + (t < 64 ? 1000 : 0); ts[i / 8] += v[i]; }
  for (int b = 0; b < n; b += 32) { int z = 0; for (int l = 0; l < 32; ++l) z += v[b + l] % 3 == 0; int r = 0; for (int l = 0; l < 32; ++l) if (v[b + l] % 3 == 0) g[b + l] = z * 100 + r++; }
  case_writer c{a[1], "cluster", "sm_90a", 4, 128, 2}; c.input("x", "s32", x); c.output("y", "s32", y); c.output("tile_sum", "s32", ts); c.output("group", "s32", g); c.write();
}
#endif
