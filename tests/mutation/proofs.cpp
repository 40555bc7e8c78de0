#include "proofs.hpp"

#include <algorithm>
#include <compare>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "paths.hpp"

namespace tlx::mutation {

namespace {

using ir::op;
using ir::opcode;
using ir::value;

// --- states of a walk

constexpr std::int64_t columns_begin = std::int64_t{1} << 32, columns_end = columns_begin + 512;

struct every {  // holds on all paths
  bool yes = false;
  bool operator==(const every&) const = default;
  void join(const every& o) { yes = yes && o.yes; }
};
struct any {  // holds on some path
  bool yes = false;
  bool operator==(const any&) const = default;
  void join(const any& o) { yes = yes || o.yes; }
};
struct most {  // the most groups that may be under way
  std::int64_t n = 0;
  bool operator==(const most&) const = default;
  void join(const most& o) { n = std::max(n, o.n); }
  void commit() { n = std::min<std::int64_t>(n + 1, 64); }
  void wait(std::int64_t pending) { n = std::min(n, pending); }
};
struct bytes {  // of shared memory, from low to below high, or columns of tensor memory behind it; all of it where that is not known
  std::int64_t low = 0, high = columns_end;
  auto operator<=>(const bytes&) const = default;
  bool overlap(const bytes& o) const { return low < o.high && o.low < high; }
};
struct touch {
  bytes where;
  bool write = true;
  enum class by : unsigned char { other, threads, products } who = by::other;  // other: an arrival, a copy, whatever others may see
  auto operator<=>(const touch&) const = default;
  bool in_order_with(const touch& o) const {
    if (who == by::other || o.who == by::other) return false;
    if (!where.overlap(o.where) || (!write && !o.write)) return true;
    return where.low >= columns_begin && who == o.who;  // products run one after the other, a warp has lanes of its own
  }
};
struct touches {
  std::set<touch> all;
  bool operator==(const touches&) const = default;
  void join(const touches& o) { all.insert(o.all.begin(), o.all.end()); }
  bool in_order_with(const touches& o) const {
    return std::all_of(all.begin(), all.end(), [&](const touch& one) { return std::all_of(o.all.begin(), o.all.end(), [&](const touch& other) { return one.in_order_with(other); }); });
  }
};
struct windows {  // touches since, or until, a fence on one side of a barrier, and those on the far side of another
  touches near, far;
  bool operator==(const windows&) const = default;
  void join(const windows& o) { near.join(o.near), far.join(o.far); }
};

// --- what ops are

bool differs_between_threads(value v, int depth = 0) {
  if (!v->owner) return false;
  const op& o = *v->owner;
  if (o.is(opcode::warp_id) || o.is(opcode::lane_id) || o.is(opcode::elect)) return true;
  if (depth > 40) return true;
  return std::any_of(o.operands.begin(), o.operands.end(), [&](value in) { return differs_between_threads(in, depth + 1); });
}

// All threads of the role (outside of roles: of the CTA) run `o` together.
bool is_for_all(const op& o) {
  for (const op* at = o.parent ? o.parent->parent : nullptr; at; at = at->parent ? at->parent->parent : nullptr) {
    if (at->has("role")) return true;
    if (at->is(opcode::if_then) && differs_between_threads(at->operands[0])) return false;
  }
  return true;
}

bool has_tile(const value v) { return v->type.is_tile() || (v->type.is(ir::type::kind::var) && !v->type.parts.empty() && v->type.parts[0].is_tile()); }

bool is_wgmma(const op& o) { return o.is(opcode::wgmma_mma) || o.is(opcode::wgmma_commit) || o.is(opcode::wgmma_wait) || o.is(opcode::wgmma_fence); }

// Ops of no moment to other threads: arithmetic, cells, control, global memory (threads meet at no barrier for its sake), and what only keeps the thread itself waiting.
bool is_private(const op& o) {
  switch (o.code) {
    case opcode::for_loop: case opcode::while_loop: case opcode::if_then: case opcode::yield: case opcode::elect: case opcode::var_new: case opcode::var_get: case opcode::var_set:
    case opcode::global_load: case opcode::global_store: case opcode::depend_launch: case opcode::depend_wait: case opcode::tma_prefetch: case opcode::set_registers: case opcode::fence_async:
    case opcode::fence_init: case opcode::wgmma_fence: case opcode::tmem_fence: case opcode::tmem_relinquish: return true;
    case opcode::convert: return !o.has("scratch");
    case opcode::mbarrier_wait: return is_for_all(o);
    case opcode::inline_ptx: return o.text("text").rfind("redux.sync", 0) == 0;
    default: return ir::row(o.code).effects == ir::effect::pure;
  }
}
bool is_by_threads(const op& o) { return o.is(opcode::shared_read) || o.is(opcode::shared_write) || o.is(opcode::shared_zero) || o.is(opcode::shared_load) || o.is(opcode::shared_store); }
// Hands on what was before to others, or sets asynchronous work going.
bool is_release(const op& o) {
  switch (o.code) {
    case opcode::barrier_cta: case opcode::barrier_warp: case opcode::wgmma_wait: case opcode::wgmma_commit: case opcode::tma_wait: case opcode::tma_commit:
    case opcode::tmem_load: case opcode::tmem_store: case opcode::tmem_wait_load: case opcode::tmem_wait_store: return false;
    default: return !is_private(o) && !is_by_threads(o);
  }
}

// Of the slots or barriers that an address is in, all stages; of all rings that have those bytes one after the other.
bytes bytes_of(const ir::kernel& k, value address, int depth = 0) {
  if (!address->owner || depth > 20) return {};
  if (address->owner->is(opcode::shared_base)) {
    const std::int64_t offset = address->owner->integer("offset");
    std::optional<bytes> found;
    for (const ir::place& p : k.places) {
      const bytes all{p.offset, p.offset + p.bytes * p.stages};
      if (p.part == "columns" || offset < all.low || offset >= all.high) continue;
      found = found ? bytes{std::min(found->low, all.low), std::max(found->high, all.high)} : all;
    }
    return found.value_or(bytes{});
  }
  for (value in : address->owner->operands)
    if (const bytes b = bytes_of(k, in, depth + 1); b != bytes{}) return b;
  return {};
}

// Columns of tensor memory: the accumulators that an address is in, from its constants; all where that is not known.
bytes columns_of(const ir::kernel& k, value address) {
  std::int64_t column = 0;
  const std::function<void(value, int)> add = [&](value v, int depth) {
    if (!v->owner || depth > 12) return;
    if (v->owner->is(opcode::constant)) column += v->owner->integer("value") & 0xffff;
    if (v->owner->is(opcode::add))
      for (value in : v->owner->operands) add(in, depth + 1);
  };
  add(address, 0);
  for (const ir::place& p : k.places)
    if (p.part == "columns" && column >= p.offset && column < p.offset + p.bytes * p.stages) return {columns_begin + p.offset, columns_begin + p.offset + p.bytes * p.stages};
  return {columns_begin, columns_end};
}

// --- rules

class rules {
 public:
  rules(const ir::kernel& k, const op& at, const std::vector<const op*>& implied) : k_(k), at_(at), implied_(implied) {}

