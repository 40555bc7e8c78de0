// error: is not a constant expression
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

index twice(const index& i, int factor) { return i * factor; }
