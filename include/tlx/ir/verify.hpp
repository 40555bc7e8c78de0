// Invariants of a kernel. Checked: every operand is defined before its use in its region or an enclosing one, and belongs to this kernel; counts of
// operands, results and regions as in ops.def; elementwise shapes, elements and layouts agree; conditions are bool; cells hold what is set;
// loads and stores have a coordinate per axis; ring parts and products match; after a pass of the pipeline, the ops that it removes do not come back.
// Not checked here: barrier protocol, budgets, races.
#pragma once
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::ir {

struct problem {
  const op* at = nullptr;
  std::string what;
};
std::vector<problem> verify(const kernel& k);

/// `after`: "trace" or the pass that ran last. Raises internal_error [ir-invalid] that prints the problems inside the listing and names `after`, the pass that broke it.
void verify_or_raise(const kernel& k, const std::string& after);

}  // namespace tlx::ir
