#include "bench/support/traced.hpp"

#include "tlx/kernels/attention.hpp"
#include "tlx/kernels/gemm.hpp"

namespace tlx::bench {

std::unique_ptr<ir::kernel> traced_gemm(const std::string& target) {
  using arguments = kernels::gemm_arguments<bf16>;
  return trace<arguments>("bench_gemm", target, [](block& cta, const arguments& in) {
    kernels::gemm<bf16, kernels::gemm_plan<128, 256, 64, 4>>(cta, in, kernels::plain_epilogue{});
  });
}

std::unique_ptr<ir::kernel> traced_attention(const std::string& target) {
  using arguments = kernels::attention_arguments<bf16>;
  return trace<arguments>("bench_attention", target, [](block& cta, const arguments& in) { kernels::block_attention<bf16, 64, 128>(cta, in); });
}

}  // namespace tlx::bench
