// What one library GEMM kernel is: operand types, cut, layouts, epilogue. Its name says all of it; each family of types is traced in a file of its own.
#pragma once
#include <memory>
#include <string>

#include "tlx/host/gemm.hpp"
#include "tlx/ir/kernel.hpp"

namespace tlx::host {

enum class factor { none, one, each };

struct gemm_epilogue {
  bool scale = false, bias = false, bias_by_row = false, residual = false;
  activation activate = activation::none;
  factor scale_a = factor::none, scale_b = factor::none;
  bool clamp = false, before = false;
};

struct gemm_choice {
  tile::element a = tile::element::bf16, b = tile::element::bf16, c = tile::element::bf16;
  int m = 128, n = 256;
  bool ta = false, tb = true, by_threads = false, batched = false, promoted = false;
  bool swapped = false;  // few rows: b^T is the operand that gives the tile's rows, so m counts columns of c and n its rows
  int parts = 1;         // K is divided; each part's sums go to a workspace, and a second kernel adds them and runs the epilogue
  gemm_epilogue finish = {};
};

std::string name_of(const gemm_choice& c);

/// The kernel of a choice, recorded. Raises internal_error [gemm-no-kernel] where no family has it.
std::unique_ptr<ir::kernel> trace_gemm(const gemm_choice& c, const std::string& name, const std::string& target);

/// The second kernel of a choice with several parts, and its name.
std::string sum_name_of(const gemm_choice& c);
std::unique_ptr<ir::kernel> trace_sum(const gemm_choice& c, const std::string& name, const std::string& target);

std::unique_ptr<ir::kernel> trace_gemm_swapped(const gemm_choice& c, const std::string& name, const std::string& target);
std::unique_ptr<ir::kernel> trace_gemm_bf16(const gemm_choice& c, const std::string& name, const std::string& target);
std::unique_ptr<ir::kernel> trace_gemm_f16(const gemm_choice& c, const std::string& name, const std::string& target);
std::unique_ptr<ir::kernel> trace_gemm_narrow(const gemm_choice& c, const std::string& name, const std::string& target);

}  // namespace tlx::host
