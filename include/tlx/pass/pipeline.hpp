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

// Outside of the table, because whether a kernel is watched is an option and not a property of its target (docs/watch.md).
/// Before the table, for kernels that are not watched: no require, and nothing that only one reads.
void drop_requirements(ir::kernel& k);
/// Before the table, for kernels whose bounds are checked: a require at every load and store whose box or element may start outside of its view.
void check_bounds(ir::kernel& k);
/// After the table, for kernels whose bounds are checked: a require at every bulk tensor copy, that its box starts at whole 16 bytes of a row.
void check_boxes(ir::kernel& k);
/// After the table, for kernels that are watched: a time limit and a way out for every wait; numbers ({site}) for what can be reported.
/// Raises user_error [watch-cluster-barrier] or [shared-memory-exceeded].
void watch(ir::kernel& k, std::int64_t limit_ns);

}  // namespace tlx::pass
