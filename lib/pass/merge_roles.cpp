// Merging keeps the order of the data: the body of the role that fills the accumulator, then the body of the one that drains it, in one tile loop.
#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::pass {

namespace {

bool is_accumulator_ring(const ir::op& ring) {
  for (const ir::type& part : ring.result()->type.parts)
    if (part.is(ir::type::kind::acc)) return true;
  return false;
}

[[noreturn]] void cannot_merge(const ir::kernel& k, const ir::op& ring, const std::string& why) {
  raise(user_error({.id = "roles-not-mergeable",
                    .what = cat("the roles joined by accumulator ring \"", ring.text("name"), "\" cannot become one role on ", k.target),
                    .where = ring.where, .because = why + "; on this target an accumulator lives in the registers of the warps that use it",
                    .fix = {"fill and drain the ring once per tile, at the top of each role's body", "write the two roles as one"},
                    .context = cat("kernel \"", k.name, "\"")}));
}

// The only loop over tiles stands last in a role.
ir::op* tile_loop(const ir::op& role) {
  const auto& ops = role.regions[0]->ops;
  return !ops.empty() && ops.back()->is(ir::opcode::for_loop) && ops.back()->integer("tiles") ? ops.back().get() : nullptr;
}

void copy_body(ir::builder& into, ir::cloner& copies, const ir::region& body, const ir::op& ring, ir::value& accumulator) {
  for (const auto& o : body.ops) {
    const bool ours = (o->is(ir::opcode::ring_fill) || o->is(ir::opcode::ring_drain)) && o->operands[0]->owner == &ring;
    if (ours) {
      if (!accumulator) accumulator = into.make(ir::opcode::acc_make, {}, {o->result()->type}, {{"ring", ring.text("name")}}).result();
      copies.map(o->result(), accumulator);
      continue;
    }
    if (o->is(ir::opcode::ring_close) && o->operands[0]->owner->operands[0]->owner == &ring) continue;
    copies.copy(*o);
  }
}

// A role that fills and drains: by itself, or because another ring has joined its two roles before.
void use_one_accumulator(ir::kernel& k, ir::op& ring, ir::op& fill, ir::op& drain) {
  for (const auto& o : fill.parent->ops) {
    if (o.get() == &fill) break;
    if (o.get() == &drain) cannot_merge(k, ring, "it is drained before it is filled");
  }
  ir::builder b = ir::builder::before(k, fill);
  const ir::value accumulator = b.make(ir::opcode::acc_make, {}, {fill.result()->type}, {{"ring", ring.text("name")}}).result();
  for (ir::op* opened : {&fill, &drain}) {
    for (ir::op* user : users(k, opened->result()))
      if (user->is(ir::opcode::ring_close)) ir::erase(*user);
    ir::replace_uses(k.body, opened->result(), accumulator);
    ir::erase(*opened);
  }
  ir::erase(ring);
}

void merge_pair(ir::kernel& k, ir::op& ring) {
  ir::op *fill = nullptr, *drain = nullptr;
  for (ir::op* user : users(k, ring.result())) {
    ir::op*& side = user->is(ir::opcode::ring_fill) ? fill : drain;
    if (side) cannot_merge(k, ring, "it is filled or drained at more than one place");
    side = user;
  }
  if (ring.result()->type.parts.size() != 1) cannot_merge(k, ring, "its slots have more than one part");
  ir::op* first = enclosing(*fill, ir::opcode::role);
  ir::op* second = enclosing(*drain, ir::opcode::role);
  if (!first || !second) cannot_merge(k, ring, "it is used outside of roles");
  ir::op* first_loop = tile_loop(*first);
  ir::op* second_loop = tile_loop(*second);
  if (!first_loop || !second_loop || fill->parent != first_loop->regions[0].get() || drain->parent != second_loop->regions[0].get())
    cannot_merge(k, ring, "it is filled or drained inside a loop or branch of the role's body");
  if (first == second) return use_one_accumulator(k, ring, *fill, *drain);

  // Where the later of the two stands, all that either uses is made.
  ir::op* later = second;
  for (const auto& o : second->parent->ops) {
    if (o.get() == first) break;
    if (o.get() == second) later = first;
  }
  ir::builder b = ir::builder::before(k, *later);
  const std::int64_t warps = std::max(first->integer("warps"), second->integer("warps"));
  b.locate(second->where);
  ir::op& merged = b.make(ir::opcode::role, {}, {}, {{"name", first->text("name") + "+" + second->text("name")}, {"warps", warps}});
  if (const std::int64_t registers = std::max(first->integer("registers"), second->integer("registers"))) merged.set("registers", registers);
  if (const std::int64_t turns = std::max(first->integer("turns"), second->integer("turns"))) merged.set("turns", turns);
  ir::builder inner = b.inside(ir::builder::add_region(merged));
  ir::cloner copies(inner);
  for (ir::op* role : {first, second})
    for (const auto& o : role->regions[0]->ops)
      if (o.get() != first_loop && o.get() != second_loop) copies.copy(*o);
  std::vector<ir::value> bounds;
  for (ir::value v : second_loop->operands) bounds.push_back(copies.look_up(v));
  inner.locate(second_loop->where);
  ir::op& loop = inner.make(ir::opcode::for_loop, bounds, {}, second_loop->attributes);
  ir::region& body = ir::builder::add_region(loop);
  body.arguments.push_back(std::make_unique<ir::value_def>(
      ir::value_def{.type = bounds[0]->type, .owner = nullptr, .scope = &body, .name = second_loop->regions[0]->arguments[0]->name}));
  ir::builder in_body = inner.inside(body);
  ir::cloner body_copies(in_body);
  for (ir::op* role : {first, second})
    for (const auto& o : role->regions[0]->ops)
      for (const auto& r : o->results) body_copies.map(r.get(), copies.look_up(r.get()));
  ir::value accumulator = nullptr;
  for (ir::op* old : {first_loop, second_loop}) {
    body_copies.map(old->regions[0]->arguments[0].get(), body.arguments[0].get());
    copy_body(in_body, body_copies, *old->regions[0], ring, accumulator);
  }
  ir::erase(*first);
  ir::erase(*second);
  ir::erase(ring);
}

}  // namespace

void merge_roles(ir::kernel& k) {
  if (has_tensor_memory(k)) return;
  for (;;) {
    ir::op* next = nullptr;
    for (ir::op* ring : find_all(k.body, ir::opcode::ring_make))
      if (is_accumulator_ring(*ring) && !next) next = ring;
    if (!next) return;
    merge_pair(k, *next);
  }
}

}  // namespace tlx::pass
