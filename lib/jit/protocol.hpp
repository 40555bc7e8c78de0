// The protocol check between the passes and code generation.
#pragma once
#include "tlx/jit/compile.hpp"

namespace tlx::jit {

/// Whether the options and the environment (TLX_CHECK=off) ask for it.
bool checks_protocol(const compile_options& how);
/// Raises the first finding as a user_error; the whole verdict goes to the observer.
void check_protocol(const ir::kernel& lowered, const observer& seen);

}  // namespace tlx::jit
