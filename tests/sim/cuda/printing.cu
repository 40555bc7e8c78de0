// printf with every kind of argument, a device assertion that holds, and a trap that is not reached.
#include <cassert>
#include "case.h"
extern "C" __global__ void printing(const int* x, int* y) {
  int t = threadIdx.x; assert(x[t] >= 0);
  if (t == 3) printf("t=%d x=%u hex=%08x f=%.3f s=%s c=%c ll=%lld p%%\n", t, (unsigned)x[t], x[t], x[t] * 0.5, "text", 'q', (long long)x[t] << 40);
  if (x[t] < 0) __trap();
  y[t] = printf("") + x[t];
}
#ifndef __CUDA_ARCH__
int main(int, char** a) { std::vector<int> x(32), y(32); for (int i = 0; i < 32; ++i) x[i] = i * 11, y[i] = i * 11; case_writer c{a[1], "printing", "sm_90a", 1, 32}; c.input("x", "s32", x); c.output("y", "s32", y); c.write(); }
#endif
