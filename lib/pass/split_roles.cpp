// Warps: roles of one warp are packed into the first warpgroups, the others start at whole warpgroups. Registers: where the entry allotment is below
// what a thread can have, packed warpgroups give theirs to the others (setmaxnreg is one value per warpgroup; PTX ISA, setmaxnreg).
#include <algorithm>

#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/limits.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

void place_warp_index(ir::kernel& k, ir::region& r, int first_warp) {
  for (ir::op* o : find_all(r, opcode::role_warp)) {
    ir::builder b = ir::builder::before(k, *o);
    value warp = b.simple(opcode::warp_id, tile::element::s32);
    if (first_warp) warp = b.sub(warp, b.integer(first_warp));
    ir::replace_uses(k.body, o->result(), warp);
    ir::erase(*o);
  }
}

void move_ops(ir::region& from, ir::region& to) {
  for (auto& o : from.ops) {
    o->parent = &to;
    to.ops.push_back(std::move(o));
  }
  from.ops.clear();
}

// Registers a thread of each warpgroup, in the order packed warpgroups, then those of the other roles; 0: nobody moves any.
struct budget {
  std::vector<int> packed, whole;
  bool moves = false;
};

constexpr int packed_registers = 40, fewest = 24, enough = 240;  // setmaxnreg takes multiples of 8 from 24 to 256 (PTX ISA)

int asked_by(const ir::kernel& k, const agent& a) {
  const int registers = static_cast<int>(a.role->integer("registers"));
  if (registers && (registers < fewest || registers > 256 || registers % 8 != 0))
    raise(user_error({.id = "register-budget-invalid", .what = cat("role \"", a.name, "\" asks for ", registers, " registers"), .where = a.role->where,
                      .because = "a budget is a multiple of 8 from 24 to 256", .fix = {cat("ask for ", std::clamp((registers + 7) / 8 * 8, 24, 256))},
                      .context = cat("kernel \"", k.name, "\"")}));
  return registers;
}

// What is handed out is what the CTA got at its start: `entry` registers for every thread. More than that would wait for ever.
budget divide(const ir::kernel& k, const std::vector<const agent*>& packed, const std::vector<const agent*>& whole, int entry, int groups) {
  budget b;
  const int pool = entry * groups;
  int fixed = 0, free_packed = 0, free_whole = 0;
  std::vector<std::string> list;
  for (size_t i = 0; i < packed.size(); i += 4) {
    int asked = 0;
    for (size_t j = i; j < std::min(packed.size(), i + 4); ++j) {
      const int mine = asked_by(k, *packed[j]);
      if (mine) list.push_back(cat("\"", packed[j]->name, "\": 1 warpgroup x ", mine));
      asked = std::max(asked, mine);
    }
    b.packed.push_back(asked);
    (asked ? fixed : free_packed) += asked ? asked : 1;
  }
  for (const agent* a : whole) {
    const int asked = asked_by(k, *a), mine = (a->warps + 3) / 4;
    if (asked) list.push_back(cat("\"", a->name, "\": ", mine, " warpgroups x ", asked));
    b.whole.push_back(asked);
    (asked ? fixed : free_whole) += asked ? asked * mine : mine;
  }
  const bool asked_for = fixed > 0;
  if (asked_for && fixed + fewest * (free_packed + free_whole) > pool)
    raise(user_error({.id = "register-budget-exceeded",
                      .what = cat("the roles ask for ", (fixed + fewest * (free_packed + free_whole)) * 128, " registers, a CTA has ", pool * 128, " (", join(list, ", "), ")"), .where = k.where,
                      .because = cat("the 65,536 registers of an SM are divided among all warpgroups of its CTAs, ", entry, " a thread here; a single-warp role takes a whole warpgroup's share"),
                      .fix = {"lower a budget, use fewer warps, or leave the budgets to the compiler"}, .context = cat("kernel \"", k.name, "\"")}));
  b.moves = asked_for || (!packed.empty() && !whole.empty() && entry < enough && entry > packed_registers);
  if (!b.moves) return b;
  const int small = std::min(entry, fixed + packed_registers * free_packed + fewest * free_whole <= pool ? packed_registers : fewest);
  for (int& p : b.packed)
    if (!p) p = small;
  const int share = std::min(enough, (pool - fixed - small * free_packed) / std::max(1, free_whole) / 8 * 8);
  for (int& w : b.whole)
    if (!w) w = share;
  return b;
}

