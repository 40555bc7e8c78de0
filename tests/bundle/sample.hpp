// Kernels for the tests: one that really runs (PTX, every element of x times alpha), and descriptions of others.
#pragma once
#include <string>
#include <vector>

#include "tests/support/error_of.hpp"
#include "tlx/bundle/arguments.hpp"
#include "tlx/bundle/write.hpp"
#include "tlx/support/error.hpp"

namespace sample {

using namespace tlx;

/// x: f32[1], alpha: f32; 32 elements a CTA.
inline device::kernel scale(const std::string& target, const std::string& name = "scale") {
  device::kernel k;
  k.name = k.entry = name;
  k.target = target;
  k.parameters = {{.name = "x", .what = device::parameter::kind::view, .element = "f32", .element_bits = 32, .rank = 1, .align_bytes = 4},
                  {.name = "alpha", .what = device::parameter::kind::scalar, .element = "f32", .element_bits = 32}};
  k.grid_x = "(ceil_div x.0 32)";
  k.block = {32, 1, 1};
  k.code.ptx = ".version 8.0\n.target " + target + "\n.address_size 64\n.visible .entry " + name +
               "(.param .u64 x, .param .s32 n, .param .f32 alpha)\n{\n"
               ".reg .pred %q; .reg .b32 %i, %b, %n; .reg .b64 %p; .reg .f32 %v, %a;\n"
               "ld.param.u64 %p, [x];\nld.param.s32 %n, [n];\nld.param.f32 %a, [alpha];\n"
               "mov.u32 %i, %ctaid.x;\nmov.u32 %b, %tid.x;\nmad.lo.s32 %i, %i, 32, %b;\nsetp.ge.s32 %q, %i, %n;\n@%q bra DONE;\n"
               "mad.wide.s32 %p, %i, 4, %p;\nld.global.f32 %v, [%p];\nmul.rn.f32 %v, %v, %a;\nst.global.f32 [%p], %v;\nDONE:\nret;\n}\n";
  return k;
}

/// Like scale(), with bytes in place of a cubin.
inline device::kernel assembled(const std::string& target, const std::string& name = "scale") {
  device::kernel k = scale(target, name);
  k.code.cubin = "cubin of " + name + " for " + target + std::string(3000, 'x');
  return k;
}

/// What tlxc would write into a header for scale().
struct scale_arguments {
  static constexpr const char* tlx_kernel = "scale";
  static constexpr const char* tlx_signature = "x:f32[1] alpha:f32";
  bundle::tensor<1> x;
  float alpha = 0;
  std::array<device::value_ref, 2> tlx_arguments() const { return {bundle::refer(x), bundle::refer(alpha)}; }
};

inline const bundle::package& maker() {
  static const bundle::package made{"shop", "2.1", "0.1.0", "22.1", "ptxas 13.0"};
  return made;
}

inline bundle::bundle opened(const std::string& bytes, const bundle::expectation& wanted = {}) { return bundle::bundle::of_memory(bytes.data(), bytes.size(), wanted); }

using tlx::test::error_of;

}  // namespace sample
