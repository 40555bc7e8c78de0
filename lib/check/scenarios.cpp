#include "check/scenarios.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "check/arithmetic.hpp"

namespace tlx::check {

namespace {

using ir::opcode;
using ir::value;

// Scalars of the kernel as functions of its leaves; loop indices stand at their first round.
class expressions {
 public:
  explicit expressions(program& p) : p_(p) {
    const ir::kernel& k = *p.kernel;
    for (size_t i = 0; i < k.parameters().size(); ++i) parameters_[k.parameters()[i].get()] = static_cast<int>(i);
    ir::walk(k.body, [&](const ir::op& o) {
      if (o.is(opcode::for_loop)) loops_[o.regions[0]->arguments[0].get()] = &o;
      if (o.is(opcode::var_set)) set_.insert(o.operands[0]);
    });
  }

  std::optional<std::int64_t> at(value v, const scenario& with) const { return evaluate(v, with, 0); }
  /// With cells as they are made, as loop indices stand at their first round: the length of the first of many sequences, which a loop has to find first.
  std::optional<std::int64_t> at_first(value v, const scenario& with) {
    first_ = true;
    const auto found = evaluate(v, with, 0);
    first_ = false;
    return found;
  }

  void leaves_of(value v, std::set<int>& found, int depth = 0) const {
    if (depth > 200) return;
    if (const int l = leaf_index(v); l >= 0) {
      found.insert(l);
      return;
    }
    if (v->owner)
      for (value o : v->owner->operands) leaves_of(o, found, depth + 1);
    else if (auto it = loops_.find(v); it != loops_.end()) leaves_of(it->second->operands[0], found, depth + 1);
    if (v->owner && v->owner->is(opcode::global_load)) found.insert(load_leaf(*v->owner));
  }

 private:
  int find(leaf l) const {
    for (size_t i = 0; i < p_.leaves.size(); ++i)
      if (!(p_.leaves[i] < l) && !(l < p_.leaves[i])) return static_cast<int>(i);
    return -1;
  }
  int parameter(value v) const {
    auto it = parameters_.find(v);
    return it == parameters_.end() ? -1 : it->second;
  }
  int load_leaf(const ir::op& o) const { return find({leaf::kind::load_scale, parameter(o.operands[0]), 0}); }
  int leaf_index(value v) const {
    if (!v->owner) return parameter(v) >= 0 ? find({leaf::kind::argument, parameter(v), 0}) : -1;
    const ir::op& o = *v->owner;
    const int axis = static_cast<int>(o.integer("axis"));
    switch (o.code) {
      case opcode::extent: return find({leaf::kind::extent, parameter(o.operands[0]), axis});
      case opcode::stride: return find({leaf::kind::stride, parameter(o.operands[0]), axis});
      case opcode::cta_id: return find({leaf::kind::cta, 0, axis});
      case opcode::grid_size: return find({leaf::kind::grid, 0, axis});
      case opcode::cluster_rank: return find({leaf::kind::rank, 0, axis});
      default: return -1;
    }
  }

  std::optional<std::int64_t> evaluate(value v, const scenario& with, int depth) const {
    if (depth > 200) return std::nullopt;
    if (const int l = leaf_index(v); l >= 0) return with[static_cast<size_t>(l)];
    if (!v->owner) {
      auto it = loops_.find(v);
      return it == loops_.end() ? std::nullopt : evaluate(it->second->operands[0], with, depth + 1);
    }
    const ir::op& o = *v->owner;
    if (o.is(opcode::warp_id) || o.is(opcode::lane_id)) return std::nullopt;
    if (o.is(opcode::var_get)) {  // a cell that is never set again
      const ir::op* made = o.operands[0]->owner;
      if (!made || (!first_ && set_.count(o.operands[0])) || made->operands.empty()) return std::nullopt;
      return evaluate(made->operands[0], with, depth + 1);
    }
    if (o.is(opcode::global_load)) {
      const int l = load_leaf(o);
      const auto at = l >= 0 && o.operands.size() >= 2 ? evaluate(o.operands[static_cast<size_t>(std::max(1, o.operands[0]->type.rank))], with, depth + 1) : std::nullopt;
      if (!at) return std::nullopt;
      return wrapped(*at * with[static_cast<size_t>(l)], o.result()->type.element);
    }
    if (o.is(opcode::constant)) return is_followed(o) ? std::optional(o.integer("value")) : std::nullopt;
    if (!is_followed(o)) return std::nullopt;
    std::int64_t in[3] = {0, 0, 0};
    for (size_t i = 0; i < o.operands.size() && i < 3; ++i) {
      const auto one = evaluate(o.operands[i], with, depth + 1);
      if (!one) return std::nullopt;
      in[i] = *one;
    }
    return compute(o.code, o.result()->type.element, comparison(o), in, o.operands.size());
  }

