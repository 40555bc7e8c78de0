#include "shipped.hpp"

#include <limits>

#include "examples/common.hpp"
#include "tlx/dsl/activation.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/host/library.hpp"
#include "tlx/kernels/gemm.hpp"

namespace step_01 {
#include "examples/01_copy.cpp"
}
namespace step_02 {
#include "examples/02_elementwise.cpp"
}
namespace step_03 {
#include "examples/03_row_softmax.cpp"
}
namespace step_04 {
#include "examples/04_tma_copy.cpp"
}
namespace step_05 {
#include "examples/05_ring.cpp"
}
namespace step_06 {
#include "examples/06_mma.cpp"
}
namespace step_07 {
#include "examples/07_roles.cpp"
}
namespace step_08 {
#include "examples/08_fused_epilogue.cpp"
}
namespace step_09 {
#include "examples/09_block_attention.cpp"
}

namespace tlx::mutation {

namespace {
template <class Arguments, class Body>
shipped example(const char* name, Body body) {
  return {name, true, [=](const std::string& target) { return trace<Arguments>(name, target, body); }};
}
}  // namespace

std::vector<shipped> shipped_kernels(const std::string& target) {
  std::vector<shipped> all{
      example<step_01::copy_arguments>("copy", step_01::copy),
      example<step_02::axpy_arguments>("axpy", step_02::axpy),
      example<step_03::softmax_arguments>("row_softmax", step_03::row_softmax),
      example<step_04::scale_arguments>("scale", step_04::scale),
      example<step_05::stages_arguments>("stages", step_05::stages),
      example<step_06::product_arguments>("product", step_06::product),
      example<step_07::gemm_arguments>("gemm", step_07::gemm),
      example<step_08::arguments>("gemm_gelu", step_08::gemm_gelu),
      example<step_09::attention_arguments>("attention", step_09::attention),
  };
  for (const host::library_kernel& each : host::library_kernels(target)) {
    const bool quick = each.name == "gemm_bf16_128x256_nt" || each.name == "gemm_bf16_bias_residual_128x256_nn" || each.name == "block_attention_bf16_d128" || each.name == "scaled_gemm_e4m3_ue8m0_128x128";
    all.push_back({each.name, quick, each.trace});
  }
  return all;
}

}  // namespace tlx::mutation