  bool is_implied(const op& wait) const { return std::find(implied_.begin(), implied_.end(), &wait) != implied_.end(); }

  std::string waits_for_barrier() const {
    if (is_implied(at_)) return "whatever the barrier tells here, every warp that waits knows by then from others, in every run of the protocol check";
    // Warps that wait for each other alone.
    if (!is_among_themselves(at_) || !is_for_all(at_)) return "";
    const auto behind = paths<every>::behind(k_, at_, {}, [&](every& s, const op& o) {
      if (o.is(opcode::barrier_cta) && is_for_all(o)) s.yes = true;
      else if (!is_private(o)) s.yes = false;
    });
    return behind.yes ? "the warps that arrive are those that wait, and all of them meet at another barrier on every path before they do anything that others may see" : "";
  }

  // Outside of roles all is in one order: an arrival behind which nobody waits for that barrier is for nobody.
  std::string arrives_for_nobody() const {
    bool in_roles = false;
    for_each_of_barrier(at_.operands[0], [&](const op& o) { in_roles = in_roles || role_of(o) != nullptr; });
    if (in_roles) return "";
    const auto behind = paths<any>::behind(k_, at_, {}, [&](any& s, const op& o) {
      if (o.is(opcode::mbarrier_wait) && bytes_of(k_, o.operands[0]).overlap(bytes_of(k_, at_.operands[0]))) s.yes = true;
    });
    return behind.yes ? "" : "no path waits for that barrier again, and no role has to do with it";
  }

