// GEMMs that read operands with K contiguous only: tf32, 8-bit floats and their mixtures, s8.
#include "host/gemm_epilogue.hpp"

namespace tlx::host {

namespace {

template <class A, class B, class C>
std::unique_ptr<ir::kernel> traced_narrow(const gemm_choice& c, const std::string& name, const std::string& target) {
  using namespace kernels;
  constexpr int k = 128 / static_cast<int>(sizeof(A));  // one row of a stage is 128 bytes
  constexpr bool eight_bit_floats = sizeof(A) == 1 && !std::is_integral_v<A>;
  if (c.batched) {
    if (c.by_threads) return traced<A, B, C, 3, gemm_plan<128, 128, k, 3, false, true, true>>(c, name, target);
    return traced<A, B, C, 3, gemm_plan<128, 128, k, 5>>(c, name, target);
  }
  if (c.by_threads) return traced<A, B, C, 2, gemm_plan<128, 128, k, 3, false, true, true>>(c, name, target);
  if constexpr (eight_bit_floats) {
    if (c.promoted && c.n == 176) return traced<A, B, C, 2, sums_promoted<gemm_plan<128, 176, k, 5>>>(c, name, target);
    if (c.promoted && c.n == 192) return traced<A, B, C, 2, sums_promoted<gemm_plan<128, 192, k, 4>>>(c, name, target);
    if (c.promoted) return traced<A, B, C, 2, sums_promoted<gemm_plan<128, 128, k, 6>>>(c, name, target);
    if (c.cluster == 2 && has_pairs(target)) return traced<A, B, C, 2, paired<gemm_plan<128, 256, k, 6>>>(c, name, target);
    if (c.cluster == 2) return traced<A, B, C, 2, clustered<gemm_plan<128, 256, k, 4>, 2>>(c, name, target);
  }
  if (c.n == 128) return traced<A, B, C, 2, gemm_plan<128, 128, k, 5>>(c, name, target);
  return traced<A, B, C, 2, gemm_plan<128, 256, k, 4>>(c, name, target);
}

template <class A, class B>
std::unique_ptr<ir::kernel> with_result(const gemm_choice& c, const std::string& name, const std::string& target) {
  switch (c.c) {
    case tile::element::f32: return traced_narrow<A, B, float>(c, name, target);
    case tile::element::bf16: return traced_narrow<A, B, bf16>(c, name, target);
    case tile::element::f16: return traced_narrow<A, B, f16>(c, name, target);
    default: no_kernel(c);
  }
}

}  // namespace

std::unique_ptr<ir::kernel> trace_gemm_narrow(const gemm_choice& c, const std::string& name, const std::string& target) {
  using tile::element;
  if (c.a == element::tf32 && c.b == element::tf32) return with_result<tf32, tf32>(c, name, target);
  if (c.a == element::s8 && c.b == element::s8) return with_result<signed char, signed char>(c, name, target);
  if (c.a == element::e4m3) return c.b == element::e4m3 ? with_result<e4m3, e4m3>(c, name, target) : with_result<e4m3, e5m2>(c, name, target);
  if (c.a == element::e5m2) return c.b == element::e4m3 ? with_result<e5m2, e4m3>(c, name, target) : with_result<e5m2, e5m2>(c, name, target);
  no_kernel(c);
}

}  // namespace tlx::host
