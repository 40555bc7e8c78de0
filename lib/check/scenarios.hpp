// Which numbers to run a kernel with. Extents and arguments are chosen, never trip counts: so two roles that compute one bound in different ways agree.
#pragma once
#include <optional>
#include <vector>

#include "check/machine.hpp"
#include "check/program.hpp"

namespace tlx::check {

struct planned {
  scenario values;
  /// Where one extent or argument was moved alone, which the others may not allow (two views may always be of one size): the same with all of them
  /// moved. A finding counts only if this run has one too.
  std::optional<scenario> together = {};
};

/// Loops run 0, 1, stages-1, stages, stages+1 and 2*stages+1 rounds where some extent or argument can make them; loops around other loops 0 to 3;
/// branches go both ways.
std::vector<planned> scenarios_for(program& p);

}  // namespace tlx::check