  std::string is_only_waited_for() const {
    bool waits = false, only = true;
    const std::function<void(value, int)> follow = [&](value v, int depth) {
      ir::walk(k_.body, [&](const op& user) {
        if (std::find(user.operands.begin(), user.operands.end(), v) == user.operands.end()) return;
        if (user.is(opcode::add) && depth < 6) follow(user.result(), depth + 1);
        else if (user.is(opcode::mbarrier_wait) && is_implied(user)) waits = true;
        else only = false;
      });
    };
    follow(at_.result(), 0);
    return waits && only ? "only waits use it that tell nothing new, in every run of the protocol check; that they do not wait for ever for the barrier beside it is what that check looks at" : "";
  }

  std::string releases_later() const {
    if (const std::string idle = arrives_for_nobody(); !idle.empty()) return idle;
    if (is_idle_arrival(at_)) return "whatever this ring's empty barriers tell, every warp that waits for them knows by then from others, in every run of the protocol check: when the arrival comes in its round is of no moment";
    // What stands between the arrival and the wait that it moves behind.
    const op* release = &at_;
    for (const ir::region* r = at_.parent; r; r = r->parent ? r->parent->parent : nullptr) {
      while (release->parent != r) release = release->parent->parent;
      for (size_t i = index_in(*r, *release); i-- > 0;) {
        if (r->ops[i]->is(opcode::mbarrier_wait)) return "between the wait and the arrival nothing reads or writes that the arrival speaks for";
        if (speaks_for(*r->ops[i])) return "";
      }
    }
    return "";
  }

  std::string waits_for_products(std::int64_t pending) const {
    const auto before = paths<most>::before(k_, at_, {}, [](most& s, const op& o) {
      if (o.is(opcode::wgmma_commit)) s.commit();
      if (o.is(opcode::wgmma_wait)) s.wait(o.integer("pending"));
    });
    if (before.n <= pending) return "no more groups are under way here on any path than the wait lets be";
    const auto behind = paths<every>::behind(k_, at_, {}, [&](every& s, const op& o) {
      if (o.is(opcode::wgmma_wait)) s.yes = s.yes || o.integer("pending") <= pending;
      else if (o.is(opcode::wgmma_commit) || (!is_private(o) && !o.is(opcode::wgmma_mma)) || (o.is(opcode::var_get) && has_tile(o.operands[0]))) s.yes = false;
    });
    if (behind.yes) return "a wait for as many groups comes on every path before anything is released or a result is read";
    return "";
  }

  std::string fences_registers() const {
    std::set<value> accumulators;
    ir::walk(k_.body, [&](const op& o) {
      if (o.is(opcode::wgmma_mma)) accumulators.insert(o.operands[0]);
    });
    const auto before = paths<every>::before(k_, at_, {}, [&](every& s, const op& o) {
      const bool reads = o.is(opcode::slice) || (o.is(opcode::var_new) && o.operands.empty()) || (o.is(opcode::var_get) && accumulators.count(o.operands[0]) == 0);  // operands as they are
      if (o.is(opcode::wgmma_fence)) s.yes = true;
      else if (!is_wgmma(o) && !reads && (std::any_of(o.operands.begin(), o.operands.end(), has_tile) || std::any_of(o.results.begin(), o.results.end(), [](const auto& r) { return has_tile(r.get()); }))) s.yes = false;
    });
    return before.yes ? "since the fence before, on every path, no register of a tile was written, and none of an accumulator touched, but by products" : "";
  }

  std::string sets_cell() const {
    const value cell = at_.operands[0];
    const auto behind = paths<any>::behind(k_, at_, {}, [&](any& s, const op& o) {
      if (o.is(opcode::var_get) && o.operands[0] == cell) s.yes = true;
      if ((o.is(opcode::var_set) && o.operands[0] == cell) || (o.is(opcode::var_new) && o.result() == cell)) s.yes = false;
    });
    if (!behind.yes) return "no path reads the cell again before it is set";
    return is_implied(at_) ? "the cell has that value already, in every run of the protocol check" : "";
  }

