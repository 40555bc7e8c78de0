// The kernels that come with the library, by name: for tools that print or compile them, and for tests that must see every one.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::host {

struct library_kernel {
  std::string name;
  std::function<std::unique_ptr<ir::kernel>(const std::string& target)> trace;
};

/// Every GEMM plan in every layout and type, the epilogues on one of them, and the attentions.
std::vector<library_kernel> library_kernels();

}  // namespace tlx::host
