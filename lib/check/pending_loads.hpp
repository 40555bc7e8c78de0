// Registers that a load from tensor memory is still filling: nobody may use them before tmem.wait_load has given them back.
#pragma once
#include <optional>

#include "tlx/ir/kernel.hpp"
#include "tlx/support/error.hpp"

namespace tlx::check {

std::optional<diagnostic> used_before_loaded(const ir::kernel& k);

}  // namespace tlx::check
