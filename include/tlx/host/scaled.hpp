// Block-scaled products, MXFP8, MXFP4 and NVFP4, on Blackwell in one call.
#pragma once
#include "tlx/host/gemm.hpp"

namespace tlx::host {

struct scaled_options {
  tile::element type = tile::element::e4m3;     // of a and b: e4m3, e5m2, or e2m1 (two to a byte, the first in the low bits)
  std::optional<tile::element> type_b = {};     // of b, where it differs: e4m3 with e5m2
  tile::element scales = tile::element::ue8m0;  // one for each 32 numbers of K; with e2m1 also ue4m3, one for each 16
  tile::element type_c = tile::element::bf16;   // bf16, f16 or f32
  float alpha = 1;                              // NVFP4's second scale of both tensors, multiplied
  device::address bias = 0;                     // c.cols floats, 0: none
  activation activate = activation::none;
  std::uint64_t stream = 0;
};

/// c = activation(alpha * (a * b) + bias), where every number of a and b is multiplied by the scale of its block of K; f32 sums, one rounding to `type_c`. a is M x K and
/// row-major, b is K x N and column_major, c is M x N and row-major; extents and strides in numbers, also of e2m1. K is a multiple of the block, rows of a and b
/// start at multiples of 16 bytes. `scales_a`, `scales_b`: units of 128 rows x 4 scales as cuBLAS, CUTLASS and PyTorch lay them (docs/gemm.md), ceil(rows / 128) x
/// ceil(K / block / 4) of 512 bytes; what fills the last unit of K up must not be NaN. Raises user_error: gemm-shape, gemm-type, gemm-layout, gemm-scales,
/// scaled-product-missing on Hopper, and what bind raises.
void scaled_gemm(session& with, const matrix& a, device::address scales_a, const matrix& b, device::address scales_b, const matrix& c, const scaled_options& how = {});

/// Bytes of the scales of `rows` rows (columns of b) of K numbers.
constexpr std::int64_t scale_bytes(std::int64_t rows, std::int64_t k, tile::element scales = tile::element::ue8m0) {
  const std::int64_t block = scales == tile::element::ue4m3 ? 16 : 32, each = (k + block - 1) / block;
  return (rows + 127) / 128 * ((each + 3) / 4) * 512;
}
/// Where in them the scale of row `row`, block `block` of K is.
constexpr std::int64_t scale_offset(std::int64_t row, std::int64_t block, std::int64_t k, tile::element scales = tile::element::ue8m0) {
  const std::int64_t units = scale_bytes(1, k, scales) / 512;
  return (row / 128 * units + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}

}  // namespace tlx::host
