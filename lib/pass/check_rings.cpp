#include <set>

#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::pass {

void check_rings(ir::kernel& k) {
  const std::vector<agent> all = agents(k);
  for (ir::op* ring : find_all(k.body, ir::opcode::ring_make)) {
    std::set<std::string> fills, drains;
    for (ir::op* user : users(k, ring->result())) (user->is(ir::opcode::ring_fill) ? fills : drains).insert(agent_of(all, *user).name);
    const std::string name = ring->text("name");
    const std::string context = cat("kernel \"", k.name, "\"");
    if (drains.empty() && fills.empty())
      raise(user_error({.id = "ring-unused", .what = cat("ring \"", name, "\" is neither filled nor drained"), .where = ring->where,
                        .because = "its slots would take shared memory for nothing", .fix = {cat("remove \"", name, "\"")}, .context = context}));
    if (drains.empty())
      raise(user_error({.id = "ring-never-drained", .what = cat("ring \"", name, "\" (", ring->result()->type.stages, " stages) is filled by role \"", *fills.begin(), "\" but no role drains it"),
                        .where = ring->where, .because = "the filling role would wait forever for the first slot to come back",
                        .fix = {cat("drain \"", name, "\" in a role, or remove the ring")}, .context = context}));
    if (fills.empty())
      raise(user_error({.id = "ring-never-filled", .what = cat("ring \"", name, "\" is drained by role \"", *drains.begin(), "\" but no role fills it"),
                        .where = ring->where, .because = "the draining role would wait forever for the first slot to arrive",
                        .fix = {cat("fill \"", name, "\" in a role, or remove the ring")}, .context = context}));
    if (fills.size() > 1)
      raise(user_error({.id = "ring-filled-by-two-roles", .what = cat("ring \"", name, "\" is filled by roles \"", *fills.begin(), "\" and \"", *fills.rbegin(), "\""),
                        .where = ring->where, .because = "the order in which two roles fill slots is not defined",
                        .fix = {"give each filling role a ring of its own"}, .context = context}));
  }
}

}  // namespace tlx::pass