void check_threads(const ir::kernel& k, const tile::limits& limit) {
  const int fit = tile::ctas_by_threads(limit, k.warps * 32);
  if (fit < k.blocks_per_processor)
    raise(user_error({.id = "occupancy-not-met", .what = cat(k.blocks_per_processor, " CTAs per SM were asked for, ", k.warps * 32, " threads each allow ", fit), .where = k.where,
                      .because = cat("an SM holds ", limit.threads_per_sm, " threads"), .fix = {"ask for fewer CTAs per SM, or use fewer warps"}, .context = cat("kernel \"", k.name, "\"")}));
}

}  // namespace

void split_roles(ir::kernel& k) {
  const std::vector<agent> all = agents(k);
  const tile::limits limit = *tile::target_limits(k.target);
  if (!all.front().role) {
    check_threads(k, limit);
    place_warp_index(k, k.body, 0);
    return;
  }

  std::vector<const agent*> packed, whole;
  for (const agent& a : all) (a.warps == 1 ? packed : whole).push_back(&a);
  const int packed_groups = (static_cast<int>(packed.size()) + 3) / 4;
  int groups = packed_groups;
  for (const agent* a : whole) groups += (a->warps + 3) / 4;
  k.warps = groups * 4;
  if (k.warps * 32 > limit.threads_per_cta)
    raise(user_error({.id = "too-many-warps", .what = cat("the roles need ", k.warps, " warps (", k.warps * 32, " threads), a CTA may have ", limit.threads_per_cta, " threads"), .where = k.where,
                      .because = "roles of several warps start at whole warpgroups", .fix = {"give the roles fewer warps"}, .context = cat("kernel \"", k.name, "\"")}));

  check_threads(k, limit);
  const int entry = std::min(255, limit.registers_per_sm / (k.warps * 32 * k.blocks_per_processor)) / 8 * 8;
  const budget registers = divide(k, packed, whole, entry, groups);
  auto set_registers = [&](ir::builder& b, int count) {
    if (registers.moves && count != entry) b.make(opcode::set_registers, {}, {}, {{"count", std::int64_t{count}}, {"increase", std::int64_t{count > entry}}});
  };

  ir::builder b = ir::builder::before(k, *all.front().role);
  b.locate(k.where);
  value warp = b.simple(opcode::warp_id, tile::element::s32);
  for (int group = 0; group < packed_groups; ++group) {
    auto body = [&](ir::builder& g) {
      set_registers(g, registers.packed[static_cast<size_t>(group)]);
      for (size_t i = static_cast<size_t>(group) * 4; i < std::min(packed.size(), static_cast<size_t>(group) * 4 + 4); ++i) {
        const agent& a = *packed[i];
        g.locate(a.role->where);
        value here = g.compare("eq", warp, g.integer(static_cast<std::int64_t>(i)));
        if (a.role->has("leads")) here = g.binary(opcode::bit_and, here, g.compare("eq", g.simple(opcode::cluster_rank, tile::element::s32), g.integer(0)));  // one CTA of a pair
        ir::op& mine = g.when(here, [&](ir::builder& w) {
          if (a.single_lane) {
            w.when(w.simple(opcode::elect, tile::element::boolean), [&](ir::builder& e) { move_ops(*a.body, e.where()); });
            w.make(opcode::barrier_warp);
          } else {
            move_ops(*a.body, w.where());
          }
        });
        mine.set("role", a.name).set("first_warp", static_cast<std::int64_t>(i)).set("warps", std::int64_t{1});
        place_warp_index(k, *mine.regions[0], static_cast<int>(i));
      }
    };
    value here = b.compare("lt", warp, b.integer(group * 4 + 4));
    if (group > 0) here = b.binary(opcode::bit_and, here, b.compare("ge", warp, b.integer(group * 4)));
    b.when(here, body);
  }
  int first = packed_groups * 4;
  for (size_t i = 0; i < whole.size(); ++i) {
    const agent& a = *whole[i];
    const int slots = (a.warps + 3) / 4 * 4;
    b.locate(a.role->where);
    value mine = b.compare("ge", warp, b.integer(first));
    if (first + slots < k.warps) mine = b.binary(opcode::bit_and, mine, b.compare("lt", warp, b.integer(first + slots)));
    ir::op& branch = b.when(mine, [&](ir::builder& w) {
      set_registers(w, registers.whole[i]);  // all four warps of a warpgroup, those without work too
      auto run = [&](ir::builder& r) { move_ops(*a.body, r.where()); };
      if (slots == a.warps) run(w);
      else w.when(w.compare("lt", warp, w.integer(first + a.warps)), run);
    });
    branch.set("role", a.name).set("first_warp", std::int64_t{first}).set("warps", std::int64_t{a.warps});
    place_warp_index(k, *branch.regions[0], first);
    first += slots;
  }
  for (const agent& a : all) ir::erase(*a.role);
}

}  // namespace tlx::pass
