// What holds at one op on every path to it, or behind it: data flow over the structured IR.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::mutation {

/// State: a value with == and join(other), which keeps what holds of both and must reach an end. The walk is that of a warp's elected lane, which takes every other branch or not, but for branches on what `target` itself stands under.
inline bool is_elected(const ir::op& branch) { return branch.operands[0]->owner && branch.operands[0]->owner->is(ir::opcode::elect); }

template <class State>
class paths {
 public:
  using step = std::function<void(State&, const ir::op&)>;

  /// The state right before `target` for all paths that begin with `first` at the kernel's start.
  static State before(const ir::kernel& k, const ir::op& target, State first, step transfer) { return paths(target, std::move(transfer), true).walked(k, std::move(first)); }
  /// The state right behind `target` for all paths from there that end with `last` at the kernel's end; `transfer` takes the state behind an op to that before it.
  static State behind(const ir::kernel& k, const ir::op& target, State last, step transfer) { return paths(target, std::move(transfer), false).walked(k, std::move(last)); }

 private:
  paths(const ir::op& target, step transfer, bool forward) : target_(target), transfer_(std::move(transfer)), forward_(forward) {
    for (const ir::region* r = target.parent; r && r->parent; r = r->parent->parent)
      if (r->parent->is(ir::opcode::if_then) && is_made_once(r->parent->operands[0])) conditions_.emplace_back(r->parent->operands[0], r == r->parent->regions[0].get());
  }
  static bool is_made_once(ir::value v) {  // in no loop
    if (!v->owner) return false;
    for (const ir::region* r = v->owner->parent; r && r->parent; r = r->parent->parent)
      if (!r->parent->is(ir::opcode::if_then)) return false;
    return true;
  }
  std::optional<bool> taken(const ir::op& branch) const {
    for (const auto& [condition, is] : conditions_)
      if (condition == branch.operands[0]) return is;
    if (is_elected(branch)) return true;
    return std::nullopt;
  }

  State walked(const ir::kernel& k, State s) {
    region(s, k.body);
    return found_.value_or(s);
  }
  void region(State& s, const ir::region& r) {
    if (forward_)
      for (const auto& o : r.ops) one(s, *o);
    else
      for (size_t i = r.ops.size(); i-- > 0;) one(s, *r.ops[i]);
  }
  void one(State& s, const ir::op& o) {
    if (&o == &target_) {
      if (found_) found_->join(s);
      else found_ = s;
    }
    if (const auto only = o.is(ir::opcode::if_then) ? taken(o) : std::nullopt) {
      region(s, *o.regions[*only ? 0 : 1]);
    } else if (o.is(ir::opcode::if_then)) {
      State other = s;
      region(s, *o.regions[0]);
      region(other, *o.regions[1]);
      s.join(other);
    } else if (o.is(ir::opcode::for_loop)) {
      repeat(s, [&](State& in) { region(in, *o.regions[0]); });
    } else if (o.is(ir::opcode::while_loop)) {  // the test, then any number of times the body and the test; backwards too
      region(s, *o.regions[0]);
      repeat(s, [&](State& in) {
        region(in, *o.regions[1]);
        region(in, *o.regions[0]);
      });
    }
    transfer_(s, o);
  }
  template <class Body>
  void repeat(State& s, Body&& body) {  // any number of times, none too
    for (;;) {
      State out = s;
      body(out);
      out.join(s);
      if (out == s) return;
      s = out;
    }
  }

  const ir::op& target_;
  step transfer_;
  bool forward_;
  std::optional<State> found_;
  std::vector<std::pair<ir::value, bool>> conditions_;
};

}  // namespace tlx::mutation
