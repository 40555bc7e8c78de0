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

// What the roles ask for must fit: one value for each packed warpgroup, multiples of 8 from 24 to 256 (PTX ISA, setmaxnreg).
void check_budgets(const ir::kernel& k, const std::vector<const agent*>& packed, const std::vector<const agent*>& whole, int available) {
  int asked = 0;
  std::vector<std::string> list;
  auto count = [&](const agent& a, int groups) {
    const int registers = static_cast<int>(a.role->integer("registers"));
    if (registers && (registers < 24 || registers > 256 || registers % 8 != 0))
      raise(user_error({.id = "register-budget-invalid", .what = cat("role \"", a.name, "\" asks for ", registers, " registers"), .where = a.role->where,
                        .because = "a budget is a multiple of 8 from 24 to 256", .fix = {cat("ask for ", std::clamp((registers + 7) / 8 * 8, 24, 256))},
                        .context = cat("kernel \"", k.name, "\"")}));
    if (registers) list.push_back(cat("\"", a.name, "\": ", groups, " warpgroups x ", registers));
    return (registers ? registers : 24) * groups;
  };
  for (size_t i = 0; i < packed.size(); i += 4) {
    int group = 24;
    for (size_t j = i; j < std::min(packed.size(), i + 4); ++j) group = std::max(group, count(*packed[j], 1));
    asked += group;
  }
  for (const agent* a : whole) asked += count(*a, (a->warps + 3) / 4);
  if (!list.empty() && asked > available)
    raise(user_error({.id = "register-budget-exceeded",
                      .what = cat("the roles ask for ", asked * 128, " registers, a CTA has ", available * 128, " (", join(list, ", "), ")"), .where = k.where,
                      .because = "65,536 registers of an SM are divided among all warpgroups of its CTAs; a single-warp role takes a whole warpgroup's share",
                      .fix = {"lower a budget, use fewer warps, or leave the budgets to the compiler"}, .context = cat("kernel \"", k.name, "\"")}));
}

}  // namespace

void split_roles(ir::kernel& k) {
  const std::vector<agent> all = agents(k);
  if (!all.front().role) {
    if (k.warps < 1)
      raise(user_error({.id = "warps-missing", .what = cat("kernel \"", k.name, "\" has neither roles nor a number of warps"), .where = k.where,
                        .because = "somebody has to run it", .fix = {"call cta.warps(4_warps) in its body, or give it roles"}}));
    place_warp_index(k, k.body, 0);
    return;
  }

  std::vector<const agent*> packed, whole;
  for (const agent& a : all) (a.warps == 1 ? packed : whole).push_back(&a);
  const int packed_groups = (static_cast<int>(packed.size()) + 3) / 4;
  int groups = packed_groups;
  for (const agent* a : whole) groups += (a->warps + 3) / 4;
  k.warps = groups * 4;
  const tile::limits limit = *tile::target_limits(k.target);
  if (k.warps * 32 > limit.threads_per_cta)
    raise(user_error({.id = "too-many-warps", .what = cat("the roles need ", k.warps, " warps (", k.warps * 32, " threads), a CTA may have ", limit.threads_per_cta, " threads"), .where = k.where,
                      .because = "roles of several warps start at whole warpgroups", .fix = {"give the roles fewer warps"}, .context = cat("kernel \"", k.name, "\"")}));

  const int entry = std::min(255, limit.registers_per_sm / (k.warps * 32 * k.blocks_per_processor)) / 8 * 8;
  const int whole_groups = groups - packed_groups;
  constexpr int packed_registers = 40, enough = 240;
  bool asked_for = false;
  for (const agent& a : all) asked_for = asked_for || a.role->integer("registers") > 0;
  const bool move_registers = asked_for || (packed_groups > 0 && whole_groups > 0 && entry < enough && entry > packed_registers);
  const int whole_registers = move_registers ? std::min(enough, (entry * groups - packed_registers * packed_groups) / std::max(1, whole_groups) / 8 * 8) : entry;
  check_budgets(k, packed, whole, limit.registers_per_sm / (128 * k.blocks_per_processor));
  auto set_registers = [&](ir::builder& b, int count, bool increase) {
    if (move_registers) b.make(opcode::set_registers, {}, {}, {{"count", std::int64_t{count}}, {"increase", std::int64_t{increase}}});
  };

  ir::builder b = ir::builder::before(k, *all.front().role);
  b.locate(k.where);
  value warp = b.simple(opcode::warp_id, tile::element::s32);
  if (packed_groups > 0) {
    b.when(b.compare("lt", warp, b.integer(packed_groups * 4)), [&](ir::builder& g) {
      set_registers(g, packed_registers, false);
      for (size_t i = 0; i < packed.size(); ++i) {
        const agent& a = *packed[i];
        g.locate(a.role->where);
        ir::op& mine = g.when(g.compare("eq", warp, g.integer(static_cast<std::int64_t>(i))), [&](ir::builder& w) {
          if (a.single_lane) {
            w.when(w.simple(opcode::elect, tile::element::boolean), [&](ir::builder& e) { move_ops(*a.body, e.where()); });
            w.make(opcode::barrier_warp);
          } else {
            move_ops(*a.body, w.where());
          }
        });
        mine.set("role", a.name).set("first_warp", static_cast<std::int64_t>(i));
        place_warp_index(k, *mine.regions[0], static_cast<int>(i));
      }
    });
  }
  int first = packed_groups * 4;
  for (const agent* a : whole) {
    b.locate(a->role->where);
    value mine = b.compare("ge", warp, b.integer(first));
    if (first + (a->warps + 3) / 4 * 4 < k.warps || a->warps % 4) mine = b.binary(opcode::bit_and, mine, b.compare("lt", warp, b.integer(first + a->warps)));
    ir::op& branch = b.when(mine, [&](ir::builder& w) {
      const int asked = static_cast<int>(a->role->integer("registers"));
      const int count = asked ? asked : whole_registers;
      set_registers(w, count, count >= entry);
      move_ops(*a->body, w.where());
    });
    branch.set("role", a->name).set("first_warp", std::int64_t{first});
    place_warp_index(k, *branch.regions[0], first);
    first += (a->warps + 3) / 4 * 4;
  }
  for (const agent& a : all) ir::erase(*a.role);
}

}  // namespace tlx::pass
