#include "source.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "program.hpp"
#include "tlx/c_registry.h"
#include "tlx/dsl/registry.hpp"
#include "tlx/host/library.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/limits.hpp"

namespace tlxc {

using tlx::cat;

namespace {

struct registry {
  decltype(&tlx_registry_count) count;
  decltype(&tlx_registry_name) name;
  decltype(&tlx_registry_configuration) configuration;
  decltype(&tlx_registry_trace) trace;
};

void add_all(const registry& of, std::vector<kernel_entry>& to) {
  const auto trace = of.trace;
  for (size_t i = 0; i < of.count(); ++i)
    to.push_back({of.name(i), of.configuration(i), [trace, i](const std::string& target, std::string* text) {
                    return trace(i, target.c_str(), [](void* to_text, const char* bytes, size_t size) { static_cast<std::string*>(to_text)->assign(bytes, size); }, text);
                  }});
}

registry open_library(const std::string& path) {
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;  // without a slash the loader would search its own folders
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    raise(tlx::user_error({.id = "kernel-library-unreadable", .what = cat("\"", path, "\" could not be loaded: ", why ? why : "no reason given"),
                           .because = "kernels come from a shared library for this machine", .fix = {"check the path and what the library itself needs"}}));
  }
  const auto version = reinterpret_cast<decltype(&tlx_registry_version)>(dlsym(library, "tlx_registry_version"));
  const registry found{reinterpret_cast<decltype(registry::count)>(dlsym(library, "tlx_registry_count")), reinterpret_cast<decltype(registry::name)>(dlsym(library, "tlx_registry_name")),
                       reinterpret_cast<decltype(registry::configuration)>(dlsym(library, "tlx_registry_configuration")),
                       reinterpret_cast<decltype(registry::trace)>(dlsym(library, "tlx_registry_trace"))};
  if (!version || !found.count || !found.name || !found.configuration || !found.trace || version() != TLX_REGISTRY_VERSION)
    raise(tlx::user_error({.id = "kernel-library-foreign",
                           .what = version ? cat("\"", path, "\" speaks version ", version(), " of the registry, tlxc version ", TLX_REGISTRY_VERSION)
                                           : cat("\"", path, "\" exports no tlx_registry_version"),
                           .because = "a library offers its kernels through the functions of tlx/c_registry.h",
                           .fix = {"include tlx/dsl/registry.hpp and register kernels with TLX_KERNEL in one of its sources"}}));
  return found;
}

}  // namespace

std::unique_ptr<tlx::ir::kernel> kernel_entry::trace(const std::string& target) const {
  std::string text;
  const int status = trace_text(target, &text);
  if (status != 0) {
    tlx::diagnostic why{.id = "kernel-trace-failed", .what = cat("kernel \"", full_name(), "\" cannot be traced:\n", text)};
    if (status == 1) raise(tlx::user_error(why));
    raise(tlx::internal_error(why));
  }
  return tlx::ir::parse(text);
}

std::vector<std::string> libraries_of(const arguments& given, bool words_too) {
  std::vector<std::string> all = given.all("--from");
  if (words_too) all.insert(all.end(), given.words().begin(), given.words().end());
  return all;
}

std::vector<kernel_entry> kernels_of(const std::vector<std::string>& libraries, const std::vector<std::string>& targets) {
  std::vector<kernel_entry> all;
  for (const std::string& path : libraries) {
    if (is_program(path)) add_program(path, targets, all);
    else add_all(open_library(path), all);
  }
  if (libraries.empty()) {
    // tlx's own, by the way that everybody's kernels take.
    [[maybe_unused]] static const bool once = [&] {
      // Those that not every target has are seen, and built where all targets have them.
      const auto old = std::find(targets.begin(), targets.end(), "sm_90a");
      for (const tlx::host::library_kernel& k : tlx::host::library_kernels(targets.empty() ? "sm_100a" : old == targets.end() ? targets[0] : "")) tlx::dsl::register_maker(k.name, "", [trace = k.trace](const std::string&, const std::string& target) { return trace(target); });
      return true;
    }();
    add_all({tlx_registry_count, tlx_registry_name, tlx_registry_configuration, tlx_registry_trace}, all);
  }
  return all;
}

void check_target(const std::string& target) {
  if (!tlx::tile::target_limits(target)) throw usage_error(cat("there is no target \"", target, "\"; there are ", tlx::tile::supported_targets));
}

std::unique_ptr<tlx::ir::kernel> kernel_named(const std::string& what, const std::string& target, const arguments& from) {
  if (!target.empty()) check_target(target);
  if (std::filesystem::is_regular_file(what)) {
    auto k = tlx::ir::parse(tlx::read_file(what));
    tlx::ir::verify_or_raise(*k, "reading " + what);
    if (!target.empty() && k->target != target)
      raise(tlx::user_error({.id = "target-differs", .what = cat("\"", what, "\" was traced for ", k->target, ", not for ", target),
                             .because = "what a kernel records may depend on its target", .fix = {"leave out --target", "trace the kernel again: tlxc print KERNEL --target " + target}}));
    return k;
  }
  const std::string wanted = target.empty() ? "sm_90a" : target;
  for (const kernel_entry& k : kernels_of(libraries_of(from, false), {wanted}))
    if (k.full_name() == what) return k.trace(wanted);
  throw usage_error(cat("there is no kernel and no file \"", what, "\"; tlxc list shows the kernels"));
}

}  // namespace tlxc
