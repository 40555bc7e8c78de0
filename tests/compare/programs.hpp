// Random valid kernels at the level of tiles, with what an interpreter of that level says they give: what the passes and code generation must keep.
#pragma once
#include <memory>

#include "tests/compare/sample.hpp"

namespace tlx::compare {

/// A kernel as it is before any pass, its arguments, and the outputs by interpretation (values compare as numbers; NaN is NaN).
struct program {
  std::unique_ptr<ir::kernel> traced;
  std::vector<kernel_argument> arguments;
  std::vector<memory> memories;
  std::vector<expectation> expected;
};
program random_program(std::uint64_t seed, const std::string& target);

/// Compiled, with or without the optional passes.
sample compiled(const program& p, const std::string& name, bool optimised);

}  // namespace tlx::compare
