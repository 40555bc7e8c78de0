// Compiled kernels in the on-disk cache. The key covers the IR text, the options, the target, the compiler's sources and the versions of tlx, LLVM and the
// assembler.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "tlx/jit/cache.hpp"
#include "tlx/jit/compile.hpp"

namespace tlx::jit {

/// Empty when there is no cache.
std::string stored_key(const ir::kernel& traced, const compile_options& how);

struct stored_kernel {
  device::kernel kernel;
  bool found = false;  // not made now, by this thread
};
/// The kernel of the key, or what `make` returns, stored; made by one process or thread where several ask at once. Exceptions of `make` pass; a cache
/// that cannot be used is counted, not raised. With an empty key, what `make` returns.
stored_kernel find_or_make_stored(const std::string& key, const std::function<device::kernel()>& make);

/// Of the cache that compile() uses, opened from the environment at its first use.
cache_counters stored_counters();

/// The kernel in an entry's bytes, as `disk_cache::peek` gives them; nothing for an entry of another layout.
std::optional<device::kernel> unpack_stored(const std::string& bytes);

}  // namespace tlx::jit
