// A 128 x 256 accumulator read whole is 256 registers a thread. Where its values only pass through elementwise work into stores, the work is repeated
// for column chunks instead: as many columns as one 128-byte row of the stored type holds.
#include <algorithm>
#include <set>

#include "agents.hpp"
#include "passes.hpp"

namespace tlx::pass {

namespace {

bool elementwise(const ir::op& o) { return o.code >= ir::opcode::add && o.code <= ir::opcode::cos; }
bool splittable_source(const ir::op& o) {
  return elementwise(o) || o.is(ir::opcode::constant) || o.is(ir::opcode::iota) || o.is(ir::opcode::global_load) || o.is(ir::opcode::broadcast) || o.is(ir::opcode::acc_read);
}
// Where accumulators are registers, a value that goes back into one takes no others.
bool is_sink(const ir::kernel& k, const ir::op& o) {
  return o.is(ir::opcode::tile_store) || o.is(ir::opcode::global_store) || (o.is(ir::opcode::acc_write) && has_tensor_memory(k));
}

struct cone {
  std::set<ir::op*> ops;
  bool splittable = true;
  int sink_bits = 0;
  bool by_threads = false;

  bool has_functions() const {
    return std::any_of(ops.begin(), ops.end(), [](const ir::op* o) { return o->is(ir::opcode::exp2) || o->is(ir::opcode::tanh) || o->is(ir::opcode::erf); });
  }
};

void add_forward(ir::kernel& k, cone& c, ir::op* o, int cols);

void add_backward(ir::kernel& k, cone& c, ir::value v, int cols) {
  if (!v->type.is_tile() || v->type.cols != cols) return;
  if (!v->owner || !splittable_source(*v->owner)) {
    c.splittable = false;
    return;
  }
  add_forward(k, c, v->owner, cols);
}

void add_forward(ir::kernel& k, cone& c, ir::op* o, int cols) {
  if (!c.splittable || !c.ops.insert(o).second) return;
  for (ir::value v : o->operands) add_backward(k, c, v, cols);
  for (const auto& r : o->results) {
    if (!r->type.is_tile()) continue;
    for (ir::op* user : users(k, r.get())) {
      if (user->parent != o->parent || !(elementwise(*user) || is_sink(k, *user) || user->is(ir::opcode::broadcast))) {
        c.splittable = false;
        return;
      }
      if (is_sink(k, *user)) {
        c.sink_bits = std::max(c.sink_bits, tile::bits(r->type.element));
        c.by_threads = c.by_threads || user->text("by") == "threads";
      }
      add_forward(k, c, user, cols);
    }
  }
}

std::vector<ir::op*> in_order(const cone& c) {
  std::vector<ir::op*> ordered;
  for (const auto& o : (*c.ops.begin())->parent->ops)
    if (c.ops.count(o.get())) ordered.push_back(o.get());
  return ordered;
}

// The reads move down to the last store. False when that is not allowed: the accumulator is written, or its ring moves on, in between.
// `closes`: the slots that are let go in between; they must be let go later.
bool may_move(const ir::op& read, const std::vector<ir::op*>& ordered, std::vector<ir::op*>& closes) {
  const ir::value acc = read.operands[0];
  const ir::op* ring = ring_of(acc);
  bool inside = false, allowed = true;
  for (const auto& o : read.parent->ops) {
    if (o.get() == &read) inside = true;
    if (!inside) continue;
    if (o->is(ir::opcode::ring_close) && ring && o->operands[0]->owner == acc->owner) closes.push_back(o.get());
    auto look = [&](const ir::op& other) {
      if (other.is(ir::opcode::mma) && (other.operands[0] == acc || (ring && ring_of(other.operands[0]) == ring))) allowed = false;
      if ((other.is(ir::opcode::ring_fill) || other.is(ir::opcode::ring_drain)) && ring && other.operands[0]->owner == ring) allowed = false;
    };
    look(*o);
    for (const auto& inner : o->regions) ir::walk(*inner, look);
    if (o.get() == ordered.back()) break;
  }
  return allowed;
}

void split(ir::kernel& k, const cone& c, int cols, int width) {
  const std::vector<ir::op*> ordered = in_order(c);
  ir::builder b = ir::builder::after(k, *ordered.back());
  for (int first = 0; first < cols; first += width) {
    const int part = std::min(width, cols - first);
    ir::cloner copies(b);
    for (ir::op* o : ordered) {
      b.locate(o->where);
      auto shifted = [&](ir::op& made, size_t first_coordinate) {
        const int axis = static_cast<int>(o->integers("tile_axes")[1]);
        if (axis < 0 || first == 0) return;
        ir::builder at = ir::builder::before(k, made);
        ir::value& coordinate = made.operands[first_coordinate + static_cast<size_t>(axis)];
        coordinate = at.add(coordinate, first);
      };
      ir::op& made = copies.copy(*o);
      for (const auto& r : made.results)
        if (r->type.is_tile() && r->type.cols == cols) r->type.cols = part;
      if (o->is(ir::opcode::acc_read) || o->is(ir::opcode::acc_write)) made.set("column", o->integer("column") + first);
      if (is_sink(k, *o) && !o->is(ir::opcode::acc_write)) shifted(made, 2);
      if (o->is(ir::opcode::global_load)) shifted(made, 1);
      b = ir::builder::after(k, made);
      if (o->is(ir::opcode::iota) && o->integer("axis") == 1 && first) copies.map(o->result(), b.add(made.result(), first));
    }
  }
  for (auto it = ordered.rbegin(); it != ordered.rend(); ++it) ir::erase(**it);
}

}  // namespace

void chunk_reads(ir::kernel& k) {
  const std::vector<agent> all = agents(k);
  std::set<ir::op*> seen;
  for (ir::op* read : find_all(k.body, ir::opcode::acc_read)) {
    if (seen.count(read)) continue;
    const ir::type& t = read->result()->type;
    const int registers = t.rows * t.cols / (agent_of(all, *read).warps * 32);
    cone c;
    add_forward(k, c, read, t.cols);
    seen.insert(c.ops.begin(), c.ops.end());
    if (!c.splittable || c.sink_bits == 0) continue;
    // masked stores need an address for each piece: half as many at a time, so that the registers last
    // and where a role in turns has both accumulators of a tile beside functions of many steps
    const agent& who = agent_of(all, *read);
    const bool narrow = c.by_threads || (who.role && who.role->has("turn") && c.has_functions());
    const int width = std::min(narrow ? 32 : 64, 1024 / c.sink_bits);
    if (t.cols <= width || registers <= 16) continue;
    const std::vector<ir::op*> ordered = in_order(c);
    std::vector<ir::op*> closes;
    bool allowed = true;
    for (const ir::op* o : ordered)
      if (o->is(ir::opcode::acc_read)) allowed = may_move(*o, ordered, closes) && allowed;
    if (!allowed) continue;
    for (ir::op* close : closes) {  // let go after the last read of the last chunk
      ir::builder after = ir::builder::after(k, *ordered.back());
      after.locate(close->where);
      after.make(ir::opcode::ring_close, close->operands);
      ir::erase(*close);
    }
    const int cols = t.cols;
    split(k, c, cols, width);
  }
}

}  // namespace tlx::pass