  program& p_;
  std::map<value, int> parameters_;
  std::map<value, const ir::op*> loops_;
  std::set<value> set_;
  bool first_ = false;
};

struct choice {
  std::vector<std::int64_t> inner, outer, branches;  // values of one leaf that make loops and branches do what they should
  std::vector<std::int64_t> between;                 // for the numbers of rounds between 1 and stages - 1
};

void add_once(std::vector<std::int64_t>& list, std::int64_t v) {
  if (std::find(list.begin(), list.end(), v) == list.end()) list.push_back(v);
}

class chooser {
 public:
  explicit chooser(program& p) : p_(p), values_(p) {
    for (const leaf& l : p.leaves) base_.push_back(first_value(l));
    for (const ir::place& at : p.kernel->places) stages_ = std::max<std::int64_t>(stages_, at.stages);
  }

  std::vector<planned> run() {
    for (const ir::op* loop : p_.loops) choose_for(*loop);
    for (const ir::op* branch : p_.branches) choose_for_branch(*branch);
    for (const ir::op* loop : seldom_) choose_for_seldom(*loop);
    std::vector<planned> all;
    size_t rounds = 1, tiles = 1, between = 0;
    for (const auto& [l, c] : choices_) {
      if (c.outer.empty()) rounds = std::max(rounds, c.inner.size()), between = std::max(between, c.between.size());
      tiles = std::max(tiles, c.outer.size());
    }
    const size_t usual_tile = std::min<size_t>(2, tiles - 1), usual_round = std::min<size_t>(4, rounds - 1), few = std::min<size_t>(1, rounds - 1);
    for (size_t i = 0; i < rounds; ++i) add(all, {with(i, usual_tile)});
    for (size_t t = 0; t < tiles; ++t)
      if (t != usual_tile) add(all, {with(usual_round, t)});
    if (tiles > 1) {
      for (size_t i = 0; i < rounds; ++i) add(all, {with(i, 1)});  // rings are left at every stage
      for (size_t i = 0; i < between; ++i) add(all, {with(i, 1, true)});
    }
    for (size_t i = 0; i <= few; ++i) add(all, {with(i, tiles - 1)});  // what a tile leaves to the next, twice, where hardly a round runs between
    for (const auto& [l, c] : choices_) {
      for (std::int64_t v : c.branches)
        for (size_t i : {usual_round, few}) add(all, moved(with(i, usual_tile), l, v));
      if (p_.leaves[static_cast<size_t>(l)].what == leaf::kind::load_scale && !c.branches.empty()) {
        for (size_t i = 0; i < rounds; ++i) add(all, moved(with(i, usual_tile), l, many_));  // several tiles of one sequence, which leave rings at every stage
        for (std::int64_t v : c.branches) add_sequences(all, with(few, usual_tile), l, v);
      }
      if (!c.outer.empty())  // a list of tiles that one role walks in its outermost loop and another in its innermost
        for (std::int64_t v : c.inner) add(all, moved(with(few, usual_tile), l, v));
    }
    for (const auto& [one, other] : pairs_) {
      scenario s = with(few, usual_tile);
      s[static_cast<size_t>(one.first)] = one.second;
      s[static_cast<size_t>(other.first)] = other.second;
      add(all, {s});
    }
    const size_t made = all.size();
    for (size_t l = 0; l < p_.leaves.size(); ++l)
      if (p_.leaves[l].what == leaf::kind::opaque)
        for (size_t i = 0; i < made; ++i) {
          planned s = all[i];
          s.values[l] = 1;
          if (s.together) (*s.together)[l] = 1;
          add(all, s);
        }
    return all;
  }

 private:
  std::int64_t first_value(const leaf& l) const {
    const ir::kernel& k = *p_.kernel;
    switch (l.what) {
      case leaf::kind::extent: return 1;
      case leaf::kind::stride: return 1024;
      case leaf::kind::argument: return 1;
      case leaf::kind::cta: return 0;
      case leaf::kind::grid: return k.cluster[std::clamp(l.axis, 0, 2)];
      case leaf::kind::load_scale: return 64;
      case leaf::kind::rank:
      case leaf::kind::opaque: return 0;
    }
    return 0;
  }

