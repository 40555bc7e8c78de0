// Local cleaning for readable output; LLVM does the real work. Order inside: equal pure ops become one, branches on one condition that stand side by
// side become one, constants fold, what nobody uses goes.
#include <algorithm>
#include <map>
#include <set>

#include "agents.hpp"
#include "passes.hpp"
#include "tlx/ir/text.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

bool is_pure(const ir::op& o) { return ir::row(o.code).effects == ir::effect::pure && o.regions.empty(); }

struct key {
  opcode code;
  std::vector<value> operands;
  std::vector<std::pair<std::string, ir::attribute>> attributes;
  std::string type;
  auto operator<=>(const key&) const = default;
};

class folder {
 public:
  explicit folder(ir::kernel& k) : k_(k) {}
  void run() {
    unite(k_.body, {});
    k_uses_replaced();
    join_branches(k_.body);
    while (drop_unused(k_.body)) {
    }
  }

 private:
  value now(value v) const {
    auto it = replaced_.find(v);
    return it == replaced_.end() ? v : it->second;
  }

  void unite(ir::region& r, std::map<key, value> known) {
    value elected = nullptr;
    for (auto& o : r.ops) {
      for (value& v : o->operands) v = now(v);
      if (value same = fold(*o)) {
        replaced_[o->result()] = same;
        continue;
      }
      if (is_pure(*o) && o->results.size() == 1) {
        key mine{o->code, o->operands, o->attributes, ir::to_string(o->result()->type)};
        auto [it, fresh] = known.try_emplace(mine, o->result());
        if (!fresh) replaced_[o->result()] = it->second;
      } else if (o->is(opcode::elect)) {  // the same lane every time in one region
        if (elected) replaced_[o->result()] = elected;
        else elected = o->result();
      }
      for (auto& inner : o->regions) unite(*inner, known);
    }
  }

  static const ir::op* constant(value v) { return v->owner && v->owner->is(opcode::constant) && v->type.is_scalar() ? v->owner : nullptr; }

  // x + 0, x * 1: what the lowerings write without looking
  value fold(const ir::op& o) const {
    if (o.operands.size() != 2 || !o.results.size() || !o.result()->type.is_scalar() || !tile::is_integer(o.result()->type.element)) return nullptr;
    const ir::op* right = constant(o.operands[1]);
    if (!right) return nullptr;
    const std::int64_t v = right->integer("value", -1);
    if ((o.is(opcode::add) || o.is(opcode::sub)) && v == 0) return o.operands[0];
    if ((o.is(opcode::mul) || o.is(opcode::div)) && v == 1) return o.operands[0];
    return nullptr;
  }

  void k_uses_replaced() {
    ir::walk(k_.body, [&](ir::op& o) {
      for (value& v : o.operands)
        for (auto it = replaced_.find(v); it != replaced_.end(); it = replaced_.find(v)) v = it->second;
    });
  }

  void join_branches(ir::region& r) {
    ir::op* last = nullptr;
    std::vector<ir::op*> emptied;
    for (auto& o : r.ops) {
      if (is_pure(*o) || o->is(opcode::elect)) continue;
      const bool joinable = o->is(opcode::if_then) && o->regions[1]->ops.empty() && !o->has("role");
      if (joinable && last && last->operands[0] == o->operands[0] && pure_before(*last, *o)) {
        for (auto& inner : o->regions[0]->ops) {
          inner->parent = last->regions[0].get();
          last->regions[0]->ops.push_back(std::move(inner));
        }
        o->regions[0]->ops.clear();
        emptied.push_back(o.get());
        continue;
      }
      last = joinable ? o.get() : nullptr;
    }
    for (ir::op* o : emptied) ir::erase(*o);
    for (auto& o : r.ops)
      for (auto& inner : o->regions) {
        if (!emptied.empty()) elect_once(*inner);
        join_branches(*inner);
      }
  }

  // After joining: two elects of one region become one, so that their branches join too.
  void elect_once(ir::region& r) {
    value first = nullptr;
    for (auto& o : r.ops) {
      if (!o->is(opcode::elect)) continue;
      if (!first) first = o->result();
      else ir::replace_uses(k_.body, o->result(), first);
    }
  }

  // What stands between the two branches must be available before the first one, or not be needed by the second.
  bool pure_before(ir::op& first, ir::op& second) {
    std::set<value> between;
    bool seen = false;
    for (auto& o : first.parent->ops) {
      if (o.get() == &second) break;
      if (seen)
        for (auto& res : o->results) between.insert(res.get());
      if (o.get() == &first) seen = true;
    }
    if (between.empty()) return true;
    std::set<value> needed;
    ir::walk(*second.regions[0], [&](ir::op& o) { needed.insert(o.operands.begin(), o.operands.end()); });
    std::vector<size_t> moved;
    auto& ops = first.parent->ops;
    const size_t at = static_cast<size_t>(std::find_if(ops.begin(), ops.end(), [&](auto& p) { return p.get() == &first; }) - ops.begin());
    // hoist the pure ops between them over the first branch: their operands are not made inside it
    size_t insert = at;
    for (size_t i = at + 1; i < ops.size() && ops[i].get() != &second; ++i) {
      if (!is_pure(*ops[i])) continue;
      auto op = std::move(ops[i]);
      ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(i));
      ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(insert++), std::move(op));
    }
    return true;
  }

  bool drop_unused(ir::region& r) {
    std::set<value> used;
    ir::walk(k_.body, [&](ir::op& o) { used.insert(o.operands.begin(), o.operands.end()); });
    return drop(r, used);
  }
  bool drop(ir::region& r, const std::set<value>& used) {
    bool changed = false;
    for (size_t i = r.ops.size(); i-- > 0;) {
      ir::op& o = *r.ops[i];
      for (auto& inner : o.regions) changed = drop(*inner, used) || changed;
      bool needed = !(is_pure(o) || o.is(opcode::elect) || o.is(opcode::var_get));
      if (o.is(opcode::if_then) && o.regions[0]->ops.empty() && o.regions[1]->ops.empty()) needed = false;
      for (const auto& res : o.results) needed = needed || used.count(res.get());
      if (!needed) {
        r.ops.erase(r.ops.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
      }
    }
    return changed;
  }

  ir::kernel& k_;
  std::map<value, value> replaced_;
};

}  // namespace

void simplify(ir::kernel& k) { folder(k).run(); }

}  // namespace tlx::pass
