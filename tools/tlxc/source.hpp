// Where kernels come from: tlxc's own library, shared libraries that register kernels, and files with IR text.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "tlx/ir/kernel.hpp"

namespace tlxc {

/// One registered kernel; the library behind it stays loaded.
struct kernel_entry {
  std::string name, configuration;
  /// The IR text for a target, or a message: tlx_registry_trace() of tlx/c_registry.h.
  std::function<int(const std::string& target, std::string* text)> trace_text;

  std::string full_name() const { return configuration.empty() ? name : name + "_" + configuration; }
  /// Raises user_error [kernel-trace-failed] with the message of the library.
  std::unique_ptr<tlx::ir::kernel> trace(const std::string& target) const;
};

/// Values of --from; for the verbs whose words are libraries, those too.
std::vector<std::string> libraries_of(const arguments& given, bool words_too = true);

/// Kernels of shared libraries and of programs, or tlxc's own without any. A program is run, and hands over what it traces for `targets`.
/// Raises user_error [kernel-library-unreadable], [kernel-library-foreign] or [kernel-program-failed].
std::vector<kernel_entry> kernels_of(const std::vector<std::string>& libraries, const std::vector<std::string>& targets);

/// A kernel for `target` ("": sm_90a): `what` is a registered name, or a file with IR text, whose target it must be.
/// Raises usage_error for a name that is not registered, user_error [target-differs].
std::unique_ptr<tlx::ir::kernel> kernel_named(const std::string& what, const std::string& target, const arguments& from);

/// Those of tile::supported_targets. Raises usage_error for another one.
void check_target(const std::string& target);

}  // namespace tlxc
