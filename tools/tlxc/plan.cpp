#include "plan.hpp"

#include <algorithm>
#include <map>

#include "tlx/pass/pipeline.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/shared_tile.hpp"

namespace tlxc {

using tlx::cat;
using namespace tlx::ir;

namespace {

const op* role_around(const op& o) {
  for (const region* r = o.parent; r && r->parent; r = r->parent->parent)
    if (r->parent->is(opcode::role)) return r->parent;
  return nullptr;
}

std::vector<const op*> all_of(const kernel& k, opcode code) {
  std::vector<const op*> found;
  walk(k.body, [&](const op& o) {
    if (o.is(code)) found.push_back(&o);
  });
  return found;
}

std::vector<const op*> users_of(const kernel& k, const op& made) {
  std::vector<const op*> found;
  walk(k.body, [&](const op& o) {
    for (const value v : o.operands)
      if (v->owner == &made) {
        found.push_back(&o);
        break;
      }
  });
  return found;
}

// How the users of an opened slot fill or drain it.
std::string manner(const kernel& k, const op& opened) {
  const bool tensor_memory = k.target.rfind("sm_10", 0) == 0;
  std::vector<std::string> ways;
  for (const op* u : users_of(k, opened)) {
    std::string way;
    if (u->is(opcode::tile_load)) way = u->text("by") == "threads" ? "ordinary loads" : "bulk copies";
    else if (u->is(opcode::mma)) way = tensor_memory ? "tcgen05 mma" : "wgmma";
    else if (u->is(opcode::tile_write)) way = "writes by threads";
    else if (u->is(opcode::tile_read) || u->is(opcode::acc_read)) way = "reads by threads";
    if (!way.empty() && std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(way);
  }
  return tlx::join(ways, " and ");
}

void add_user(std::vector<user>& to, const kernel& k, const op& opened) {
  const op* role = role_around(opened);
  const user u{role ? role->text("name") : "the CTA", manner(k, opened)};
  for (const user& other : to)
    if (other.role == u.role && other.how == u.how) return;
  to.push_back(u);
}

ring_plan read_ring(const kernel& k, const op& made) {
  const type& t = made.result()->type;
  ring_plan r;
  r.name = made.text("name");
  r.stages = t.stages;
  std::vector<std::string> parts;
  for (const type& part : t.parts) {
    parts.push_back(to_string(part));
    if (part.is(type::kind::acc)) r.columns += part.cols;
  }
  r.parts = tlx::join(parts, ", ");
  r.stage_bytes = made.integer("stage_bytes");
  if (made.has("offset")) r.offset = made.integer("offset");
  if (made.has("tensor_column")) r.column = made.integer("tensor_column");
  r.full.offset = made.integer("full", -1);
  r.empty.offset = made.integer("empty", -1);
  for (const op* u : users_of(k, made)) {
    if (u->is(opcode::ring_fill)) add_user(r.filled, k, *u);
    if (u->is(opcode::ring_drain)) add_user(r.drained, k, *u);
  }
  return r;
}

void read_memory(const kernel& k, kernel_plan& plan) {
  std::map<std::int64_t, memory_piece> pieces;  // by offset; two stores of a role share their staging
  const auto add = [&](const std::string& what, std::int64_t offset, std::int64_t bytes) {
    memory_piece& p = pieces[offset];
    if (bytes > p.bytes) p = {what, offset, bytes};
  };
  for (const ring_plan& r : plan.rings) {
    if (r.offset >= 0) add(cat("ring ", r.name), r.offset, r.stage_bytes * r.stages);
    if (r.full.offset >= 0) add(cat("barriers of ", r.name, ", full"), r.full.offset, 8 * r.stages);
    if (r.empty.offset >= 0) add(cat("barriers of ", r.name, ", empty"), r.empty.offset, 8 * r.stages);
    if (r.column >= 0) plan.tensor.push_back({cat("ring ", r.name), r.column, r.columns * r.stages});
  }
  std::map<std::string, memory_piece> staging;
  for (const op* store : all_of(k, opcode::tile_store)) {
    if (!store->has("stage")) continue;
    const op* role = role_around(*store);
    const std::string who = role ? role->text("name") : "the CTA";
    const std::int64_t warps = role ? role->integer("warps") : k.warps;
    memory_piece& p = staging[who];
    if (p.bytes == 0 || store->integer("stage") < p.offset) p.offset = store->integer("stage");
    p.bytes = store->integer("stage_per_warp") * warps;
  }
  for (const auto& [who, p] : staging) add(cat("staging of stores of ", who), p.offset, p.bytes);
  for (const op* mma : all_of(k, opcode::mma)) {
    const type& a = mma->operands[1]->type;
    if (mma->has("scratch")) add("staging of a register operand", mma->integer("scratch"), tlx::tile::make_shared_tile(a.element, a.rows, a.cols).size_bytes());
    if (mma->has("scale_column")) plan.tensor.push_back({"scales", mma->integer("scale_column"), (mma->operands[4]->type.rows + mma->operands[5]->type.rows) / 8});
    if (mma->has("tensor_word")) add("tensor memory address", mma->integer("tensor_word"), 8);
  }
  for (const op* acc : all_of(k, opcode::acc_make)) {
    if (acc->has("full")) add("barrier of an accumulator", acc->integer("full"), 8);
    if (acc->has("tensor_column")) plan.tensor.push_back({"accumulator", acc->integer("tensor_column"), acc->result()->type.cols});
  }
  for (const auto& [offset, p] : pieces) plan.shared.push_back(p);
  std::sort(plan.tensor.begin(), plan.tensor.end(), [](const memory_piece& a, const memory_piece& b) { return a.offset < b.offset; });
}

// Counts are those of the barriers that were made, not computed again.
void read_barriers(const kernel& k, kernel_plan& plan) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const op* init : all_of(k, opcode::mbarrier_init))
    if (const op* at = init->operands[0]->owner; at && at->is(opcode::shared_base)) counts[at->integer("offset")] = init->integer("count");
  for (ring_plan& r : plan.rings)
    for (barrier* b : {&r.full, &r.empty})
      if (counts.count(b->offset)) b->count = counts.at(b->offset);
  for (const op* alloc : all_of(k, opcode::tmem_alloc)) plan.tensor_allocated = std::max(plan.tensor_allocated, alloc->integer("columns"));
}

}  // namespace

kernel_plan plan_of(const kernel& traced) {
  const auto k = clone(traced);
  kernel_plan plan{.name = k->name, .target = k->target};
  for (const tlx::pass::pass& step : tlx::pass::pipeline_for(k->target)) {
    step.run(*k);
    if (step.name == std::string("assign-shared-memory")) {
      for (const op* made : all_of(*k, opcode::ring_make)) plan.rings.push_back(read_ring(*k, *made));
      for (const op* role : all_of(*k, opcode::role))
        plan.roles.push_back({role->text("name"), static_cast<int>(role->integer("warps")), static_cast<int>(role->integer("registers"))});
      read_memory(*k, plan);
      plan.shared_bytes = k->shared_bytes;
    }
    if (step.name == std::string("insert-barriers")) break;
  }
  read_barriers(*k, plan);
  plan.warps = k->warps;
  if (plan.warps == 0)
    for (const role_plan& r : plan.roles) plan.warps += r.warps;
  return plan;
}

}  // namespace tlxc
