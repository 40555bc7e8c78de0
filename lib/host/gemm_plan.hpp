// What one library GEMM kernel is: operand types, cut, layouts, epilogue. Its name says all of it; each family of types is traced in a file of its own.
#pragma once
#include <memory>
#include <string>
#include <vector>

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
  bool turns = false;    // four warps multiply a tile while four others finish the one before
  int parts = 1;         // K is divided; each part's sums go to a workspace, and a second kernel adds them and runs the epilogue
  int cluster = 1;       // CTAs that read the operand they share once: a where few rows are not swapped, else the operand of the tile's columns; makes_pairs(): and multiply together
  gemm_epilogue finish = {};
};

std::string name_of(const gemm_choice& c);

/// The extents that a choice depends on; of one matrix of a batch.
struct gemm_extents {
  std::int64_t rows = 0, cols = 0, k = 0;
};

/// Every cut that a kernel exists for, with what it is expected to take on that chip, the one to run first. `base`: types, layouts, epilogue, by_threads,
/// batched, promoted. `few_rows`: both operands can be read by bulk copies with K contiguous; `residual_in_bulk`: the residual can, or there is none.
struct gemm_offer {
  gemm_choice choice;
  gemm_estimate estimate;
};
std::vector<gemm_offer> offers_of(const gemm_choice& base, const gemm_extents& e, bool few_rows, bool residual_in_bulk, const std::string& target, int processors);

/// The kernel of a choice, recorded. Raises internal_error [gemm-no-kernel] where no family has it.
std::unique_ptr<ir::kernel> trace_gemm(const gemm_choice& c, const std::string& name, const std::string& target);

/// The second kernel of a choice with several parts, and its name.
std::string sum_name_of(const gemm_choice& c);
std::unique_ptr<ir::kernel> trace_sum(const gemm_choice& c, const std::string& name, const std::string& target);

/// Narrow tiles over all rows of c: of that family even where b is not the operand of the tile's rows.
inline bool is_for_few_rows(const gemm_choice& c) { return c.swapped || (c.cluster > 1 && c.n < 128); }
/// Chips whose CTAs can multiply in pairs, each with half of the second operand.
inline bool has_pairs(const std::string& target) { return target.rfind("sm_10", 0) == 0; }
inline bool makes_pairs(const gemm_choice& c, const std::string& target) { return has_pairs(target) && c.cluster == 2 && !is_for_few_rows(c); }
std::unique_ptr<ir::kernel> trace_gemm_swapped(const gemm_choice& c, const std::string& name, const std::string& target);
std::unique_ptr<ir::kernel> trace_gemm_bf16(const gemm_choice& c, const std::string& name, const std::string& target);
std::unique_ptr<ir::kernel> trace_gemm_f16(const gemm_choice& c, const std::string& name, const std::string& target);
std::unique_ptr<ir::kernel> trace_gemm_narrow(const gemm_choice& c, const std::string& name, const std::string& target);

}  // namespace tlx::host
