// c = activation(alpha * a * b + bias) + residual in one call, for people who only want the result.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tlx/host/session.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::host {

/// rows x cols at `data` on the machine. `stride`: elements between rows (between columns when column_major); 0: dense. `batch_stride`: elements between
/// one matrix of a batch and the next; 0: dense.
struct matrix {
  device::address data = 0;
  std::int64_t rows = 0, cols = 0, stride = 0;
  bool column_major = false;
  std::int64_t batch_stride = 0;
  bool operator==(const matrix&) const = default;
};

enum class activation { none, relu, gelu, gelu_tanh, silu };

/// f32 factors of the products, on the machine: one for the whole matrix, or one for each row of a (column of b).
struct scale {
  device::address data = 0;  // 0: none
  bool each = false;
  bool operator==(const scale&) const = default;
};

/// How a product is cut among the processors. gemm_schedules() lists what there is for a call.
struct gemm_schedule {
  int rows = 0, cols = 0;  // of c, for each CTA and round
  int cluster = 1;         // CTAs that bring the operand which their tiles share to each other, so that it is read once; on Blackwell two also multiply together
  int parts = 1;           // of K; the sums are added by a second kernel
  bool swapped = false;    // b is the operand of 64 or 128 rows: for products of few rows
  bool in_turns = false;   // four warps multiply a tile while four others finish the one before
  bool operator==(const gemm_schedule&) const = default;
};

struct gemm_options {
  tile::element type = tile::element::bf16;   // of a and b: bf16, f16, tf32, e4m3, e5m2, s8
  std::optional<tile::element> type_b = {};   // of b, where it differs: e4m3 with e5m2
  std::optional<tile::element> type_c = {};   // of c, residual and before: bf16, f16 or f32; default: a's 16-bit type, f32 for tf32, else bf16
  std::int64_t batch = 1;                     // that many products; each matrix's batch_stride says where they lie
  float alpha = 1;
  scale scale_a = {}, scale_b = {};           // of 8-bit operands mostly: c = alpha * scale_a[row] * scale_b[column] * a * b + ...
  device::address bias = 0;                   // c.cols floats (c.rows with bias_by_row), 0: none
  bool bias_by_row = false;
  matrix residual = {};                       // like c, data 0: none; row-major
  activation activate = activation::none;
  std::optional<float> low = {}, high = {};   // the result is clamped to these before it is rounded
  matrix before = {};                         // like c, data 0: none. Receives what enters the activation
  bool promoted = false;                      // 8-bit floats on Hopper: every 128 products are summed apart and added in f32 (docs/numerics.md)
  std::optional<gemm_schedule> schedule = {};  // one of gemm_schedules(); none: the rule chooses
  std::uint64_t stream = 0;
  bool operator==(const gemm_options&) const = default;
};

/// a is M x K, b is K x N, c is M x N and row-major. Any extents from 0 up; rows that are not 16-byte aligned take ordinary loads, at ordinary speed.
/// 16-bit types take a and b in either orientation; the others want K contiguous: a row-major, b column_major (what wgmma reads).
/// f32 accumulation (s32 for s8), one rounding to `type_c`. Raises user_error: gemm-shape, gemm-type, gemm-layout,
/// gemm-schedule, and what bind raises.
void gemm(session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how = {});

/// A schedule and what the rule expects of it: counts are exact, times are a model's, of an H200 or a B200.
struct gemm_estimate {
  gemm_schedule schedule;
  std::string kernel;
  std::int64_t tiles = 0, rounds = 0;          // CTAs' tiles, and how often all processors take one
  double fill = 0;                             // share of the processors' rounds that have a tile
  std::int64_t memory_bytes = 0, l2_bytes = 0; // read and written once; moved between L2 and the processors
  double products_us = 0, memory_us = 0, l2_us = 0, us = 0;  // each by itself; all together
  const char* bound = "";                      // the longest of them: "products", "memory", "L2"
};
std::string to_string(const gemm_estimate& e);

/// What the rule knows about a call: every schedule that can run it, first the one that gemm() takes unasked.
std::vector<gemm_estimate> gemm_schedules(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how = {});

/// The kernel that gemm() would launch: its name says tile, stages, layouts and epilogue.
std::string gemm_kernel_name(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how = {});

}  // namespace tlx::host
