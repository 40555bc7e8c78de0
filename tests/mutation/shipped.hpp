// Every kernel that is shipped: the library's, and those of the examples, whose sources are included as they are.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::mutation {

struct shipped {
  std::string name;
  bool quick;  // in the default run
  std::function<std::unique_ptr<ir::kernel>(const std::string& target)> trace;
};

/// Those that exist for the target.
std::vector<shipped> shipped_kernels(const std::string& target);

}  // namespace tlx::mutation
