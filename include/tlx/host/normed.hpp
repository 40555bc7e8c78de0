// Linear layers beside an RMSNorm in one call and one kernel: normed rows in, or normed rows out.
#pragma once
#include "tlx/host/gemm.hpp"

namespace tlx::host {

struct normed_options {
  tile::element type = tile::element::bf16;  // of all matrices: bf16 or f16
  float epsilon = 1e-6f;                     // rms(x) = x / sqrt(mean(x^2) + epsilon), row by row
  device::address bias = 0;                  // c.cols floats, 0: none
  activation activate = activation::none;
  matrix residual = {};                      // like c, data 0: none
  device::address gain = 0;                  // gemm_normed: c.cols floats, 0: none. normed_gemm has none: a gain of a's columns is a factor of b's rows
  matrix before = {};                        // gemm_normed: like c, data 0: none. Receives what is normed
  std::uint64_t stream = 0;
};

/// c = activation(rms(a) * b + bias) + residual. a is M x K and row-major, b is K x N and column_major (stored N x K, as weights are), c is M x N and row-major.
/// Any extents from 0 up. f32 sums of products and of squares, one rounding to `type`. Raises user_error: gemm-shape, gemm-type, gemm-layout, gemm-gain, and what bind raises.
void normed_gemm(session& with, const matrix& a, const matrix& b, const matrix& c, const normed_options& how = {});

/// c = gain * rms(activation(a * b + bias) + residual), matrices as above, N at most 512: whole rows of c lie in one CTA. Raises gemm-width too.
void gemm_normed(session& with, const matrix& a, const matrix& b, const matrix& c, const normed_options& how = {});

}  // namespace tlx::host
