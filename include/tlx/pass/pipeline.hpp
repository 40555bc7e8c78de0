// The passes that turn a traced kernel into one that code generation can emit, in order, each with the reason for its place.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::pass {

struct pass {
  const char* name;               // as `tlxc print --after=NAME`
  void (*run)(ir::kernel&);
  const char* why_here;
};

/// The table for a target. Raises user_error [target-unsupported].
const std::vector<pass>& pipeline_for(const std::string& target);

}  // namespace tlx::pass
