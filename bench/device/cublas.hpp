// cuBLAS and cuBLASLt, found and opened at run time, as peers of the GEMM: c = a * b^T with rows stored one after another, bf16 or e4m3 in, bf16 out,
// f32 sums.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tlx/device/device.hpp"

namespace tlx::bench {

/// a: m x k, b: n x k, c: m x n, all row-major and dense. `bias`: n bf16 values, 0: none; `gelu`: its tanh form.
struct product {
  std::int64_t m = 0, n = 0, k = 0;
  device::address a = 0, b = 0, c = 0, bias = 0;
  bool gelu = false;
  std::int64_t batch = 1;             // dense matrices, one after the other
  device::address scale_a = 0, scale_b = 0;  // e4m3 operands: one float each
  bool promoted = false;                     // e4m3: not CUBLASLT_MATMUL_DESC_FAST_ACCUM
  bool is_e4m3() const { return scale_a != 0; }
};

class cublas {
 public:
  /// `folder`: where the libraries are; empty: the loader's path, then CUDA_HOME and /usr/local/cuda. Raises device_error [bench-cublas].
  explicit cublas(const std::string& folder);
  ~cublas();
  int version() const;

  /// What cublasGemmEx chooses by itself. No bias, no gelu.
  void gemm_ex(const product& p, std::uint64_t stream);

  /// cuBLASLt's way to compute a product: descriptors and the algorithms that its heuristic offers, best guess first.
  class plan;
  std::unique_ptr<plan> prepare(const product& p, int most);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

class cublas::plan {
 public:
  ~plan();
  int candidates() const;
  void run(int candidate, const product& p, std::uint64_t stream);  // the shape and bias that it was prepared for

 private:
  friend class cublas;
  struct state;
  explicit plan(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace tlx::bench
