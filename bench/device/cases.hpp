// The cases of the device benchmark. Each checks every implementation's result, then times them together.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/device/card.hpp"
#include "bench/device/cublas.hpp"
#include "bench/device/pool.hpp"
#include "bench/support/report.hpp"
#include "tlx/host/session.hpp"

namespace tlx::bench {

struct setting {
  device::machine& gpu;
  const card& of;
  cublas* peer;  // null: measured without
  host::session& session;
  const pool& values;
  int rounds = 31;
  bool sustained = false;  // GEMM: long runs at the power limit as well
};

struct gemm_shape {
  std::int64_t m, n, k;
  bool bias_gelu = false;
  std::int64_t batch = 1;
  bool e4m3 = false, promoted = false;  // operands with a scale each, sums fast or promoted
  std::string name() const;
};
std::vector<gemm_shape> gemm_shapes();
std::vector<row> measure_gemm(const setting& on, const gemm_shape& shape);

/// Block attention, 4 heads. The jagged batch is the one to judge by; the others leave out one cost each, and differences say what it is.
enum class batch_kind {
  jagged,    // 1152 sequences of 1 to 1024 tokens
  whole,     // 1152 sequences of 512 tokens: no partial tiles
  single,    // one sequence: no search for it either
};
struct attention_shape {
  int dimension;
  batch_kind batch = batch_kind::jagged;
  bool backward = false;
  int block = 64;
  enum class rotation { none, halves, neighbours, halves_applied } rotary = rotation::none;  // tables by position; applied: backward of q and k that come rotated
  std::string name() const;
};
std::vector<attention_shape> attention_shapes();
std::vector<row> measure_attention(const setting& on, const attention_shape& shape);

/// What the host's side of a launch needs: no card to ask, no peer.
struct host_setting {
  device::machine& gpu;
  host::session& session;
  int rounds = 31;
};
/// Host time of a launch of one GEMM, with arguments as they were and with new ones: the driver alone, device::machine, host::session, and host::gemm.
std::vector<row> measure_launch(const host_setting& on);
/// Wall time of twenty small kernels: launched, and as one captured graph.
std::vector<row> measure_graphs(const host_setting& on);

/// GB/s of a device-to-device copy, bytes read plus bytes written; TFLOP/s of cuBLAS at 8192^3 (0 without it).
double copy_rate(const setting& on);
double cublas_rate(const setting& on);

}  // namespace tlx::bench
