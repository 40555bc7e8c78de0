#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void count(const index& high) {
  cell<int> sum(high.home(), constant(high.home(), 0));
  for_each(high, [&](index i) { sum.set(sum.get() + i); });
}
