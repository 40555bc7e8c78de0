#include "tlx/dsl/kernel.hpp"

using namespace tlx;

index twice(const index& i, int factor) { return i * constant(i.home(), factor); }  // on purpose: another factor is another kernel
