// The language says that nothing is read or written outside of a view (zeros, or nothing), so a wrong coordinate is silent. Where one asks for it, a box
// or element that starts outside is reported. A box that only hangs over the end is everyday life, and is not. A bulk tensor copy has one more rule, which
// hardware answers with an illegal instruction: its box starts at whole 16 bytes of a row.
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
    value inside = b.compare("ge", coordinate, b.integer(0));
    if (k.cluster[0] == 1) inside = b.binary(opcode::bit_and, inside, b.compare("lt", coordinate, extent));  // a CTA of a cluster takes part in the last tile even if it got nothing of it
    if (nothing) inside = b.binary(opcode::bit_or, inside, nothing);
    b.make(opcode::require, {inside, coordinate, extent}, {}, {{"text", cat("a place of \"", view->name, "\" is inside of it along axis ", axis)}});
  }
}

}  // namespace

void check_bounds(ir::kernel& k) {
  for (opcode code : {opcode::tile_load, opcode::tile_store, opcode::global_load, opcode::global_store})
    for (ir::op* o : find_all(k.body, code)) check(k, *o);
}

void check_boxes(ir::kernel& k) {
  for (opcode code : {opcode::tma_load, opcode::tma_store})
    for (ir::op* copy : find_all(k.body, code)) {
      const ir::value_def& view = *k.parameters()[static_cast<size_t>(k.maps[static_cast<size_t>(copy->integer("map"))].parameter)];
      const std::int64_t step = 128 / tile::bits(view.type.element);
      const value column = copy->operands[code == opcode::tma_load ? 2 : 1];
      ir::builder b = ir::builder::before(k, *copy);
      b.locate(copy->where);
      const value whole = b.compare("eq", b.binary(opcode::bit_and, column, b.integer(step - 1)), b.integer(0));
      b.make(opcode::require, {whole, column}, {}, {{"text", cat("a box of \"", view.name, "\" starts at a multiple of ", step, " elements (16 bytes) along axis ", view.type.rank - 1)}});
    }
}

}  // namespace tlx::pass
