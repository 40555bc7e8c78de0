#include "canonical.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tlx::dsl {

namespace {

bool is_pure(const ir::op& o) { return ir::row(o.code).effects == ir::effect::pure; }
// Reads, and slots that open: their order among each other within a statement is the compiler's choice.
bool is_movable(const ir::op& o) {
  return o.is(ir::opcode::var_get) || o.is(ir::opcode::ring_fill) || o.is(ir::opcode::ring_drain) || o.is(ir::opcode::acc_read) || o.is(ir::opcode::tile_read) || o.is(ir::opcode::global_load);
}

class orderer {
 public:
  void run(ir::region& r) {
    std::vector<std::unique_ptr<ir::op>> recorded = std::move(r.ops);
    r.ops.clear();
    waiting_.clear();
    std::map<const ir::op*, size_t> place;
    for (size_t i = 0; i < recorded.size(); ++i) {
      place[recorded[i].get()] = i;
      if (is_pure(*recorded[i])) waiting_[recorded[i].get()] = &recorded[i];
    }
    into_ = &r;
    std::vector<std::unique_ptr<ir::op>*> run, closes;
    for (auto& o : recorded) {
      if (!o) continue;
      if (is_pure(*o) || is_movable(*o)) since_.push_back(o.get());
      if (is_pure(*o)) continue;
      if (!o->is(ir::opcode::ring_close)) flush_closes(closes, place);
      if (is_movable(*o)) {
        run.push_back(&o);
        waiting_[o.get()] = &o;
        continue;
      }
      if (o->is(ir::opcode::ring_close)) {
        flush_run(run);
        closes.push_back(&o);
        continue;
      }
      emit_operands(*o);
      flush_run(run);
      r.ops.push_back(std::move(o));
    }
    flush_run(run);
    flush_closes(closes, place);
    std::vector<ir::op*> nested;
    for (auto& o : r.ops)
      if (!o->regions.empty()) nested.push_back(o.get());
    for (ir::op* o : nested)
      for (auto& inner : o->regions) orderer().run(*inner);
  }

 private:
  void emit(const ir::op* o) {
    auto it = waiting_.find(o);
    if (it == waiting_.end()) return;
    std::unique_ptr<ir::op>* slot = it->second;
    waiting_.erase(it);
    emit_operands(**slot);
    into_->ops.push_back(std::move(*slot));
  }
  void emit_operands(const ir::op& o) {
    for (ir::value v : o.operands)
      if (v->owner) emit(v->owner);
    for (const auto& inner : o.regions)
      for (const auto& below : inner->ops) emit_operands(*below);
  }
  // What was recorded since the last effect, in the order in which the last operations of each statement name it, left to right.
  void flush_run(std::vector<std::unique_ptr<ir::op>*>& run) {
    std::set<const ir::op*> used, visited;
    for (const ir::op* o : since_)
      for (ir::value v : o->operands) used.insert(v->owner);
    if (!run.empty())
      for (const ir::op* root : since_)
        if (!used.count(root)) visit(root, visited);
    for (auto* o : run)
      if (*o) emit(o->get());
    run.clear();
    since_.clear();
  }
  void visit(const ir::op* o, std::set<const ir::op*>& visited) {
    if (!o || !waiting_.count(o) || !visited.insert(o).second) return;
    for (ir::value v : o->operands) visit(v->owner, visited);
    if (is_movable(*o)) emit(o);
  }
  void flush_closes(std::vector<std::unique_ptr<ir::op>*>& closes, const std::map<const ir::op*, size_t>&) {
    // order of opening = order in the region by now, or the order of the enclosing region for slots opened outside
    auto opened = [&](const ir::op* close) {
      const ir::op* open = close->operands[0]->owner;
      for (size_t i = 0; i < into_->ops.size(); ++i)
        if (into_->ops[i].get() == open) return i;
      return into_->ops.size();
    };
    std::stable_sort(closes.begin(), closes.end(), [&](auto* a, auto* b) { return opened(a->get()) < opened(b->get()); });
    for (auto* o : closes) {
      emit_operands(**o);
      into_->ops.push_back(std::move(*o));
    }
    closes.clear();
  }

  ir::region* into_ = nullptr;
  std::vector<const ir::op*> since_;
  std::map<const ir::op*, std::unique_ptr<ir::op>*> waiting_;
};

}  // namespace

void canonicalise(ir::kernel& k) { orderer().run(k.body); }

}  // namespace tlx::dsl
