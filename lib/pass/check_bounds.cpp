// The language says that nothing is read or written outside of a view (zeros, or nothing), so a wrong coordinate is silent. Where one asks for it, a box
// or element that starts outside is reported. A box that only hangs over the end is everyday life, and is not.
#include "agents.hpp"
#include "tlx/pass/pipeline.hpp"
#include "tlx/support/text.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

void check(ir::kernel& k, ir::op& access) {
  const size_t at = access.is(opcode::global_load) ? 0 : 1;
  const value view = access.operands[at];
  ir::builder b = ir::builder::before(k, access);
  b.locate(access.where);
  value nothing = nullptr;  // no row is valid: the coordinates mean nothing
  if (access.integer("jagged")) nothing = b.compare("le", access.operands.back(), b.integer(0));
  for (int axis = 0; axis < view->type.rank; ++axis) {
    const value coordinate = access.operands[at + 1 + static_cast<size_t>(axis)];
    const value extent = b.make(opcode::extent, {view}, {ir::type::scalar(tile::element::s32)}, {{"axis", std::int64_t{axis}}}).result();
    value inside = b.binary(opcode::bit_and, b.compare("ge", coordinate, b.integer(0)), b.compare("lt", coordinate, extent));
    if (nothing) inside = b.binary(opcode::bit_or, inside, nothing);
    b.make(opcode::require, {inside, coordinate, extent}, {}, {{"text", cat("a place of \"", view->name, "\" is inside of it along axis ", axis)}});
  }
}

}  // namespace

void check_bounds(ir::kernel& k) {
  for (opcode code : {opcode::tile_load, opcode::tile_store, opcode::global_load, opcode::global_store})
    for (ir::op* o : find_all(k.body, code)) check(k, *o);
}

}  // namespace tlx::pass
