// TLX_PRINT: an observer that prints the stages named in the environment to standard error.
#pragma once
#include "tlx/jit/compile.hpp"

namespace tlx::jit {

/// `by_caller`, and what TLX_PRINT asks for of `traced`. Raises user_error [print-stage-unknown].
observer also_printing(const observer& by_caller, const ir::kernel& traced);

}  // namespace tlx::jit
