// A shared library as a user would write it: kernels of its own, one of them in two configurations, and those of tlx's library.
#include "tlx/dsl/registry.hpp"
#include "tlx/kernels/library.hpp"

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

[[maybe_unused]] static const bool sums = register_kernel<scaled_sum_arguments>("scaled_sum", configurations<small, large>{},
                                                                                [](block& cta, const scaled_sum_arguments& in, auto plan) { scaled_sum<decltype(plan)>(cta, in); });
TLX_KERNEL(only_sum, scaled_sum_arguments, scaled_sum<small>);
[[maybe_unused]] static const bool library = !kernels::register_library().empty();
