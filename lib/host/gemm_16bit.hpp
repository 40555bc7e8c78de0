// GEMMs of one 16-bit type: every layout, both ranks, results in the same type or f32.
#pragma once
#include "host/gemm_epilogue.hpp"

namespace tlx::host {

template <class T, class C, bool TA, bool TB>
std::unique_ptr<ir::kernel> traced_16bit(const gemm_choice& c, const std::string& name, const std::string& target) {
  using namespace kernels;
  if (c.batched) {
    if (c.by_threads) return traced<T, T, C, 3, gemm_plan<128, 128, 64, 3, TA, TB, true>>(c, name, target);
    if (c.m == 64) return traced<T, T, C, 3, several_ctas<gemm_plan<64, 64, 64, 4, TA, TB>, 3>>(c, name, target);
    return traced<T, T, C, 3, gemm_plan<128, 128, 64, 5, TA, TB>>(c, name, target);
  }
  if (c.by_threads) return traced<T, T, C, 2, gemm_plan<128, 128, 64, 3, TA, TB, true>>(c, name, target);
  if constexpr (std::is_same_v<T, C>)
    if (c.cluster == 2 && c.n == 256 && has_pairs(target)) return traced<T, T, C, 2, paired<gemm_plan<128, 256, 64, 6, TA, TB>>>(c, name, target);
  if constexpr (!TA && TB && std::is_same_v<T, C>) {
    if (c.n == 208) return traced<T, T, C, 2, gemm_plan<128, 208, 64, 4, TA, TB>>(c, name, target);
    if (c.cluster == 2 && c.n == 128) return traced<T, T, C, 2, paired<gemm_plan<128, 128, 64, 6, TA, TB>>>(c, name, target);
    if (c.cluster == 2) return traced<T, T, C, 2, clustered<gemm_plan<128, 256, 64, 4, TA, TB>, 2>>(c, name, target);
    if (c.turns && c.finish.residual) return traced<T, T, C, 2, in_turns<gemm_plan<128, 128, 64, 5, TA, TB>, true>>(c, name, target);
    if (c.turns) return traced<T, T, C, 2, in_turns<gemm_plan<128, 128, 64, 6, TA, TB>>>(c, name, target);
    if (c.n == 224) return traced<T, T, C, 2, gemm_plan<128, 224, 64, 4, TA, TB>>(c, name, target);
  }
  if (c.n == 128) return traced<T, T, C, 2, gemm_plan<128, 128, 64, 5, TA, TB>>(c, name, target);
  return traced<T, T, C, 2, gemm_plan<128, 256, 64, 4, TA, TB>>(c, name, target);
}

template <class T, class C>
std::unique_ptr<ir::kernel> traced_16bit(const gemm_choice& c, const std::string& name, const std::string& target) {
  if (c.ta) return c.tb ? traced_16bit<T, C, true, true>(c, name, target) : traced_16bit<T, C, true, false>(c, name, target);
  return c.tb ? traced_16bit<T, C, false, true>(c, name, target) : traced_16bit<T, C, false, false>(c, name, target);
}

}  // namespace tlx::host
