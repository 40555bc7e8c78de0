// GEMMs of few rows. Swapped: the weights are the operand of 64 or 128 rows, c^T = b^T a^T, so that a narrow tile wastes no products and all SMs read weights.
// With K divided into parts the parts are a batch whose results are f32 in a workspace; sum_parts adds them in order. Or not swapped: narrow tiles of c over all
// its rows, and clusters that read a once for all their CTAs, so that the weights are nearly all that comes from L2.
#include "host/gemm_epilogue.hpp"

namespace tlx::host {

namespace {

template <class T, class C, int Rank>
std::unique_ptr<ir::kernel> traced_swapped(const gemm_choice& c, const std::string& name, const std::string& target) {
  using namespace kernels;
  // As many stages as fit: what matters is how many bytes are on their way.
  if (c.cluster == 2 && c.n == 64) return traced<T, T, C, Rank, clustered<result_transposed<gemm_plan<128, 64, 64, 9>>, 2>>(c, name, target);
  if (c.cluster == 2 && c.n == 128) return traced<T, T, C, Rank, clustered<result_transposed<gemm_plan<128, 128, 64, 6>>, 2>>(c, name, target);
  if (c.n == 16) return traced<T, T, C, Rank, result_transposed<gemm_plan<64, 16, 128, 10>>>(c, name, target);
  if (c.n == 32) return traced<T, T, C, Rank, result_transposed<gemm_plan<64, 32, 128, 8>>>(c, name, target);
  if (c.n == 64) return traced<T, T, C, Rank, result_transposed<gemm_plan<128, 64, 64, 9>>>(c, name, target);
  return traced<T, T, C, Rank, result_transposed<gemm_plan<128, 128, 64, 6>>>(c, name, target);
}

template <class T, class C>
std::unique_ptr<ir::kernel> traced_narrow_tiles(const gemm_choice& c, const std::string& name, const std::string& target) {
  using namespace kernels;
  if (c.m == 64 && c.n == 64) return traced<T, T, C, 2, clustered<gemm_plan<64, 64, 64, 12>, 2, neighbour::beside>>(c, name, target);
  if (c.m == 64 && c.n == 72) return traced<T, T, C, 2, clustered<gemm_plan<64, 72, 64, 12>, 4, neighbour::beside>>(c, name, target);
  if (c.m == 128 && c.n == 64) return traced<T, T, C, 2, clustered<gemm_plan<128, 64, 64, 8>, 2, neighbour::beside>>(c, name, target);
  if (c.m == 128 && c.n == 72) return traced<T, T, C, 2, clustered<gemm_plan<128, 72, 64, sizeof(C) == 4 ? 7 : 8>, 4, neighbour::beside>>(c, name, target);
  no_kernel(c);
}

template <class T>
std::unique_ptr<ir::kernel> with_result(const gemm_choice& c, const std::string& name, const std::string& target) {
  if (c.parts > 1) {
    gemm_choice part = c;
    part.finish = {};
    return traced_swapped<T, float, 3>(part, name, target);
  }
  if (!c.swapped) return c.c == tile::element::f32 ? traced_narrow_tiles<T, float>(c, name, target) : traced_narrow_tiles<T, T>(c, name, target);
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
