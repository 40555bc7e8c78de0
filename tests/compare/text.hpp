// Frames of hand-written PTX kernels.
#pragma once
#include <string>

#include "tests/compare/sample.hpp"
#include "tlx/support/text.hpp"

namespace tlx::compare {

/// `parameters` as they stand between the parentheses. Declares %p %h %r %l %f by the dozen; %r0 is the thread, %r1 the CTA.
inline std::string ptx_kernel(const std::string& parameters, const std::string& body, const std::string& directives = {}, const std::string& before = {}, const std::string& target = population_target()) {
  return cat(".version 9.0\n.target ", target, "\n.address_size 64\n", before, "\n.visible .entry k(", parameters, ") ", directives,
             "\n{\n.reg .pred %p<16>; .reg .b16 %h<64>; .reg .b32 %r<320>; .reg .b64 %l<64>; .reg .b64 %fd<32>;\nmov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;\n", body, "\nret;\n}\n");
}

/// Spins until the phase of `parity` of the barrier is complete.
inline std::string wait_for(const std::string& barrier, const std::string& parity, const std::string& label) {
  return cat(label, ": mbarrier.try_wait.parity.shared::cta.b64 %p15, [", barrier, "], ", parity, "; @!%p15 bra ", label, ";\n");
}

}  // namespace tlx::compare
