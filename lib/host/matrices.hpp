// A host::matrix as it lies in memory: rows are the slow axis of what is stored.
#pragma once
#include "tlx/device/device.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

inline std::int64_t slow_of(const matrix& m) { return m.column_major ? m.cols : m.rows; }
inline std::int64_t fast_of(const matrix& m) { return m.column_major ? m.rows : m.cols; }
inline std::int64_t stride_of(const matrix& m) { return m.stride ? m.stride : fast_of(m); }
inline std::int64_t batch_stride_of(const matrix& m) { return m.batch_stride ? m.batch_stride : slow_of(m) * stride_of(m); }

inline device::value view_of(const matrix& m, std::int64_t batch = 1) {
  if (batch == 1) return device::view_value(m.data, {slow_of(m), fast_of(m)}, {stride_of(m), 1});
  return device::view_value(m.data, {batch, slow_of(m), fast_of(m)}, {batch_stride_of(m), stride_of(m), 1});
}

/// Whether base, rows and matrices start at multiples of 16 bytes.
inline bool bulk_copies_work(const matrix& m, tile::element e, std::int64_t batch = 1) {
  const std::int64_t per_piece = 16 * 8 / tile::bits(e);
  return m.data % 16 == 0 && (slow_of(m) <= 1 || stride_of(m) % per_piece == 0) && (batch == 1 || batch_stride_of(m) % per_piece == 0);
}

/// What an activation adds to a kernel's name.
inline const char* suffix_of(activation a) {
  constexpr const char* all[] = {"", "_relu", "_gelu", "_gelu_tanh", "_silu"};
  return all[static_cast<int>(a)];
}

/// For families of 16-bit kernels that read all operands with K contiguous. `what`: "gated product"; `weights`: the names of those that are stored N x K.
inline void check_family(const char* what, tile::element type, bool a_column_major, const char* weights, bool weights_column_major, bool c_column_major) {
  if (type != tile::element::bf16 && type != tile::element::f16)
    raise(user_error({.id = "gemm-type", .what = cat(what, " of ", tile::name(type)), .because = "this function multiplies bf16 and f16 matrices", .fix = {"use bf16 or f16"}}));
  if (a_column_major || !weights_column_major || c_column_major)
    raise(user_error({.id = "gemm-layout", .what = cat("a ", what, " with ", a_column_major ? "a column-major" : c_column_major ? "c column-major" : cat(weights, " row-major")),
                      .because = "its kernel reads all operands with K contiguous and stores by rows", .fix = {"store a by rows and the weights as N x K (column_major)"}}));
}

}  // namespace tlx::host
