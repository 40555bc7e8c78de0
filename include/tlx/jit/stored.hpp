// Compiled kernels in the on-disk cache. The key covers the IR text, the options, the target and the versions of tlx, LLVM and the assembler.
#pragma once
#include <optional>
#include <string>

#include "tlx/jit/compile.hpp"

namespace tlx::jit {

std::string stored_key(const ir::kernel& traced, const compile_options& how);
/// Nothing when the key is empty, absent, or its entry is damaged (it is removed then).
std::optional<device::kernel> find_stored(const std::string& key);
/// Never fails a compile: a cache that cannot be written is counted, not raised.
void store(const std::string& key, const device::kernel& made);

}  // namespace tlx::jit
