// One order of operations for one source, whichever compiler traced it: C++ leaves the order of function arguments open.
#pragma once
#include "tlx/ir/kernel.hpp"

namespace tlx::dsl {

/// Reorders each region: pure ops stand just before their first use (unused ones go); slots that open side by side and reads side by side stand in the
/// order their users take them; slots that close side by side close in the order they opened. Ops with effects keep their order otherwise.
void canonicalise(ir::kernel& k);

}  // namespace tlx::dsl
