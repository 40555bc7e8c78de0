#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void step(const index& high) {
  for_each(high, [&](index i) {
    index next = i;
    index after = next + 1;
    (void)after;
  });
}
