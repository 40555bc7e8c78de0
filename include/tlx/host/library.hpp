// The kernels that come with the library, by name: for tlxc, which prints, builds and runs them, and for tests that must see every one. There is no other list.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tlx/host/gemm.hpp"
#include "tlx/ir/kernel.hpp"

namespace tlx::host {

/// What to feed a GEMM: one of matrices of a 16-bit type, with all eleven arguments of host::gemm's kernels.
struct gemm_inputs {
  tile::element type = tile::element::bf16;
  bool a_transposed = false, b_transposed = true;  // stored K x M, N x K
  bool alpha = false, bias = false, residual = false;
  activation activate = activation::none;
};
/// What to feed block attention, by host::block_attention() and its backward pass.
struct attention_inputs {
  tile::element type = tile::element::bf16;
  int block = 64, dimension = 64;
  bool backward = false, causal = false, grouped = false, rotary = false;
};

struct library_kernel {
  std::string name;
  std::function<std::unique_ptr<ir::kernel>(const std::string& target)> trace;
  std::variant<std::monostate, gemm_inputs, attention_inputs> inputs = {};  // of kernels that `tlxc run` can feed
};

/// Every GEMM plan in every layout and type, the epilogues on one of them, and the attentions, under the names that host functions ask for.
/// Block-scaled products exist on chips with tcgen05 only. `target`: the kernels that exist for it; none: those that exist for every target.
std::vector<library_kernel> library_kernels(const std::string& target = {});

}  // namespace tlx::host
