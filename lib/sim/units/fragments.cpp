// Which thread holds which element of a matrix fragment.
#include "sim/units/matrix.hpp"

namespace tlx::sim {
namespace {

int per_register(int bits) { return bits < 32 ? 32 / bits : 1; }

}  // namespace

// Lane 4g + t: rows g (and g + 8), and along k the t-th group of one register's elements, then 4 groups further for the next register.
cell mma_a_cell(int m, int, int bits, int lane, int index) {
  const int e = per_register(bits), r = index / e, j = index % e, g = lane >> 2, t = lane & 3;
  if (m == 8) return {g, t * e + j + 4 * e * r};
  return {g + 8 * (r & 1), t * e + j + 4 * e * (r >> 1)};
}
cell mma_b_cell(int, int bits, int lane, int index) {
  const int e = per_register(bits), r = index / e, j = index % e;
  return {(lane & 3) * e + j + 4 * e * r, lane >> 2};
}
cell mma_c_cell(int, int lane, int index) { return {(lane >> 2) + 8 * (index >> 1), 2 * (lane & 3) + (index & 1)}; }
int mma_a_count(int m, int k) { return m * k / 32; }
int mma_b_count(int k, int n) { return k * n / 32; }
int mma_c_count(int m, int n) { return m * n / 32; }

cell wgmma_d_cell(int thread, int index) {
  return {16 * (thread / 32) + thread % 32 / 4 + 8 * ((index >> 1) & 1), 2 * (thread % 4) + (index & 1) + 8 * (index >> 2)};
}
cell wgmma_a_cell(int bits, int thread, int index) {
  cell c = mma_a_cell(16, 0, bits, thread % 32, index);
  c.row += 16 * (thread / 32);
  return c;
}

cell matrix_8x8_cell(int lane, int half, bool transposed) {
  const int row = lane / 4, column = 2 * (lane % 4) + half;
  return transposed ? cell{column, row} : cell{row, column};
}

}  // namespace tlx::sim
