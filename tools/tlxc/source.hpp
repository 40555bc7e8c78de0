// Where kernels come from: tlxc's own library, shared libraries that register kernels, and files with IR text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "tlx/ir/kernel.hpp"

namespace tlxc {

/// One registered kernel; the library behind it stays loaded.
struct kernel_entry {
  std::string name, configuration;
  std::string library;  // "" for tlxc's own
  size_t index = 0;
  int (*trace_text)(size_t, const char*, void (*)(void*, const char*, size_t), void*) = nullptr;

  std::string full_name() const { return configuration.empty() ? name : name + "_" + configuration; }
  /// Raises user_error [kernel-trace-failed] with the message of the library.
  std::unique_ptr<tlx::ir::kernel> trace(const std::string& target) const;
};

/// Of the libraries named by --from, else tlxc's own. Raises user_error [kernel-library-unreadable] or [kernel-library-foreign].
std::vector<kernel_entry> kernels_of(const arguments& from);

/// A kernel for `target` ("": sm_90a): `what` is a registered name, or a file with IR text, whose target it must be.
/// Raises usage_error for a name that is not registered, user_error [target-differs].
std::unique_ptr<tlx::ir::kernel> kernel_named(const std::string& what, const std::string& target, const arguments& from);

/// Those of tile::supported_targets. Raises usage_error for another one.
void check_target(const std::string& target);

}  // namespace tlxc
