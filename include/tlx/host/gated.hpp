// c = activation(a * g + bias_g) * (a * u + bias_u) in one call: the first half of a gated MLP, one pass over a.
#pragma once
#include "tlx/host/gemm.hpp"

namespace tlx::host {

struct gated_options {
  tile::element type = tile::element::bf16;     // of all matrices: bf16 or f16
  activation activate = activation::silu;       // silu: SwiGLU; gelu, gelu_tanh: GeGLU; relu: ReGLU; none: GLU's bilinear form
  device::address bias_g = 0, bias_u = 0;       // c.cols floats each, 0: none
  std::uint64_t stream = 0;
};

/// a is M x K and row-major, g and u are K x N and column_major (stored N x K, as weights are), c is M x N and row-major. Any extents from 0 up.
/// Both products are summed in f32, one rounding to `type` at the end. Raises user_error: gemm-shape, gemm-type, gemm-layout, and what bind raises.
void gated_gemm(session& with, const matrix& a, const matrix& g, const matrix& u, const matrix& c, const gated_options& how = {});

/// c = gated(a) * down, with gated(a) in the session's workspace: a whole gated MLP in two kernels. `down` is N x L and column_major, c is M x L.
void gated_mlp(session& with, const matrix& a, const matrix& g, const matrix& u, const matrix& down, const matrix& c, const gated_options& how = {}, const gemm_options& last = {});

}  // namespace tlx::host