  static void add(std::vector<planned>& all, planned s) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const planned& p) { return p.values == s.values; });
    if (!known) all.push_back(std::move(s));
  }
  /// Sequences of `length` one after the other, where the table of them has had none but the first.
  void add_sequences(std::vector<planned>& all, scenario s, int l, std::int64_t length) const {
    const int table = p_.leaves[static_cast<size_t>(l)].parameter;
    for (size_t i = 0; i < s.size(); ++i) {
      const leaf& at = p_.leaves[i];
      if (at.what != leaf::kind::extent || at.parameter != table || s[i] > 1) continue;
      s[static_cast<size_t>(l)] = length;
      s[i] = 2 * stages_ + 4;
      add(all, {s});
    }
  }
  static bool is_size(const leaf& l) { return l.what == leaf::kind::extent || l.what == leaf::kind::argument; }
  planned moved(scenario s, int l, std::int64_t v) const {
    planned made{s};
    made.values[static_cast<size_t>(l)] = v;
    if (!is_size(p_.leaves[static_cast<size_t>(l)])) return made;
    for (size_t i = 0; i < s.size(); ++i)
      if (is_size(p_.leaves[i])) s[i] = v;
    made.together = std::move(s);
    return made;
  }
  scenario with(size_t round, size_t tile, bool between = false) const {
    scenario s = base_;
    for (const auto& [l, c] : choices_) {
      if (!c.outer.empty()) s[static_cast<size_t>(l)] = c.outer[std::min(tile, c.outer.size() - 1)];
      else if (const auto& list = between && !c.between.empty() ? c.between : c.inner; !list.empty()) s[static_cast<size_t>(l)] = list[std::min(round, list.size() - 1)];
    }
    // Sizes that no loop depends on are those of their axis elsewhere: views that are used side by side are mostly of one size.
    for (size_t i = 0; i < s.size(); ++i) {
      const leaf& mine = p_.leaves[i];
      if (mine.what != leaf::kind::extent || in_loops_.count(static_cast<int>(i))) continue;
      for (const auto& [l, c] : choices_) {
        const leaf& other = p_.leaves[static_cast<size_t>(l)];
        if ((c.outer.empty() && c.inner.empty()) || other.what != leaf::kind::extent || other.axis != mine.axis) continue;
        s[i] = s[static_cast<size_t>(l)];
        break;
      }
    }
    return s;
  }

  bool is_dynamic(const ir::op& loop) const {
    std::set<int> leaves;
    for (value v : loop.operands) values_.leaves_of(v, leaves);
    return !leaves.empty();
  }
  bool holds_dynamic(const ir::op& loop) const {
    bool found = false;
    ir::walk(*loop.regions[0], [&](const ir::op& o) {
      if (o.is(opcode::for_loop) && std::find(p_.loops.begin(), p_.loops.end(), &o) != p_.loops.end()) found = found || is_dynamic(o);
    });
    return found;
  }

  std::optional<std::int64_t> trips(const ir::op& loop, const scenario& s) {
    const auto bound = [&](int i) {
      const auto known = values_.at(loop.operands[static_cast<size_t>(i)], s);
      return known ? known : values_.at_first(loop.operands[static_cast<size_t>(i)], s);
    };
    const auto low = bound(0), high = bound(1), stride = bound(2);
    if (!low || !high || !stride || *stride <= 0) return std::nullopt;
    return *high <= *low ? 0 : (*high - *low + *stride - 1) / *stride;
  }

  // Sizes first, then arguments, then contents; where a CTA stands and how many there are stay as they are.
  std::vector<int> movable(const std::set<int>& leaves) const {
    std::vector<int> found;
    for (const leaf::kind what : {leaf::kind::extent, leaf::kind::argument, leaf::kind::load_scale})
      for (int l : leaves)
        if (p_.leaves[static_cast<size_t>(l)].what == what) found.push_back(l);
    return found;
  }

  void choose_for(const ir::op& loop) {
    std::set<int> leaves;
    for (value v : loop.operands) values_.leaves_of(v, leaves);
    if (leaves.empty()) return;
    in_loops_.insert(leaves.begin(), leaves.end());
    const bool outer = holds_dynamic(loop);
    std::vector<std::int64_t> wanted{0, 1, 2, 3};
    if (!outer) {
      wanted.clear();
      for (std::int64_t n : {std::int64_t{0}, std::int64_t{1}, stages_ - 1, stages_, stages_ + 1, 2 * stages_ + 1}) add_once(wanted, n);
    }
    for (int l : movable(leaves)) {
      std::vector<std::int64_t> list;
      scenario s = base_;
      const auto rounds = [&](std::int64_t v) {
        s[static_cast<size_t>(l)] = v;
        return trips(loop, s).value_or(-1);
      };
      const auto find = [&](std::int64_t n, std::int64_t most) -> std::optional<std::int64_t> {
        std::int64_t low = 0, high = 1 << 20;
        if (rounds(high) < n || rounds(high) < 0) return std::nullopt;
        while (low < high) {
          const std::int64_t middle = (low + high) / 2;
          if (rounds(middle) >= n) high = middle;
          else low = middle + 1;
        }
        return rounds(low) <= most ? std::optional(low) : std::nullopt;
      };
      for (std::int64_t n : wanted)
        if (const auto v = find(n, n)) list.push_back(*v);
      if (list.size() < 3)  // a loop that makes an even number of rounds whatever the size is, such as that over the halves of blocks
        for (std::int64_t n : wanted)
          if (const auto v = find(n, 2 * n)) add_once(list, *v);
      if (list.size() < 3) continue;
      choice& c = choices_[l];
      for (std::int64_t n = 2; !outer && n < stages_ - 1; ++n)
        if (const auto v = find(n, n)) add_once(c.between, *v);
      for (std::int64_t v : list) add_once(outer ? c.outer : c.inner, v);
      return;
    }
    seldom_.push_back(&loop);
  }

  // Loops that no size alone makes run as often as wanted, such as that over the blocks of keys on a causal mask's diagonal: two sizes that make them run.
  void choose_for_seldom(const ir::op& loop) {
    std::set<int> leaves;
    for (value v : loop.operands) values_.leaves_of(v, leaves);
    const std::vector<int> all = movable(leaves);
    for (int l : all)
      if (p_.leaves[static_cast<size_t>(l)].what == leaf::kind::load_scale) return;  // the lengths of sequences and their number together would make runs too long
    for (const std::int64_t wanted : {2, 1})
      for (size_t i = 0; i < all.size(); ++i)
        for (size_t j = i + 1; j < all.size(); ++j) {
          std::vector<pair> found;
          for (const std::int64_t a : {128, 129, 200, 256, 300, 400, 600})
            for (const std::int64_t b : {128, 129, 200, 256, 300, 400, 600}) {
              scenario s = base_;
              s[static_cast<size_t>(all[i])] = a;
              s[static_cast<size_t>(all[j])] = b;
              if (trips(loop, s).value_or(0) >= wanted) found.push_back({{all[i], a}, {all[j], b}});
            }
          if (found.empty()) continue;
          // Other loops make other numbers of rounds with each.
          const size_t few = std::min<size_t>(6, found.size());
          for (size_t n = 0; n < few; ++n) pairs_.push_back(found[few == 1 ? 0 : n * (found.size() - 1) / (few - 1)]);
          return;
        }
  }

  void choose_for_branch(const ir::op& branch) {
    std::set<int> leaves;
    values_.leaves_of(branch.operands[0], leaves);
    for (int l : movable(leaves)) {
      scenario s = base_;
      std::optional<std::int64_t> yes, no;
      for (std::int64_t v : {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 1000, 100000}) {
        s[static_cast<size_t>(l)] = v;
        const auto known = values_.at(branch.operands[0], s), c = known ? known : values_.at_first(branch.operands[0], s);
        if (!c) continue;
        if (*c && !yes) yes = v;
        if (!*c && !no) no = v;
      }
      const bool contents = p_.leaves[static_cast<size_t>(l)].what == leaf::kind::load_scale;
      if (yes && no) {
        add_once(choices_[l].branches, *yes);
        add_once(choices_[l].branches, *no);
      }
      if (contents)
        for (std::int64_t v : {std::int64_t{0}, std::int64_t{1}, std::int64_t{17}, std::int64_t{40}, std::int64_t{63}, std::int64_t{64}, std::int64_t{100}, uneven_, many_}) add_once(choices_[l].branches, v);
      if (yes && no) return;
    }
  }

  using pair = std::pair<std::pair<int, std::int64_t>, std::pair<int, std::int64_t>>;  // two leaves, and what they are
  static constexpr std::int64_t many_ = 1000;   // so long a sequence has several tiles
  static constexpr std::int64_t uneven_ = 300;  // its last tile is less than half full, whatever the length of a tile: tiles of both kinds follow each other
  program& p_;
  expressions values_;
  scenario base_;
  std::int64_t stages_ = 2;
  std::map<int, choice> choices_;
  std::set<int> in_loops_;  // leaves that bounds depend on
  std::vector<const ir::op*> seldom_;
  std::vector<pair> pairs_;
};

}  // namespace

std::vector<planned> scenarios_for(program& p) { return chooser(p).run(); }

}  // namespace tlx::check
