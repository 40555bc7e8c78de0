// Rules that prove a mutant equal on the kernel at hand: what was removed or weakened adds nothing to what stands around it, on every path.
#pragma once
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::mutation {

/// Why the mutant that operator `name` makes of `at`, an op of `k`, changes nothing; empty: no rule says so. `implied`: check::verdict's, of `k`.
std::string proof_by_rule(const std::string& name, const ir::kernel& k, const ir::op& at, const std::vector<const ir::op*>& implied);

}  // namespace tlx::mutation
