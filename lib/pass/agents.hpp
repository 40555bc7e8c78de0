// Who runs what: the roles of a kernel, or the whole CTA where there are none.
#pragma once
#include <string>
#include <vector>

#include "tlx/ir/builder.hpp"

namespace tlx::pass {

struct agent {
  ir::op* role = nullptr;  // null: the CTA
  ir::region* body = nullptr;
  std::string name;
  int warps = 0;
  bool single_lane = false;  // one elected lane runs the whole role
};

std::vector<agent> agents(ir::kernel& k);
/// The agent whose region holds `o`.
const agent& agent_of(const std::vector<agent>& all, const ir::op& o);
/// The role op around `o`, or null.
ir::op* enclosing(const ir::op& o, ir::opcode what);
bool inside(const ir::op& o, const ir::region& r);

/// `body(builder)` in one lane of the agent.
template <class Body>
void elected(ir::builder& b, const agent& who, Body&& body) {
  auto in_warp = [&](ir::builder& w) { w.when(w.simple(ir::opcode::elect, tile::element::boolean), body); };
  if (who.single_lane) body(b);
  else if (who.warps == 1) in_warp(b);
  else b.when(b.compare("eq", b.simple(ir::opcode::role_warp, tile::element::s32), b.integer(0)), in_warp);
}

/// One lane of every warp of the agent.
template <class Body>
void each_warp_elected(ir::builder& b, const agent& who, Body&& body) {
  if (who.single_lane) body(b);
  else b.when(b.simple(ir::opcode::elect, tile::element::boolean), body);
}

/// All warps of the agent meet.
void meet(ir::builder& b, const agent& who);

inline bool has_tensor_memory(const ir::kernel& k) { return k.target.rfind("sm_10", 0) == 0; }
inline bool in_loop(const ir::op& o) {
  for (const ir::region* r = o.parent; r && r->parent; r = r->parent->parent)
    if (r->parent->is(ir::opcode::for_loop) || r->parent->is(ir::opcode::while_loop)) return true;
  return false;
}

/// Ops of a kernel by code, in program order.
std::vector<ir::op*> find_all(ir::region& r, ir::opcode code);
std::vector<ir::op*> users(ir::kernel& k, ir::value v);
/// The ring behind a slot's part (its ring.make), or null.
ir::op* ring_of(ir::value part);

}  // namespace tlx::pass
