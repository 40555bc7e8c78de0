// Registrations that are wrong: a name twice, a name that is no identifier, a body that records nothing.
#include "tlx/dsl/registry.hpp"

struct no_arguments {
  TLX_ARGUMENTS(no_arguments, (tlx::view<float, 1>, x));
};

[[maybe_unused]] static const bool first = tlx::register_kernel<no_arguments>("nothing", [](tlx::block&, const no_arguments&) {});
[[maybe_unused]] static const bool again = tlx::register_kernel<no_arguments>("taken", [](tlx::block&, const no_arguments&) {}) &&
                                           tlx::register_kernel<no_arguments>("taken", [](tlx::block&, const no_arguments&) {});
[[maybe_unused]] static const bool odd = tlx::register_kernel<no_arguments>("two words", [](tlx::block&, const no_arguments&) {});
