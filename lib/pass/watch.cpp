// A kernel that cannot hang: every wait gets a number and a way out. A thread that waits too long, or sees that another one has, goes to watch.exit,
// which stands before the tear-down; nothing between is executed. A thread inside of a branch that only some lanes of its warp take goes to the end of
// that branch first, where the warp comes together, and watch.leave takes all of it on.
//
// bar.sync has no time limit, and a warp that gave up would never arrive: what threads can miss becomes an mbarrier. Barriers that all threads reach
// whatever happens, before the first wait and in the tear-down, stay what they are.
#include <algorithm>
#include <map>
#include <set>

#include "agents.hpp"
#include "tlx/pass/pipeline.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/limits.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

constexpr auto s32 = tile::element::s32;

bool is_pure(const ir::op& o) { return ir::row(o.code).effects == ir::effect::pure && o.regions.empty(); }

// What ends a kernel and does not touch what roles share: done by threads that gave up, too.
bool tears_down(const ir::op& o) {
  switch (o.code) {
    case opcode::tmem_fence:
    case opcode::tmem_free:
    case opcode::tma_wait:
    case opcode::elect:
    case opcode::cluster_sync:
    case opcode::depend_launch: return true;
    case opcode::barrier_cta: return o.integer("threads") == 0;
    case opcode::if_then:
      for (const auto& r : o.regions)
        for (const auto& inner : r->ops)
          if (!tears_down(*inner)) return false;
      return true;
    default: return is_pure(o);
  }
}

bool crosses_warps(const ir::op& o) { return o.is(opcode::convert) && o.has("scratch"); }
bool can_leave(const ir::op& o) { return o.is(opcode::mbarrier_wait) || o.is(opcode::require) || o.is(opcode::barrier_cta) || crosses_warps(o); }

template <class Is>
bool contains(const ir::op& o, Is&& is) {
  if (is(o)) return true;
  for (const auto& r : o.regions)
    for (const auto& inner : r->ops)
      if (contains(*inner, is)) return true;
  return false;
}

// Values that may differ between the lanes of a warp. A value that is taken for one although it does not costs nothing but a longer way out.
class lane_values {
 public:
  explicit lane_values(ir::kernel& k) {
    size_t before = 0;
    do {
      before = found_.size();
      look(k.body, false);
    } while (found_.size() != before);  // cells carry values backwards
  }
  /// Whether the lanes of a warp may run the regions of `o` at different times, or not at all.
  bool parts_lanes(const ir::op& o) const {
    if (o.is(opcode::while_loop)) return !o.regions[0]->ops.empty() && any(*o.regions[0]->ops.back());
    return (o.is(opcode::if_then) || o.is(opcode::for_loop)) && any(o);
  }

 private:
  bool any(const ir::op& o) const {
    return std::any_of(o.operands.begin(), o.operands.end(), [&](value v) { return found_.count(v) != 0; });
  }
  static bool is_source(const ir::op& o) {
    if (!o.is(opcode::inline_ptx)) return o.is(opcode::lane_id) || o.is(opcode::elect);
    const std::string text = o.text("text");
    return text.find("redux.sync") == std::string::npos && text.find("vote.sync") == std::string::npos;
  }
  void look(ir::region& r, bool apart) {
    for (const auto& o : r.ops) {
      const bool varies = is_source(*o) || (any(*o) && !o->is(opcode::inline_ptx));
      if (varies)
        for (const auto& made : o->results) found_.insert(made.get());
      if (o->is(opcode::var_set) && (apart || found_.count(o->operands[1]))) found_.insert(o->operands[0]);
      for (const auto& inner : o->regions) {
        const bool parted = apart || parts_lanes(*o);
        if (parted)
          for (const auto& argument : inner->arguments) found_.insert(argument.get());
        look(*inner, parted);
      }
    }
  }

  std::set<value> found_;
};

class watcher {
 public:
  watcher(ir::kernel& k, std::int64_t limit_ns) : k_(k), limit_ns_(limit_ns) {}

  void run() {
    place_exit();
    check_cluster_barriers();
    time_barriers();
    mark_ways_out();
    number_sites();
  }

