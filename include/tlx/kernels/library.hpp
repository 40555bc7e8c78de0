// The kernels that tlx itself registers, with what a program must know to feed them.
#pragma once
#include <string>
#include <vector>

#include "tlx/dsl/registry.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::kernels {

enum class finish { none, relu, gelu, gelu_tanh, silu };

struct library_kernel {
  enum class kind { gemm, attention };
  kind what = kind::gemm;
  std::string name;  // of the registered kernel, with its configuration
  tile::element type = tile::element::bf16;
  bool a_transposed = false, b_transposed = true;  // gemm: stored K x M, N x K
  bool bias = false, residual = false;             // gemm
  finish activate = finish::none;                  // gemm
  int dimension = 0;                               // attention
  int tokens = 64;                                 // attention: of a block
  bool backward = false;                           // attention
};

/// Registers them in this program or shared library, at the first call. Not from two threads at once.
const std::vector<library_kernel>& register_library();

}  // namespace tlx::kernels
