// Rows of a in groups, each times a matrix of its own, in one call and one launch: the experts of a mixture. Group sizes stay on the device.
#pragma once
#include "tlx/host/gemm.hpp"

namespace tlx::host {

struct grouped_options {
  tile::element type = tile::element::bf16;  // of all matrices: bf16 or f16
  device::address bias = 0;                  // groups x c.cols floats, 0: none
  activation activate = activation::none;
  std::uint64_t stream = 0;
};

/// c[r] = activation(a[r] * b[g] + bias[g]) for the rows r from offsets[g] to offsets[g + 1] - 1. `offsets`: groups + 1 ascending row numbers on the machine,
/// int32; groups may be empty; rows of no group are neither read nor written. a is M x K and row-major, each b is K x N and column_major (stored N x K), batch_stride
/// apart, c is M x N and row-major. f32 sums, one rounding to `type`; the same bits on every run. Raises user_error: gemm-shape, gemm-type, gemm-layout, and what bind raises.
void grouped_gemm(session& with, const matrix& a, const matrix& b, const matrix& c, device::address offsets, std::int64_t groups, const grouped_options& how = {});

}  // namespace tlx::host
