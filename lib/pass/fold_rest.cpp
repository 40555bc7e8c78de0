// The stores of a waiting tile that found no step of the next tile's MMA loop (defer-stores) stand a second time, after the loop. Here they leave in rounds of
// the loop that have no products instead: the code of the stores is there once, and ptxas, which takes most of a compilation, has a tenth less to do.
//
//   for i < rounds { products; if filled and i < n: store piece i }  if filled and rounds < n: the pieces that found no step
//   -> for i < max(rounds, filled ? n : 0) { if i < rounds: products; if filled and i < n: store piece i }
#include <algorithm>
#include <set>

#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;

// What `v` is computed from in `body`.
void collect(const ir::region& body, ir::value v, std::set<const ir::op*>& found) {
  if (!v->owner || v->owner->parent != &body || !found.insert(v->owner).second) return;
  for (ir::value input : v->owner->operands) collect(body, input, found);
}

ir::op& marked(const ir::region& r, const char* mark) {
  const auto at = std::find_if(r.ops.begin(), r.ops.end(), [&](const auto& o) { return o->has(mark); });
  if (at == r.ops.end()) raise(internal_error({.id = "pass-invalid", .what = std::string("no op is marked \"") + mark + "\" beside the stores that found no step"}));
  return **at;
}

void fold(ir::kernel& k, ir::op& rest) {
  ir::op& steps = marked(*rest.parent, "deferred");
  ir::region& body = *steps.regions[0];
  ir::op& due = marked(body, "due");
  std::set<const ir::op*> condition;
  collect(body, due.operands[0], condition);
  const auto reads = std::find_if(condition.begin(), condition.end(), [](const ir::op* o) { return o->is(opcode::var_get); });
  if (reads == condition.end()) raise(internal_error({.id = "pass-invalid", .what = "stores wait for no cell that says whether a tile waits"}));

  ir::builder before = ir::builder::before(k, steps);
  before.locate(steps.where);
  const ir::value rounds = steps.operands[1], filled = before.get((*reads)->operands[0]);
  steps.operands[1] = before.binary(opcode::max, rounds, before.select(filled, before.integer(steps.integer("deferred")), before.integer(0)));

  std::vector<std::unique_ptr<ir::op>> all = std::move(body.ops), products;
  std::unique_ptr<ir::op> stores;
  body.ops.clear();
  for (auto& o : all) (condition.count(o.get()) ? body.ops : products).push_back(std::move(o));
  ir::builder b(k, body);
  b.locate(steps.where);
  b.when(b.compare("lt", body.arguments[0].get(), rounds), [&](ir::builder& w) {
    for (auto& o : products) {
      if (o.get() == &due) {
        stores = std::move(o);
        continue;
      }
      o->parent = &w.where();
      w.where().ops.push_back(std::move(o));
    }
  });
  body.ops.push_back(std::move(stores));
  ir::erase(rest);
}

}  // namespace

void fold_rest(ir::kernel& k) {
  for (ir::op* o : find_all(k.body, opcode::if_then))
    if (o->has("rest")) fold(k, *o);
}

}  // namespace tlx::pass
