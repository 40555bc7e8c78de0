// Columns of tensor memory. An accumulator outside of roles may take the columns of one that nobody reads any more when its first product starts.
#include <algorithm>
#include <map>

#include "agents.hpp"
#include "passes.hpp"
#include "slots.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::pass {

namespace {

struct lifetime {
  ir::op* acc;
  int first = 0, last = 0;  // places of its first product and last read
  bool known = true;        // straight-line code outside of roles: places are an order in time
  int column = 0, columns = 0;
};

class columns {
 public:
  explicit columns(ir::kernel& k) : k_(k) {
    ir::walk(k.body, [&](const ir::op& o) { place_.emplace(&o, static_cast<int>(place_.size())); });
  }

  void take(ir::op& o, const ir::type& acc, int stages, const std::string& name) {
    o.set("tensor_column", std::int64_t{used_});
    used_ += acc.cols * stages;
    list_.push_back(cat(name, ": ", stages, " x ", acc.cols, " columns"));
  }

  // The lowest columns that are free from its first product to its last read.
  void take_reused(lifetime l, std::vector<lifetime>& placed, int base) {
    const auto clash = [&](const lifetime& other, int column) {
      return column < other.column + other.columns && other.column < column + l.columns && !(l.known && other.known && other.last < l.first);
    };
    for (l.column = base;;) {
      const auto in_the_way = std::find_if(placed.begin(), placed.end(), [&](const lifetime& p) { return clash(p, l.column); });
      if (in_the_way == placed.end()) break;
      l.column = in_the_way->column + in_the_way->columns;
    }
    for (const lifetime& p : placed)  // its warps must have read what was there
      if (l.column < p.column + p.columns && p.column < l.column + l.columns) l.acc->set("reuses", std::int64_t{1});
    l.acc->set("tensor_column", std::int64_t{l.column});
    used_ = std::max(used_, l.column + l.columns);
    list_.push_back(cat("accumulator: 1 x ", l.columns, " columns"));
    placed.push_back(l);
  }

  lifetime of(ir::op& acc) {
    lifetime l{.acc = &acc, .columns = acc.result()->type.cols};
    l.known = !enclosing(acc, ir::opcode::role);
    l.first = static_cast<int>(place_.size());
    for (ir::op* user : users(k_, acc.result())) {
      l.known = l.known && !in_loop(*user);
      if (user->is(ir::opcode::mma)) l.first = std::min(l.first, place_.at(user));
      l.last = std::max(l.last, place_.at(user));
    }
    return l;
  }

  // Scales of all products of one agent: they are copied before each product by the thread that issues it, in its order.
  void take_scales(const agent& who) {
    int most = 0;
    std::vector<ir::op*> scaled;
    for (ir::op* o : find_all(*who.body, ir::opcode::mma)) {
      if (!o->has("block")) continue;
      scaled.push_back(o);
      most = std::max(most, scale_columns_of(*o));
    }
    for (ir::op* o : scaled) o->set("scale_column", std::int64_t{used_});
    if (!most) return;
    used_ += most;
    list_.push_back(cat("scales of \"", who.name, "\": ", most, " columns"));
  }

  int used() const { return used_; }
  const std::vector<std::string>& list() const { return list_; }

 private:
  ir::kernel& k_;
  std::map<const ir::op*, int> place_;
  int used_ = 0;
  std::vector<std::string> list_;
};

}  // namespace

void assign_tensor_memory(ir::kernel& k) {
  if (!has_tensor_memory(k)) return;
  constexpr int limit = 512;
  columns plan(k);
  for (ir::op* ring : find_all(k.body, ir::opcode::ring_make))
    for (const ir::type& part : ring->result()->type.parts)
      if (part.is(ir::type::kind::acc)) plan.take(*ring, part, ring->result()->type.stages, "ring \"" + ring->text("name") + "\"");
  std::vector<lifetime> accumulators, placed;
  for (ir::op* acc : find_all(k.body, ir::opcode::acc_make)) accumulators.push_back(plan.of(*acc));
  std::stable_sort(accumulators.begin(), accumulators.end(), [](const lifetime& a, const lifetime& b) { return a.first < b.first; });
  const int base = plan.used();
  for (const lifetime& l : accumulators) plan.take_reused(l, placed, base);
  for (const agent& who : agents(k)) plan.take_scales(who);
  const std::string context = cat("kernel \"", k.name, "\"");
  if (plan.used() > limit)
    raise(user_error({.id = "tensor-memory-exceeded", .what = cat("accumulators and scales need ", plan.used(), " columns of tensor memory, there are ", limit, " (", join(plan.list(), ", "), ")"),
                      .where = k.where, .because = "tensor memory has 512 columns of 128 lanes", .fix = {"use fewer stages or narrower accumulators"}, .context = context}));
  int allocated = 32;
  while (allocated < plan.used()) allocated *= 2;
  if (plan.used() && allocated * k.blocks_per_processor > limit)
    raise(user_error({.id = "occupancy-not-met",
                      .what = cat(k.blocks_per_processor, " CTAs per SM were asked for, ", allocated, " columns of tensor memory each allow ", limit / allocated, " (", join(plan.list(), ", "), ")"),
                      .where = k.where, .because = "an SM has 512 columns, given out in powers of two", .fix = {"ask for fewer CTAs per SM, or use narrower accumulators"}, .context = context}));
}

}  // namespace tlx::pass