 private:
  std::vector<std::unique_ptr<ir::op>>& top() { return k_.body.ops; }
  size_t index_of(const ir::op& o) {
    return static_cast<size_t>(std::find_if(top().begin(), top().end(), [&](const auto& p) { return p.get() == &o; }) - top().begin());
  }

  // --- the exit

  void place_exit() {
    size_t end = top().size();
    while (end > 0 && tears_down(*top()[end - 1])) --end;
    while (end < top().size() && is_pure(*top()[end]) && !used_from(end, *top()[end])) ++end;
    first_ = 0;
    while (first_ < end && !contains(*top()[first_], [](const ir::op& o) { return can_leave(o) && !o.is(opcode::barrier_cta); }) && !nested_barrier(*top()[first_])) ++first_;
    ir::builder b = end < top().size() ? ir::builder::before(k_, *top()[end]) : ir::builder(k_, k_.body);
    b.locate(k_.where);
    exit_ = &b.make(opcode::watch_exit, {}, {}, {{"limit_ns", limit_ns_}});
    bring_operands();
    for (const ir::op* o : find_all(k_.body, opcode::tmem_free))
      if (!after_exit(*o))
        raise(internal_error({.id = "watch-tear-down", .what = "tensor memory is given back before the last wait", .where = o->where, .because = "threads that gave up must give it back too",
                              .context = cat("kernel \"", k_.name, "\"")}));
  }
  static bool nested_barrier(const ir::op& o) {
    return !o.is(opcode::barrier_cta) && contains(o, [](const ir::op& inner) { return inner.is(opcode::barrier_cta); });
  }
  bool used_from(size_t from, const ir::op& o) {
    for (size_t i = from; i < top().size(); ++i)
      if (contains(*top()[i], [&](const ir::op& user) { return std::find(user.operands.begin(), user.operands.end(), o.result()) != user.operands.end(); })) return true;
    return false;
  }

  // Threads come to the exit from everywhere: what the tear-down uses must be made before the first wait, or again after it.
  void bring_operands() {
    std::map<value, value> again;
    for (size_t i = index_of(*exit_) + 1; i < top().size(); ++i) bring_into(*top()[i], again, i);
  }
  void bring_into(ir::op& o, std::map<value, value>& again, size_t& at) {
    for (value& v : o.operands) v = brought(v, again, at);
    for (const auto& r : o.regions)
      for (const auto& inner : r->ops) bring_into(*inner, again, at);
  }
  value brought(value v, std::map<value, value>& again, size_t& at) {
    if (!v->owner || v->owner->parent != &k_.body) return v;
    const size_t made = index_of(*v->owner);
    if (made < first_ || made > index_of(*exit_)) return v;
    if (auto it = again.find(v); it != again.end()) return it->second;
    if (!is_pure(*v->owner) && !v->owner->is(opcode::elect))
      raise(internal_error({.id = "watch-tear-down", .what = cat("the tear-down uses the result of \"", ir::row(v->owner->code).text, "\", which threads that gave up do not have"),
                            .where = v->owner->where, .context = cat("kernel \"", k_.name, "\"")}));
    std::vector<value> operands;
    for (value operand : v->owner->operands) operands.push_back(brought(operand, again, at));
    ir::builder b = ir::builder::after(k_, *exit_);
    ir::op& copy = b.make(v->owner->code, operands, {v->type}, v->owner->attributes);
    ++at;
    return again[v] = copy.result();
  }

  // --- barriers without a time limit

  bool after_exit(const ir::op& o) {
    const ir::op* up = &o;
    while (up->parent != &k_.body) up = up->parent->parent;
    return index_of(*up) > index_of(*exit_);
  }

  void check_cluster_barriers() {
    for (ir::op* o : find_all(k_.body, opcode::cluster_sync)) {
      if (after_exit(*o) || (o->parent == &k_.body && index_of(*o) < first_)) continue;
      raise(user_error({.id = "watch-cluster-barrier", .what = "a cluster barrier stands behind a wait", .where = o->where,
                        .because = "a cluster barrier has no time limit: CTAs that gave up would be waited for", .fix = {"meet before the first wait and at the end only", "do not watch this kernel"},
                        .context = cat("kernel \"", k_.name, "\"")}));
    }
  }

