// A host::matrix as it lies in memory: rows are the slow axis of what is stored.
#pragma once
#include "tlx/device/device.hpp"
#include "tlx/host/gemm.hpp"

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

}  // namespace tlx::host
