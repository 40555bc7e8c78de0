#include "tlx/dsl/kernel.hpp"

using namespace tlx;

index pick(const index& a, const index& b) { return where(a < b, a, b); }