  void time_barriers() {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> places;  // barrier number, warps -> offset
    std::int64_t bytes = (std::int64_t{k_.shared_bytes} + 7) / 8 * 8;
    const auto time = [&](ir::op& o) {
      const std::int64_t id = o.integer("id"), threads = o.integer("threads"), warps = threads == 0 ? k_.warps : threads / tile::warp_lanes;
      if (warps < 2) return;
      const auto [found, fresh] = places.try_emplace({id, warps}, bytes);
      if (fresh) bytes += 8;
      o.set("timed", found->second).set("warps", warps);
    };
    ir::walk(k_.body, [&](ir::op& o) {
      if (crosses_warps(o)) time(o);
      if (!o.is(opcode::barrier_cta) || after_exit(o) || (o.parent == &k_.body && index_of(o) < first_)) return;
      time(o);
    });
    if (places.empty()) return;
    const tile::limits limit = *tile::target_limits(k_.target);
    if (bytes > limit.shared_bytes_per_cta)
      raise(user_error({.id = "shared-memory-exceeded", .what = cat("watched, the kernel needs ", bytes, " bytes of shared memory, a CTA has ", limit.shared_bytes_per_cta), .where = k_.where,
                        .because = "a barrier with a time limit takes 8 bytes", .fix = {"use fewer stages or smaller tiles while you watch it"}, .context = cat("kernel \"", k_.name, "\"")}));
    k_.shared_bytes = static_cast<int>(bytes);
    std::vector<ir::op*> fences = find_all(k_.body, opcode::fence_init);
    auto fill = [&](ir::builder& b) {
      for (const auto& [which, place] : places)
        b.make(opcode::mbarrier_init, {b.simple(opcode::shared_base, tile::element::u32, {{"offset", place}})}, {}, {{"count", which.second}});
    };
    if (!fences.empty()) {
      ir::builder b = ir::builder::before(k_, *fences.front());
      return fill(b);
    }
    ir::builder b = ir::builder::before(k_, *top().front());
    b.locate(k_.where);
    b.when(b.compare("eq", b.simple(opcode::warp_id, s32), b.integer(0)), [&](ir::builder& w) {
      w.when(w.simple(opcode::elect, tile::element::boolean), [&](ir::builder& e) {
        fill(e);
        e.make(opcode::fence_init);
      });
    });
    b.make(opcode::barrier_cta, {}, {}, {{"id", std::int64_t{0}}, {"threads", std::int64_t{0}}});
  }

  // --- ways out

  void mark_ways_out() {
    const lane_values lanes(k_);
    std::vector<ir::op*> scopes;
    ir::walk(k_.body, [&](ir::op& o) {
      if (!can_leave(o)) return;
      ir::op* outermost = nullptr;
      for (ir::op* up = o.parent->parent; up; up = up->parent->parent)
        if (lanes.parts_lanes(*up)) outermost = up;
      if (!outermost) return;
      if (!outermost->has("way_out")) scopes.push_back(outermost);
      outermost->set("way_out", std::int64_t{1});
    });
    for (ir::op* scope : scopes) {
      ir::builder b = ir::builder::after(k_, *scope);
      b.locate(scope->where);
      b.make(opcode::watch_leave);
    }
  }

  void number_sites() {
    std::int64_t next = 0;
    ir::walk(k_.body, [&](ir::op& o) {
      if (o.is(opcode::mbarrier_wait) || o.is(opcode::require) || o.has("timed")) o.set("site", next++);
    });
  }

  ir::kernel& k_;
  std::int64_t limit_ns_;
  size_t first_ = 0;  // of the top level: the first op at which a thread can give up
  ir::op* exit_ = nullptr;
};

}  // namespace

void watch(ir::kernel& k, std::int64_t limit_ns) { watcher(k, limit_ns).run(); }

}  // namespace tlx::pass
