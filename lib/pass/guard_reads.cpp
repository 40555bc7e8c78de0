#include <algorithm>
#include <optional>

#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::pass {

namespace {

// The MMAs that write the accumulator `acc` (a handle: of a ring's slot in whichever role, or one of its own).
std::vector<ir::op*> writers(ir::kernel& k, ir::value acc) {
  std::vector<ir::op*> found;
  ir::op* ring = ring_of(acc);
  for (ir::op* o : find_all(k.body, ir::opcode::mma)) {
    const ir::value written = o->operands[0];
    if (written == acc || (ring && ring_of(written) == ring)) found.push_back(o);
  }
  return found;
}

// A copy of a pure computation over parameters and constants; null when it is anything else.
ir::value recompute(ir::builder& b, ir::value v) {
  if (!v->owner) return v->scope && !v->scope->parent ? v : nullptr;
  const ir::op& o = *v->owner;
  if (ir::row(o.code).effects != ir::effect::pure) return nullptr;
  std::vector<ir::value> operands;
  for (ir::value input : o.operands) {
    ir::value copy = recompute(b, input);
    if (!copy) return nullptr;
    operands.push_back(copy);
  }
  return b.make(o.code, operands, {v->type}, o.attributes).result();
}

std::optional<std::int64_t> known(ir::value v) {
  if (v->owner && v->owner->is(ir::opcode::constant)) return v->owner->integer("value");
  return {};
}

// A loop to max(rounds, 1) runs whatever the arguments are.
bool runs_at_least_once(const ir::op& loop) {
  const std::optional<std::int64_t> low = known(loop.operands[0]);
  const ir::op* high = loop.operands[1]->owner;
  if (!low || !high) return false;
  if (const auto end = known(loop.operands[1])) return *end > *low;
  if (!high->is(ir::opcode::max)) return false;
  return std::any_of(high->operands.begin(), high->operands.end(), [&](ir::value v) { return known(v).value_or(*low) > *low; });
}

}  // namespace

void guard_reads(ir::kernel& k) {
  for (ir::op* read : find_all(k.body, ir::opcode::acc_read)) {
    const std::vector<ir::op*> mmas = writers(k, read->operands[0]);
    if (mmas.empty())
      raise(user_error({.id = "accumulator-never-written", .what = "this accumulator is read but no mma writes it", .where = read->where,
                        .because = "its content would be undefined", .fix = {"write it with mma(acc, a, b)"}, .context = cat("kernel \"", k.name, "\"")}));
    ir::op* loop = nullptr;
    bool certain = false;
    for (ir::op* m : mmas) {
      ir::op* around = enclosing(*m, ir::opcode::for_loop);
      // An accumulator made in the loop is read there too, in the same round.
      if (around && read->operands[0]->owner && read->operands[0]->owner->is(ir::opcode::acc_make) && inside(*read->operands[0]->owner, *around->regions[0])) around = nullptr;
      if (!around || around->integer("tiles") || runs_at_least_once(*around)) certain = true;
      else loop = around;
    }
    if (certain || !loop) continue;
    ir::builder b = ir::builder::before(k, *read);
    ir::value low = recompute(b, loop->operands[0]), high = recompute(b, loop->operands[1]);
    if (!low || !high)
      raise(user_error({.id = "accumulator-maybe-empty", .what = "the loop that fills this accumulator has bounds that its reader cannot compute", .where = loop->where,
                        .because = "an accumulator whose loop runs no round must read as zero", .fix = {"let the bounds depend on the kernel's arguments only"},
                        .context = cat("kernel \"", k.name, "\"")}));
    read->operands.push_back(b.compare("lt", low, high));
  }
}

}  // namespace tlx::pass
