// A shared library as a user would write it: kernels of its own, one of them in two configurations, and kernels from templates of tlx.
#include "tlx/dsl/registry.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/kernels/gemm.hpp"

using namespace tlx;
using namespace tlx::literals;

struct scaled_sum_arguments {
  TLX_ARGUMENTS(scaled_sum_arguments, (view<float, 2>, x), (view<float, 2>, y), (scalar<float>, alpha));
};

struct small { static constexpr const char* name = "16x64"; static constexpr int rows = 16, cols = 64; };
struct large { static constexpr const char* name = "32x128"; static constexpr int rows = 32, cols = 128; };

template <class Plan>
void scaled_sum(block& cta, const scaled_sum_arguments& in) {
  cta.warps(4_warps);
  cta.tile(grid_of<Plan::rows, Plan::cols>(in.y), [&](const grid_box& t) {
    auto x = fetch<Plan::rows, Plan::cols>(in.x[t]);
    auto y = fetch<Plan::rows, Plan::cols>(in.y[t]);
    store(in.y[t], x * in.alpha + y);
  });
}

[[maybe_unused]] static const bool scaled = register_kernel<scaled_sum_arguments>("scaled_sum", configurations<small, large>{},
                                                                                [](block& cta, const scaled_sum_arguments& in, auto plan) { scaled_sum<decltype(plan)>(cta, in); });
TLX_KERNEL(only_sum, scaled_sum_arguments, scaled_sum<small>);

struct narrow : kernels::gemm_plan<128, 128, 64, 5> { static constexpr const char* name = "128x128_nt"; };
[[maybe_unused]] static const bool products = register_kernel<kernels::gemm_arguments<bf16>>(
    "gemm_bf16", configurations<narrow>{}, [](block& cta, const kernels::gemm_arguments<bf16>& in, auto plan) {
      kernels::gemm<bf16, decltype(plan)>(cta, in, [](const auto& acc, const auto& of, const grid_box&) { return acc * of.alpha; });
    });
TLX_KERNEL(block_attention_bf16_d64, kernels::attention_arguments<bf16>, [](block& cta, const kernels::attention_arguments<bf16>& in) { kernels::block_attention<bf16, 64, 64>(cta, in); });
