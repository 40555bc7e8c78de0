#include "agents.hpp"

#include <algorithm>

namespace tlx::pass {

namespace {

bool needs_all_lanes(const ir::op& o, bool tensor_memory) {
  for (ir::value v : o.operands)
    if (v->type.is_tile()) return true;
  for (const auto& r : o.results)
    if (r->type.is_tile()) return true;
  if (o.is(ir::opcode::mma)) return !tensor_memory;
  if (o.is(ir::opcode::tile_load)) return o.text("by") == "threads";
  switch (o.code) {
    case ir::opcode::barrier_cta:
    case ir::opcode::barrier_warp:
    case ir::opcode::cluster_sync:
    case ir::opcode::print:
    case ir::opcode::inline_ptx:
    case ir::opcode::elect:
    case ir::opcode::tile_clear:
    case ir::opcode::shared_zero: return true;
    default: return false;
  }
}

}  // namespace

std::vector<agent> agents(ir::kernel& k) {
  std::vector<agent> all;
  for (const auto& o : k.body.ops)
    if (o->is(ir::opcode::role)) {
      agent a{o.get(), o->regions[0].get(), o->text("name"), static_cast<int>(o->integer("warps")), false};
      a.single_lane = a.warps == 1;
      if (o->has("single_lane")) a.single_lane = o->integer("single_lane") != 0;
      else ir::walk(*a.body, [&](const ir::op& inner) { a.single_lane = a.single_lane && !needs_all_lanes(inner, has_tensor_memory(k)); });
      all.push_back(a);
    }
  if (all.empty()) all.push_back({nullptr, &k.body, "cta", k.warps, false});
  return all;
}

ir::op* enclosing(const ir::op& o, ir::opcode what) {
  for (ir::region* r = o.parent; r && r->parent; r = r->parent->parent)
    if (r->parent->is(what)) return r->parent;
  return nullptr;
}

bool inside(const ir::op& o, const ir::region& r) {
  for (const ir::region* up = o.parent; up; up = up->parent ? up->parent->parent : nullptr)
    if (up == &r) return true;
  return false;
}

const agent& agent_of(const std::vector<agent>& all, const ir::op& o) {
  for (const agent& a : all)
    if (inside(o, *a.body)) return a;
  return all.front();
}

void meet(ir::builder& b, const agent& who) {
  if (who.warps == 1) b.make(ir::opcode::barrier_warp);
  else if (!who.role) b.make(ir::opcode::barrier_cta, {}, {}, {{"id", std::int64_t{0}}, {"threads", std::int64_t{0}}});
  else b.make(ir::opcode::barrier_cta, {}, {}, {{"id", who.role->integer("barrier")}, {"threads", std::int64_t{who.warps} * 32}});
}

std::vector<ir::op*> find_all(ir::region& r, ir::opcode code) {
  std::vector<ir::op*> found;
  ir::walk(r, [&](ir::op& o) {
    if (o.is(code)) found.push_back(&o);
  });
  return found;
}

std::vector<ir::op*> users(ir::kernel& k, ir::value v) {
  std::vector<ir::op*> found;
  ir::walk(k.body, [&](ir::op& o) {
    if (std::find(o.operands.begin(), o.operands.end(), v) != o.operands.end()) found.push_back(&o);
  });
  return found;
}

ir::op* ring_of(ir::value part) {
  ir::op* o = part->owner;
  if (!o || !(o->is(ir::opcode::ring_fill) || o->is(ir::opcode::ring_drain))) return nullptr;
  return o->operands[0]->owner;
}

}  // namespace tlx::pass
