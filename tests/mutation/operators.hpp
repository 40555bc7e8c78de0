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
  std::vector<std::string> lines;  // "file.cpp:12" of the op; of a loop those of what is in it too, of a wait for products theirs
  std::unique_ptr<ir::kernel> kernel;
  const ir::kernel* original = nullptr;
  const ir::op* at = nullptr;  // in `original`
};

/// Calls `each` for one in `shares` mutants of all operators, from number `share` on; shares 0..shares-1 are all of them. Operators in tests/mutation/operators.cpp, one table.
void for_each_mutant(const ir::kernel& lowered, int share, int shares, const std::function<void(mutant&)>& each);

std::vector<std::string> operator_names();

}  // namespace tlx::mutation
