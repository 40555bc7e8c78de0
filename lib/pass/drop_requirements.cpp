// A kernel that is not watched is compiled as if its requirements had never been written: they go, what only they read goes, and what they share with
// others moves to its next reader, where the recording would have put it.
#include <map>
#include <memory>

#include "agents.hpp"
#include "tlx/pass/pipeline.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

bool is_pure(const ir::op& o) { return ir::row(o.code).effects == ir::effect::pure && o.regions.empty(); }
bool only_computes(const ir::op& o) { return is_pure(o) || (ir::row(o.code).effects == ir::effect::read && o.regions.empty() && o.results.size() == 1); }

// Branches that are empty now, outermost last.
bool drop_empty_branches(ir::region& r, std::vector<value>& open) {
  bool any = false;
  for (size_t i = r.ops.size(); i-- > 0;) {
    ir::op& o = *r.ops[i];
    for (const auto& inner : o.regions) any = drop_empty_branches(*inner, open) || any;
    if (!o.is(opcode::if_then) || !o.regions[0]->ops.empty() || !o.regions[1]->ops.empty()) continue;
    open.push_back(o.operands[0]);
    ir::erase(o);
    any = true;
  }
  return any;
}

// Each pure op right before the first op with an effect that needs it.
class sorter {
 public:
  void run(ir::region& r) {
    std::vector<std::unique_ptr<ir::op>> old = std::move(r.ops);
    r.ops.clear();
    into_ = &r;
    for (auto& o : old)
      if (is_pure(*o)) waiting_[o.get()] = &o;
    for (auto& o : old) {
      if (!o || waiting_.count(o.get())) continue;
      place_operands(*o);
      r.ops.push_back(std::move(o));
    }
    for (const auto& o : r.ops)
      for (const auto& inner : o->regions) sorter().run(*inner);
  }

 private:
  void place_operands(const ir::op& o) {
    for (value v : o.operands) {
      const auto it = v->owner ? waiting_.find(v->owner) : waiting_.end();
      if (it == waiting_.end()) continue;
      std::unique_ptr<ir::op>* found = it->second;
      waiting_.erase(it);
      place_operands(**found);
      into_->ops.push_back(std::move(*found));
    }
    for (const auto& inner : o.regions)
      for (const auto& below : inner->ops) place_operands(*below);
  }

  ir::region* into_ = nullptr;
  std::map<const ir::op*, std::unique_ptr<ir::op>*> waiting_;
};

}  // namespace

void drop_requirements(ir::kernel& k) {
  std::vector<value> open;  // what may have lost its last reader
  for (ir::op* o : find_all(k.body, opcode::require)) {
    open.insert(open.end(), o->operands.begin(), o->operands.end());
    ir::erase(*o);
  }
  if (open.empty()) return;
  do {
    while (!open.empty()) {
      const value v = open.back();
      open.pop_back();
      if (!v->owner || ir::is_used(k.body, v) || !only_computes(*v->owner)) continue;
      ir::op* owner = v->owner;
      std::erase_if(open, [&](value other) { return other->owner == owner; });
      open.insert(open.end(), owner->operands.begin(), owner->operands.end());
      ir::erase(*owner);
    }
  } while (drop_empty_branches(k.body, open));
  sorter().run(k.body);
}

}  // namespace tlx::pass
