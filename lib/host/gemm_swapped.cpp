// GEMMs of few rows: the weights are the operand of 64 or 128 rows, c^T = b^T a^T, so that a narrow tile wastes no products and all SMs read weights. With K
// divided into parts the parts are a batch whose results are f32 in a workspace; sum_parts adds them in order.
#include "host/gemm_epilogue.hpp"

namespace tlx::host {

namespace {

template <class T, class C, int Rank>
std::unique_ptr<ir::kernel> traced_swapped(const gemm_choice& c, const std::string& name, const std::string& target) {
  using namespace kernels;
  // As many stages as fit: what matters is how many bytes are on their way.
  if (c.n == 16) return traced<T, T, C, Rank, result_transposed<gemm_plan<64, 16, 128, 10>>>(c, name, target);
  if (c.n == 32) return traced<T, T, C, Rank, result_transposed<gemm_plan<64, 32, 128, 8>>>(c, name, target);
  if (c.n == 64) return traced<T, T, C, Rank, result_transposed<gemm_plan<128, 64, 64, 9>>>(c, name, target);
  return traced<T, T, C, Rank, result_transposed<gemm_plan<128, 128, 64, 6>>>(c, name, target);
}

template <class T>
std::unique_ptr<ir::kernel> with_result(const gemm_choice& c, const std::string& name, const std::string& target) {
  if (c.parts > 1) {
    gemm_choice part = c;
    part.finish = {};
    return traced_swapped<T, float, 3>(part, name, target);
  }
  return c.c == tile::element::f32 ? traced_swapped<T, float, 2>(c, name, target) : traced_swapped<T, T, 2>(c, name, target);
}

template <class C>
std::unique_ptr<ir::kernel> traced_sum(const gemm_choice& c, const std::string& name, const std::string& target) {
  using arguments = kernels::sum_arguments<C>;
  return trace<arguments>(name, target, [&](block& cta, const arguments& in) { kernels::sum_parts(cta, in, c.parts, epilogue_of<>{c.finish}); });
}

}  // namespace

std::unique_ptr<ir::kernel> trace_gemm_swapped(const gemm_choice& c, const std::string& name, const std::string& target) {
  return c.a == tile::element::bf16 ? with_result<bf16>(c, name, target) : with_result<f16>(c, name, target);
}

std::unique_ptr<ir::kernel> trace_sum(const gemm_choice& c, const std::string& name, const std::string& target) {
  if (c.c == tile::element::bf16) return traced_sum<bf16>(c, name, target);
  if (c.c == tile::element::f16) return traced_sum<f16>(c, name, target);
  return traced_sum<float>(c, name, target);
}

}  // namespace tlx::host
