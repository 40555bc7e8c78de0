// c = activation(alpha * a * b + bias) + residual in one call, for people who only want the result.
#pragma once
#include <cstdint>
#include <string>

#include "tlx/host/session.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::host {

/// rows x cols at `data` on the machine. `stride`: elements between rows (between columns when column_major); 0: dense.
struct matrix {
  device::address data = 0;
  std::int64_t rows = 0, cols = 0, stride = 0;
  bool column_major = false;
};

enum class activation { none, relu, gelu, gelu_tanh, silu };

struct gemm_options {
  tile::element type = tile::element::bf16;  // of a, b, c and the residual: bf16 or f16
  float alpha = 1;
  device::address bias = 0;                  // c.cols floats, 0: none
  matrix residual = {};                      // like c, data 0: none; row-major
  activation activate = activation::none;
  std::uint64_t stream = 0;
};

/// a is M x K, b is K x N, c is M x N and row-major. Any extents from 0 up; rows that are not 16-byte aligned take ordinary loads, at ordinary speed.
/// f32 accumulation, one rounding to `type`. Raises user_error: gemm-shape, gemm-type, and what bind raises.
void gemm(session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how = {});

/// The kernel that gemm() would launch: its name says tile, stages, layouts and epilogue.
std::string gemm_kernel_name(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how = {});

}  // namespace tlx::host