  std::string waits_for_stores(const op& wait, std::int64_t pending) const {
    const auto before = paths<most>::before(k_, wait, {}, [](most& s, const op& o) {
      if (o.is(opcode::tma_commit)) s.commit();
      if (o.is(opcode::tma_wait)) s.wait(o.integer("pending"));
    });
    return before.n <= pending ? "no more groups of stores are under way here on any path than the wait lets be" : "";
  }

  std::string commits(opcode commit, opcode wait) const {
    struct order {
      bool whole = false, taken = false;  // the first wait is one for all groups; a commit comes before it
      bool operator==(const order&) const = default;
      void join(const order& o) { whole = whole && o.whole, taken = taken && o.taken; }
    };
    const auto behind = paths<order>::behind(k_, at_, {}, [&](order& s, const op& o) {
      if (o.is(wait)) s = {o.integer("pending") == 0, false};
      if (o.is(commit)) s.taken = s.whole;
    });
    return behind.taken ? "the next commit takes this work into its group, and the first wait on every path is for all groups" : "";
  }

  std::string lets_warps_meet() const {
    const bool warp = at_.is(opcode::barrier_warp);
    const auto meets = [&](const op& o) {
      return (o.is(opcode::barrier_cta) && (warp || (o.integer("id") == at_.integer("id") && o.integer("threads") == at_.integer("threads")))) || (warp && o.is(opcode::barrier_warp)) || o.is(opcode::cluster_sync);
    };
    const auto collect = [&](touches& s, const op& o) {
      if (meets(o)) s.all.clear();
      else add_touches(s, o);
    };
    if (!is_for_all(at_)) return "";
    const auto before = paths<touches>::before(k_, at_, {}, collect), behind = paths<touches>::behind(k_, at_, {}, collect);
    if (!before.in_order_with(behind)) return "";
    // Tensor memory is kept in order by barriers with a fence at either side.
    const ir::region& around = *at_.parent;
    const size_t here = index_in(around, at_);
    for (const size_t i : {here - 1, here + 1})
      if (i < around.ops.size() && around.ops[i]->is(opcode::tmem_fence) && rules(k_, *around.ops[i], implied_).fences_tensor_memory().empty()) return "";
    return "nothing that its threads do between the barrier before and the barrier behind is to be kept in order";
  }

  std::string fences_asynchronous() const {
    if (!is_for_all(at_)) return "";
    const auto before = paths<every>::before(k_, at_, {true}, [](every& s, const op& o) {
      if (o.is(opcode::fence_async) && is_for_all(o)) s.yes = true;
      else if (is_by_threads(o) || (o.is(opcode::convert) && o.has("scratch"))) s.yes = false;
    });
    if (before.yes) return "since the fence before, which all threads run, no thread has touched shared memory on any path";
    // In front of anything asynchronous the threads run another fence and all meet; in front of an arrival for a warp the warp does.
    // In front of anything asynchronous the threads run another fence and all meet, in either order; in front of an arrival for a warp the warp does.
    struct order {
      bool met = true, warp_met = true, fenced = true, met_behind = true, fenced_behind_meeting = true;
      bool operator==(const order&) const = default;
      void join(const order& o) {
        met = met && o.met, warp_met = warp_met && o.warp_met, fenced = fenced && o.fenced;
        met_behind = met_behind && o.met_behind, fenced_behind_meeting = fenced_behind_meeting && o.fenced_behind_meeting;
      }
    };
    const auto behind = paths<order>::behind(k_, at_, {}, [&](order& s, const op& o) {
      if (o.is(opcode::fence_async) && is_for_all(o)) s.met_behind = s.met_behind || s.warp_met, s.fenced = true;
      else if (is_for_all(o) && (o.is(opcode::barrier_cta) || (o.is(opcode::mbarrier_wait) && is_among_themselves(o)))) s.fenced_behind_meeting = s.fenced_behind_meeting || s.fenced, s.met = s.warp_met = true;
      else if (o.is(opcode::barrier_warp)) s.warp_met = s.met;
      else if (is_release(o) && !is_idle_arrival(o)) s = {s.met && o.is(opcode::mbarrier_arrive), false, false, false, false};
    });
    return behind.met_behind || behind.fenced_behind_meeting ? "on every path the same threads run another fence, and meet before or behind it, before anything is released or asynchronous" : "";
  }

