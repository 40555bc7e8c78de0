// error: deleted
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void count(const index& high) {
  index sum = constant(high.home(), 0);
  for_each(high, [&](index i) { sum = sum + i; });
}
