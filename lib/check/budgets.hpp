// What a CTA asks for against what there is: shared memory, threads, tensor memory of all CTAs of an SM. Registers are counted where they move.
#pragma once
#include <optional>

#include "tlx/ir/kernel.hpp"
#include "tlx/support/error.hpp"

namespace tlx::check {

std::optional<diagnostic> broken_budget(const ir::kernel& k);

}  // namespace tlx::check
