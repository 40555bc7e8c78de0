// Operators that break a lowered kernel in one place: each lists its sites and makes one mutant a site.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::mutation {

struct mutant {
  std::string name;   // of the operator
  std::string site;   // what and where, in words that do not change with line numbers
  std::string ring;   // the ring that the site belongs to; empty: none
  std::string role;   // the role that runs it
  std::string line;   // "file.cpp:12" of the op
  std::unique_ptr<ir::kernel> kernel;
};

/// Calls `each` for every mutant of every operator. Operators in tests/mutation/operators.cpp, one table.
void for_each_mutant(const ir::kernel& lowered, const std::function<void(mutant&)>& each);

std::vector<std::string> operator_names();

}  // namespace tlx::mutation
