// error: deleted
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

index pick(const index& a, const index& b) {
  if (a < b) return a;
  return b;
}