  std::string fences_tensor_memory() const {
    const bool first = at_.integer("before") != 0;
    const auto same = [&](const op& o) { return o.is(opcode::tmem_fence) && (o.integer("before") != 0) == first; };
    const auto other = [&](const op& o) { return o.is(opcode::tmem_fence) && !same(o); };
    const auto later = paths<touches>::behind(k_, at_, {}, [&](touches& s, const op& o) { add_columns(s, o); });
    if (later.all.empty()) return "no access to tensor memory follows on any path; to give it back, all accesses must be over and ordered before, which the wait for the loads and the barrier do";
    bool others = false;  // accesses of other roles are on no path through this one
    ir::walk(k_.body, [&](const op& o) {
      touches s;
      add_columns(s, o);
      others = others || (!s.all.empty() && role_of(o) != role_of(at_));
    });
    if (others) return "";
    // What a fence before a barrier and one behind the next order already is not asked of this one.
    const auto before = paths<windows>::before(k_, at_, {}, [&](windows& s, const op& o) {
      if (first ? same(o) : other(o)) s = {{}, first ? touches{} : s.near};
      else add_columns(s.near, o);
    });
    const auto behind = paths<windows>::behind(k_, at_, {}, [&](windows& s, const op& o) {
      if (first ? other(o) : same(o)) s.near = {};
      else if (same(o)) s.far = s.near;
      else add_columns(s.near, o), add_columns(s.far, o);
    });
    touches earlier = before.near;
    earlier.join(before.far);
    return earlier.in_order_with(first ? behind.far : behind.near) ? "what is done to tensor memory before it and behind it, as far as the fences around do not keep it in order, is of other columns, or by the same" : "";
  }

