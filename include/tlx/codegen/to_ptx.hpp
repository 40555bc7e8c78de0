// Lowered IR (barrier and instruction level) to LLVM IR to PTX text.
//
// Entry parameters, in order: the kernel's tensor maps (128 bytes each, 128-byte aligned), then per IR parameter: a scalar as itself (a bool as
// a byte, 0 or 1); a view as its address (u64), its extents (s32, outermost first) and its strides in elements but the innermost's (s64,
// outermost first). The entry is named like the kernel.
#pragma once
#include <string>

#include "tlx/ir/kernel.hpp"

namespace tlx::codegen {

struct options {
  bool optimise = true;   // off: only what is needed to get cells into registers
  bool line_info = true;  // .loc directives with the locations of the ops
};

/// PTX 9.0 for the kernel's target. Raises internal_error: codegen-unlowered, codegen-layout, codegen-element, codegen-target, codegen-invalid;
/// user_error [target-unknown].
std::string to_ptx(const ir::kernel& k, const options& how = {});

/// The module as text, optimised or not.
std::string to_llvm(const ir::kernel& k, const options& how = {});

/// "22.1.8".
std::string llvm_version();

}  // namespace tlx::codegen
