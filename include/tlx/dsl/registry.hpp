// Kernels by name, for tools that build them ahead of time: one line registers a kernel, `tlxc build --from lib.so` finds it.
//
//   TLX_KERNEL(scale_rows, scale_arguments, scale_body);                          // a name, an argument struct, a body(block&, const arguments&)
//   static const bool known = tlx::register_kernel<scale_arguments>("scale", tlx::configurations<narrow, wide>{},
//                                 [](tlx::block& cta, const scale_arguments& in, auto plan) { scale<decltype(plan)>(cta, in); });
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/c_registry.h"
#include "tlx/dsl/detail/configurations.hpp"
#include "tlx/dsl/kernel.hpp"

namespace tlx {

/// Plan types: each an empty struct with a member `name` and whatever constants the body reads.
template <class... Plans> struct configurations {};

namespace dsl {

/// `name` of the kernel to trace, `target` to trace it for.
using maker = std::function<std::unique_ptr<ir::kernel>(const std::string& name, const std::string& target)>;

struct registered {
  std::string name, configuration;  // configuration "": there is only one
  maker make;

  /// Name of the kernel and its PTX entry: "gemm_bf16_128x256".
  std::string full_name() const { return configuration.empty() ? name : name + "_" + configuration; }
  std::unique_ptr<ir::kernel> trace(const std::string& target) const { return make(full_name(), target); }
};

/// Those of this program or shared library, in the order of registration.
const std::vector<registered>& registered_kernels();

/// Never raises, since it runs before main(): a name that is taken or no identifier is reported when that kernel is traced, as user_error
/// [kernel-registered-twice] or [kernel-name-invalid].
bool register_maker(std::string name, std::string configuration, maker make);

/// What stands behind tlx_registry_trace(): no exception leaves it.
int trace_to_text(size_t index, const char* target, tlx_registry_text text, void* user);

}  // namespace dsl

template <class Arguments, class Body>
bool register_kernel(const std::string& name, Body body, location where = location::here()) {
  return dsl::register_maker(name, "", [=](const std::string& full, const std::string& target) { return trace<Arguments>(full, target, body, where); });
}

/// One kernel for each plan; `body(block&, const Arguments&, Plan)`.
template <class Arguments, class... Plans, class Body>
bool register_kernel(const std::string& name, configurations<Plans...>, Body body, location where = location::here()) {
  dsl::each_plan<Plans...>([&](auto plan) {
    dsl::register_maker(name, dsl::configuration_name<decltype(plan)>(), [=](const std::string& full, const std::string& target) {
      return trace<Arguments>(full, target, [&](block& cta, const Arguments& in) { body(cta, in, plan); }, where);
    });
  });
  return true;
}

/// For programs that register kernels: the first line of main() is `if (tlx::hand_over_kernels()) return 0;`. True when tlxc started the program to get its
/// kernels (it sets TLX_KERNELS_TO, a file, and TLX_KERNELS_FOR, targets); they are written there then. Raises user_error [file-unwritable].
bool hand_over_kernels();

}  // namespace tlx

#define TLX_KERNEL(name, arguments, ...) \
  [[maybe_unused]] static const bool tlx_registered_##name = ::tlx::register_kernel<arguments>(#name, __VA_ARGS__)

// The C interface of whoever includes this. In the header, since an object of a static library leaves no exported function behind.
extern "C" {
__attribute__((used)) inline int tlx_registry_version(void) { return TLX_REGISTRY_VERSION; }
__attribute__((used)) inline size_t tlx_registry_count(void) { return tlx::dsl::registered_kernels().size(); }
__attribute__((used)) inline const char* tlx_registry_name(size_t index) {
  return index < tlx_registry_count() ? tlx::dsl::registered_kernels()[index].name.c_str() : nullptr;
}
__attribute__((used)) inline const char* tlx_registry_configuration(size_t index) {
  return index < tlx_registry_count() ? tlx::dsl::registered_kernels()[index].configuration.c_str() : nullptr;
}
__attribute__((used)) inline int tlx_registry_trace(size_t index, const char* target, tlx_registry_text text, void* user) {
  return tlx::dsl::trace_to_text(index, target, text, user);
}
}