 private:
  // A wait for products that a commit speaks for counts as an access: a fence behind it shows their results.
  void add_columns(touches& s, const op& o) const {
    using by = touch::by;
    if (o.is(opcode::tmem_load)) s.all.insert({columns_of(k_, o.operands[0]), false, by::threads});
    if (o.is(opcode::tmem_store)) s.all.insert({columns_of(k_, o.operands[1]), true, by::threads});
    if (o.is(opcode::tcgen05_mma)) s.all.insert({columns_of(k_, o.operands[0]), true, by::products});
    if (o.is(opcode::tcgen05_mma) && o.operands[1]->type.element != tile::element::s64 && o.operands[1]->type.element != tile::element::u64) s.all.insert({{columns_begin, columns_end}, false, by::products});
    if (!o.is(opcode::mbarrier_wait)) return;
    bool products = false;
    for_each_of_barrier(o.operands[0], [&](const op& one) { products = products || one.is(opcode::tcgen05_commit); });
    if (products) s.all.insert({{columns_begin, columns_end}, true, by::products});
  }
  void add_touches(touches& s, const op& o) const {
    using by = touch::by;
    if (is_by_threads(o)) s.all.insert({bytes_of(k_, o.operands[o.is(opcode::shared_write) || o.is(opcode::shared_store) ? 1 : 0]), !o.is(opcode::shared_read) && !o.is(opcode::shared_load), by::threads});
    else if (o.is(opcode::wgmma_mma) || o.is(opcode::tcgen05_mma)) {
      for (const int i : {1, 2})
        if (o.operands[static_cast<size_t>(i)]->type.is_scalar()) s.all.insert({bytes_of(k_, o.operands[static_cast<size_t>(i)]), false, by::products});
    } else if (o.is(opcode::wgmma_wait)) {  // all that products read is free from here on
      ir::walk(k_.body, [&](const op& one) {
        if (one.is(opcode::wgmma_mma)) add_touches(s, one);
      });
    } else if (o.is(opcode::wgmma_commit) || o.is(opcode::tmem_load) || o.is(opcode::tmem_store) || o.is(opcode::tmem_wait_load) || o.is(opcode::tmem_wait_store) || is_idle_arrival(o)) {
    } else if (o.is(opcode::tma_wait) ? waits_for_stores(o, o.integer("pending")).empty() : !is_private(o)) {
      s.all.insert(touch{});
    }
  }
  // Every warp that waits for this barrier knows by then from others what its arrivals tell.
  bool is_idle_arrival(const op& o) const {
    if (!o.is(opcode::mbarrier_arrive) && !o.is(opcode::tcgen05_commit)) return false;
    bool waited = false, all = true;
    for_each_of_barrier(o.operands[0], [&](const op& one) {
      if (one.is(opcode::mbarrier_wait)) waited = true, all = all && is_implied(one);
    });
    return waited && all;
  }
  static const op* role_of(const op& o) {
    const op* at = &o;
    while (at && !at->has("role")) at = at->parent ? at->parent->parent : nullptr;
    return at;
  }
  static size_t index_in(const ir::region& r, const op& o) {
    size_t i = 0;
    while (r.ops[i].get() != &o) ++i;
    return i;
  }
  // Work that is over, or part of what a commit waits for, when an arrival behind it comes.
  bool speaks_for(const op& o) const {
    bool found = false;
    const auto look = [&](const op& one) {
      const bool commit = at_.is(opcode::tcgen05_commit);  // waits for products that were issued, whenever they end
      const bool other = commit && (one.is(opcode::tmem_load) || one.is(opcode::tmem_store) || one.is(opcode::tmem_wait_load) || one.is(opcode::tmem_wait_store) || one.is(opcode::tcgen05_commit) || one.is(opcode::barrier_warp));
      found = found || !(is_private(one) || other) || one.is(opcode::fence_async) || (one.is(opcode::tmem_fence) && !commit);
    };
    look(o);
    for (const auto& r : o.regions) ir::walk(*r, look);
    return found;
  }
  // Only threads of the role that waits arrive there.
  bool is_among_themselves(const op& wait) const {
    bool all = true;
    for_each_of_barrier(wait.operands[0], [&](const op& o) {
      if (!o.is(opcode::mbarrier_init) && !o.is(opcode::mbarrier_wait)) all = all && o.is(opcode::mbarrier_arrive) && role_of(o) == role_of(wait);
    });
    return all;
  }
  template <class Visit>
  void for_each_of_barrier(value address, Visit&& visit) const {
    const bytes barriers = bytes_of(k_, address);
    ir::walk(k_.body, [&](const op& o) {
      const bool one = o.is(opcode::mbarrier_init) || o.is(opcode::mbarrier_wait) || o.is(opcode::mbarrier_arrive) || o.is(opcode::mbarrier_expect) || o.is(opcode::mbarrier_remote) || o.is(opcode::tcgen05_commit);
      if (one && bytes_of(k_, o.operands[0]).overlap(barriers)) visit(o);
      if (o.is(opcode::tma_load) && bytes_of(k_, o.operands[1]).overlap(barriers)) visit(o);
    });
  }

  const ir::kernel& k_;
  const op& at_;
  const std::vector<const op*>& implied_;
};

}  // namespace

std::string proof_by_rule(const std::string& name, const ir::kernel& k, const op& at, const std::vector<const op*>& implied) {
  const rules of(k, at, implied);
  if (name == "drop-wait") return of.waits_for_barrier();
  if (name == "wrong-barrier") return of.is_only_waited_for();
  if (name == "drop-arrive" || name == "arrive-twice") return of.arrives_for_nobody();
  if (name == "release-early") return of.releases_later();
  if (name == "drop-wgmma-wait") return at.operands.empty() ? of.waits_for_products(at.integer("pending")) : "";
  if (name == "wgmma-wait-more") return of.waits_for_products(at.integer("pending"));
  if (name == "drop-wgmma-fence") return of.fences_registers();
  if (name == "keep-phase" || name == "keep-stage") return of.sets_cell();
  if (name == "drop-store-wait" || name == "store-wait-more") return of.waits_for_stores(at, at.integer("pending"));
  if (name == "drop-store-commit") return of.commits(opcode::tma_commit, opcode::tma_wait);
  if (name == "drop-wgmma-commit") return of.commits(opcode::wgmma_commit, opcode::wgmma_wait);
  if (name == "drop-warp-barrier" || name == "drop-cta-barrier") return of.lets_warps_meet();
  if (name == "drop-proxy-fence") return of.fences_asynchronous();
  if (name == "drop-tensor-fence") return of.fences_tensor_memory();
  return "";
}

}  // namespace tlx::mutation
