// A role in turns becomes two: each walks every other tile, and what one does after its products runs beside the products of the other. Who drains what stays
// in the order of the tiles: insert-barriers lets a role begin with a ring where the other has got through with it, and moves its place over the other's slots.
//
//   role r, turns 2 { for tile = first; step s { ... } }  ->  role r_0 { for tile = first; step 2 s { ... } }  role r_1 { for tile = first + s; step 2 s { ... } }
#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;

[[noreturn]] void cannot(const ir::kernel& k, const ir::op& role, location where, const std::string& what, const std::string& because, const std::string& fix) {
  raise(user_error({.id = "role-turns", .what = cat("role \"", role.text("name"), "\" cannot take turns: ", what), .where = where, .because = because, .fix = {fix, "leave in_turns() out"},
                    .context = cat("kernel \"", k.name, "\"")}));
}

void check(ir::kernel& k, ir::op& role) {
  const auto& ops = role.regions[0]->ops;
  if (ops.empty() || !ops.back()->is(opcode::for_loop) || !ops.back()->integer("tiles")) cannot(k, role, role.where, "it has no list of tiles", "turns are tiles", "give it to roles(tiles, ...)");
  for (ir::op* fill : find_all(*role.regions[0], opcode::ring_fill))
    cannot(k, role, fill->where, cat("it fills ring \"", fill->operands[0]->owner->text("name"), "\""), "the order in which two roles fill slots is not defined", "let another role fill the ring");
}

void divide(ir::kernel& k, ir::op& role) {
  check(k, role);
  const std::int64_t turns = role.integer("turns");
  for (ir::op* drain : find_all(*role.regions[0], opcode::ring_drain)) drain->operands[0]->owner->set("turns", turns);
  const std::string name = role.text("name");
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    ir::builder at = ir::builder::before(k, role);
    ir::cloner copies(at);
    ir::op& mine = copies.copy(role);
    mine.set("name", cat(name, "_", turn)).set("turn", turn);
    ir::op& tiles = *mine.regions[0]->ops.back();
    ir::builder b = ir::builder::before(k, tiles);
    b.locate(tiles.where);
    const ir::value step = tiles.operands[2];
    if (turn > 0) tiles.operands[0] = b.add(tiles.operands[0], b.mul(step, turn));
    tiles.operands[2] = b.mul(step, turns);
  }
  ir::erase(role);
}

}  // namespace

void take_turns(ir::kernel& k) {
  for (ir::op* role : find_all(k.body, opcode::role))
    if (role->has("turns")) divide(k, *role);
}

}  // namespace tlx::pass
