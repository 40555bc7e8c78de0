#include "operators.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tlx/ir/builder.hpp"
#include "tlx/support/text.hpp"

namespace tlx::mutation {

namespace {

using ir::op;
using ir::opcode;
using ir::value;

/// Applies the operator to the op if it can; false: it does not apply there. `note` adds to the site's name.
using change = bool (*)(ir::kernel&, op&);

struct operator_row {
  const char* name;
  std::vector<opcode> on;  // what it may apply to: other ops are not worth a copy of the kernel
  change apply;
};

// --- helpers

// The first shared.base behind an address.
const op* base_of(value v, int depth = 0) {
  if (!v || !v->owner || depth > 20) return nullptr;
  if (v->owner->is(opcode::shared_base)) return v->owner;
  for (value o : v->owner->operands)
    if (const op* b = base_of(o, depth + 1)) return b;
  return nullptr;
}
const ir::place* place_of(const ir::kernel& k, const op& base) {
  const std::int64_t offset = base.integer("offset");
  for (const ir::place& p : k.places)
    if (p.part != "columns" && offset >= p.offset && offset < p.offset + p.bytes * p.stages) return &p;
  return nullptr;
}
const ir::place* place_of(const ir::kernel& k, value address) {
  const op* b = base_of(address);
  return b ? place_of(k, *b) : nullptr;
}

bool drop(op& o) {
  if (!o.results.empty()) return false;
  ir::erase(o);
  return true;
}
template <opcode Code>
bool drop_all(ir::kernel&, op& o) { return o.is(Code) && drop(o); }

bool add_to(op& o, const char* name, std::int64_t by) {
  o.set(name, o.integer(name) + by);
  return true;
}

size_t index_of(const op& o) {
  size_t i = 0;
  while (o.parent->ops[i].get() != &o) ++i;
  return i;
}

// The op of `region` that `o` is in.
op* in_region(op& o, const ir::region& region) {
  op* at = &o;
  while (at && at->parent != &region) at = at->parent ? at->parent->parent : nullptr;
  return at;
}

void operands_below(const op& o, std::vector<value>& out) {
  for (value v : o.operands) out.push_back(v);
  for (const auto& r : o.regions)
    for (const auto& inner : r->ops) operands_below(*inner, out);
}

// Moves `o` to before `to` (same region, earlier), with the computations that its operands need.
void hoist(op& o, op& to) {
  ir::region& r = *o.parent;
  const size_t first = index_of(to), last = index_of(o);
  std::set<const op*> need{&o};
  for (size_t i = last + 1; i-- > first;) {
    const op* each = r.ops[i].get();
    if (!need.count(each)) continue;
    std::vector<value> in;
    operands_below(*each, in);
    for (value v : in)
      if (v->owner && v->owner->parent == &r && v->owner != each) need.insert(v->owner);
  }
  std::stable_partition(r.ops.begin() + static_cast<std::ptrdiff_t>(first), r.ops.begin() + static_cast<std::ptrdiff_t>(last) + 1, [&](const auto& each) { return need.count(each.get()) != 0; });
}

bool holds(const op& o, opcode code) {
  bool found = o.is(code);
  for (const auto& r : o.regions) ir::walk(*r, [&](const op& inner) { found = found || inner.is(code); });
  return found;
}

// A release and its branch go to right behind the wait that opened the slot.
bool release_early(ir::kernel& k, op& o) {
  if (!o.is(opcode::mbarrier_arrive) && !o.is(opcode::tcgen05_commit)) return false;
  const ir::place* p = place_of(k, o.operands[0]);
  if (!p || p->part != "empty") return false;
  op* release = &o;
  for (ir::region* r = o.parent; r; r = r->parent ? r->parent->parent : nullptr) {
    release = in_region(o, *r);
    const size_t at = index_of(*release);
    for (size_t i = at; i-- > 0;)
      if (r->ops[i]->is(opcode::mbarrier_wait)) {
        if (i + 1 >= at) return false;
        op& to = *r->ops[i + 1];
        std::vector<value> in;
        operands_below(*release, in);
        hoist(*release, to);
        return true;
      }
  }
  return false;
}

// A cell that only waits read as parity.
bool is_parity(const ir::kernel& k, value cell) {
  bool found = false;
  ir::walk(k.body, [&](const op& o) {
    if (o.is(opcode::mbarrier_wait) && o.operands[1]->owner && o.operands[1]->owner->is(opcode::var_get) && o.operands[1]->owner->operands[0] == cell) found = true;
  });
  return found;
}

value constant(ir::kernel& k, op& before, std::int64_t v, tile::element e) { return ir::builder::before(k, before).integer(v, e); }

bool shift_trip(ir::kernel& k, op& o, std::int64_t by) {
  if (!o.is(opcode::for_loop) || o.integer("unroll") > 1) return false;
  bool protocol = false;
  ir::walk(*o.regions[0], [&](const op& inner) { protocol = protocol || inner.is(opcode::mbarrier_wait); });
  if (!protocol) return false;
  ir::builder b = ir::builder::before(k, o);
  // one round more or less, whatever the step
  value step = o.operands[2];
  o.operands[1] = by > 0 ? b.add(o.operands[1], step) : b.sub(o.operands[1], step);
  return true;
}

// Addresses of accumulators: the constants that tell them apart.
bool alias_tensor(ir::kernel& k, op& o) {
  if (!(o.is(opcode::add) || o.is(opcode::mul)) || o.operands.size() != 2 || !o.operands[1]->owner || !o.operands[1]->owner->is(opcode::constant)) return false;
  bool tensor = false;
  const std::function<void(value, int)> follow = [&](value v, int depth) {
    if (depth > 6 || tensor) return;
    ir::walk(k.body, [&](const op& user) {
      if (tensor || std::find(user.operands.begin(), user.operands.end(), v) == user.operands.end()) return;
      if (user.is(opcode::tcgen05_mma) || user.is(opcode::tcgen05_scaled) || user.is(opcode::tcgen05_copy)) tensor = tensor || user.operands[0] == v;
      else if (user.is(opcode::add) && user.results.size() == 1) follow(user.result(), depth + 1);
    });
  };
  if (o.result()->type.element != tile::element::u32) return false;
  follow(o.result(), 0);
  if (!tensor || o.operands[1]->owner->integer("value") < 32) return false;
  o.operands[1] = constant(k, o, 0, o.result()->type.element);
  return true;
}

const operator_row rows[] = {
    {"drop-arrive", {opcode::mbarrier_arrive}, drop_all<opcode::mbarrier_arrive>},
    {"drop-expect", {opcode::mbarrier_expect}, drop_all<opcode::mbarrier_expect>},
    {"drop-init", {opcode::mbarrier_init}, drop_all<opcode::mbarrier_init>},
    {"drop-load", {opcode::tma_load}, drop_all<opcode::tma_load>},
    {"drop-tensor-commit", {opcode::tcgen05_commit}, drop_all<opcode::tcgen05_commit>},
    {"drop-scale-copy", {opcode::tcgen05_copy}, drop_all<opcode::tcgen05_copy>},
    {"drop-store-commit", {opcode::tma_commit}, drop_all<opcode::tma_commit>},
    {"drop-wgmma-commit", {opcode::wgmma_commit}, drop_all<opcode::wgmma_commit>},
    {"drop-wait", {opcode::mbarrier_wait}, drop_all<opcode::mbarrier_wait>},
    {"drop-store-wait", {opcode::tma_wait}, drop_all<opcode::tma_wait>},
    {"drop-wgmma-wait", {opcode::wgmma_wait}, drop_all<opcode::wgmma_wait>},
    {"drop-load-wait", {opcode::tmem_wait_load},
     [](ir::kernel& k, op& o) {
       if (!o.is(opcode::tmem_wait_load)) return false;
       for (size_t i = 0; i < o.results.size(); ++i) ir::replace_uses(k.body, o.result(i), o.operands[i]);
       ir::erase(o);
       return true;
     }},
    {"drop-proxy-fence", {opcode::fence_async}, drop_all<opcode::fence_async>},
    {"drop-init-fence", {opcode::fence_init}, drop_all<opcode::fence_init>},
    {"drop-tensor-fence", {opcode::tmem_fence}, drop_all<opcode::tmem_fence>},
    {"drop-wgmma-fence", {opcode::wgmma_fence}, drop_all<opcode::wgmma_fence>},
    {"drop-cta-barrier", {opcode::barrier_cta}, drop_all<opcode::barrier_cta>},
    {"drop-warp-barrier", {opcode::barrier_warp}, drop_all<opcode::barrier_warp>},
    {"drop-free", {opcode::tmem_free}, drop_all<opcode::tmem_free>},
    {"drop-relinquish", {opcode::tmem_relinquish}, drop_all<opcode::tmem_relinquish>},
    {"count-more", {opcode::mbarrier_init}, [](ir::kernel&, op& o) { return o.is(opcode::mbarrier_init) && add_to(o, "count", 1); }},
    {"count-less", {opcode::mbarrier_init}, [](ir::kernel&, op& o) { return o.is(opcode::mbarrier_init) && o.integer("count") > 1 && add_to(o, "count", -1); }},
    {"arrive-twice", {opcode::mbarrier_arrive}, [](ir::kernel&, op& o) { return o.is(opcode::mbarrier_arrive) && add_to(o, "count", 1); }},
    {"bytes-more", {opcode::mbarrier_expect}, [](ir::kernel&, op& o) { return o.is(opcode::mbarrier_expect) && add_to(o, "bytes", 16); }},
    {"bytes-less", {opcode::mbarrier_expect}, [](ir::kernel&, op& o) { return o.is(opcode::mbarrier_expect) && add_to(o, "bytes", -16); }},
    {"wrong-phase", {opcode::mbarrier_wait},
     [](ir::kernel& k, op& o) {
       if (!o.is(opcode::mbarrier_wait)) return false;
       ir::builder b = ir::builder::before(k, o);
       o.operands[1] = b.binary(opcode::bit_xor, o.operands[1], b.integer(1, o.operands[1]->type.element));
       return true;
     }},
    {"keep-phase", {opcode::var_set}, [](ir::kernel& k, op& o) { return o.is(opcode::var_set) && is_parity(k, o.operands[0]) && drop(o); }},
    {"keep-stage", {opcode::var_set},
     [](ir::kernel& k, op& o) { return o.is(opcode::var_set) && !is_parity(k, o.operands[0]) && o.operands[0]->name.find("_stage") != std::string::npos && drop(o); }},
    {"wrong-barrier", {opcode::shared_base},
     [](ir::kernel& k, op& o) {
       if (!o.is(opcode::shared_base)) return false;
       const ir::place* p = place_of(k, o);
       return p && p->is_barrier() && add_to(o, "offset", 8);
     }},
    {"wrong-slot", {opcode::shared_base},
     [](ir::kernel& k, op& o) {
       if (!o.is(opcode::shared_base)) return false;
       const ir::place* p = place_of(k, o);
       return p && p->part == "slots" && add_to(o, "offset", p->stages > 1 ? p->bytes : p->offset ? -p->offset : p->bytes);
     }},
    {"alias-staging", {opcode::shared_base},
     [](ir::kernel& k, op& o) {
       if (!o.is(opcode::shared_base) || place_of(k, o)) return false;
       if (o.integer("offset") == 0) return false;
       o.set("offset", std::int64_t{0});
       return true;
     }},
    {"alias-tensor", {opcode::add, opcode::mul}, alias_tensor},
    {"release-early", {opcode::mbarrier_arrive, opcode::tcgen05_commit}, release_early},
    {"trip-more", {opcode::for_loop}, [](ir::kernel& k, op& o) { return shift_trip(k, o, 1); }},
    {"trip-less", {opcode::for_loop}, [](ir::kernel& k, op& o) { return shift_trip(k, o, -1); }},
    {"store-wait-more", {opcode::tma_wait}, [](ir::kernel&, op& o) { return o.is(opcode::tma_wait) && add_to(o, "pending", 1); }},
    {"wgmma-wait-more", {opcode::wgmma_wait}, [](ir::kernel&, op& o) { return o.is(opcode::wgmma_wait) && add_to(o, "pending", 1); }},
    {"registers-more", {opcode::set_registers}, [](ir::kernel&, op& o) { return o.is(opcode::set_registers) && add_to(o, "count", 8); }},
    {"registers-odd", {opcode::set_registers}, [](ir::kernel&, op& o) { return o.is(opcode::set_registers) && add_to(o, "count", 4); }},
    {"registers-other-way", {opcode::set_registers}, [](ir::kernel&, op& o) {
       if (!o.is(opcode::set_registers)) return false;
       o.set("increase", std::int64_t{1} - o.integer("increase"));
       return true;
     }},
    {"columns-less", {opcode::tmem_alloc}, [](ir::kernel&, op& o) {
       if (!o.is(opcode::tmem_alloc) || o.integer("columns") <= 32) return false;
       o.set("columns", o.integer("columns") / 2);
       return true;
     }},
};

std::string role_of(const op& o) {
  for (const op* at = &o; at; at = at->parent ? at->parent->parent : nullptr)
    if (at->has("role")) return at->text("role");
  return "cta";
}

std::string ring_of(const ir::kernel& k, const op& o) {
  if (o.is(opcode::shared_base)) {
    const ir::place* p = place_of(k, o);
    return p ? p->ring : "";
  }
  if (o.is(opcode::var_set)) {
    const std::string& name = o.operands[0]->name;
    const size_t at = name.rfind('_');
    return at == std::string::npos ? "" : name.substr(0, at);
  }
  const bool by_barrier = o.is(opcode::tma_load);
  if (o.operands.empty()) return "";
  const ir::place* p = place_of(k, by_barrier ? o.operands[1] : o.operands[0]);
  return p ? p->ring : "";
}

std::string describe(const ir::kernel& k, const op& o) {
  std::string text = cat(ir::row(o.code).text, " in ", role_of(o));
  if (o.is(opcode::shared_base)) {
    const ir::place* p = place_of(k, o);
    return cat(text, p ? cat(", ", p->ring, " ", p->part) : std::string(", staging"));
  }
  if (o.is(opcode::var_set)) return cat(text, ", ", o.operands[0]->name);
  if (o.is(opcode::tmem_fence)) text += o.integer("before") ? " before" : " after";
  if (o.is(opcode::tma_wait) || o.is(opcode::wgmma_wait)) text += cat(" ", o.integer("pending"), o.is(opcode::wgmma_wait) && !o.operands.empty() ? " of an accumulator" : "");
  if (o.is(opcode::for_loop)) return cat(text, holds(*o.regions[0]->ops.front()->parent->parent, opcode::for_loop) && o.integer("tiles") ? ", tiles" : ", inner");
  const ir::place* p = o.operands.empty() ? nullptr : place_of(k, o.is(opcode::tma_load) ? o.operands[1] : o.operands[0]);
  if (p) text += cat(", ", p->ring, " ", p->part);
  return text;
}

std::vector<std::string> lines_of(const ir::kernel& k, const op& o) {
  std::set<std::string> all;
  const auto add = [&](const op& one) {
    if (one.where.known()) all.insert(to_string(one.where));
  };
  add(o);
  if (o.is(opcode::for_loop)) ir::walk(*o.regions[0], add);
  if (o.is(opcode::wgmma_wait))
    ir::walk(k.body, [&](const op& one) {
      if (one.is(opcode::wgmma_mma) && role_of(one) == role_of(o)) add(one);
    });
  return {all.begin(), all.end()};
}

std::vector<op*> all_ops(ir::kernel& k) {
  std::vector<op*> found;
  ir::walk(k.body, [&](op& o) { found.push_back(&o); });
  return found;
}

}  // namespace

void for_each_mutant(const ir::kernel& lowered, int share, int shares, const std::function<void(mutant&)>& each) {
  const auto original = ir::clone(lowered);
  const std::vector<op*> ops = all_ops(*original);
  int made = 0;
  for (const operator_row& row : rows) {
    std::map<std::string, int> seen;
    for (size_t i = 0; i < ops.size(); ++i) {
      const op& o = *ops[i];
      if (std::find(row.on.begin(), row.on.end(), o.code) == row.on.end()) continue;
      mutant m;
      m.original = original.get();
      m.at = &o;
      m.name = row.name;
      m.ring = ring_of(*original, o);
      m.role = role_of(o);
      m.lines = lines_of(*original, o);
      m.kernel = ir::clone(*original);
      op& target = *all_ops(*m.kernel)[i];
      if (!row.apply(*m.kernel, target)) continue;
      const std::string what = describe(*original, o);
      m.site = cat(what, " #", seen[what]++);
      if (made++ % shares == share) each(m);
    }
  }
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const operator_row& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace tlx::mutation
