// Who runs the kernel: the first thing that later passes take for granted, since they divide by numbers of warps.
#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/limits.hpp"

namespace tlx::pass {

namespace {

bool belongs_to_a_role(const ir::op& o) {
  auto spread = [](const ir::type& t) { return t.is_tile() || t.is(ir::type::kind::shared) || t.is(ir::type::kind::acc); };
  for (ir::value v : o.operands)
    if (spread(v->type)) return true;
  for (const auto& r : o.results)
    if (spread(r->type)) return true;
  return o.is(ir::opcode::ring_fill) || o.is(ir::opcode::ring_drain) || o.is(ir::opcode::ring_close);
}

void check_outside(const ir::kernel& k, const ir::region& r) {
  for (const auto& o : r.ops) {
    if (o->is(ir::opcode::role)) continue;
    if (belongs_to_a_role(*o))
      raise(user_error({.id = "tile-outside-roles", .what = cat("\"", ir::row(o->code).text, "\" stands outside of the roles of the kernel"), .where = o->where,
                        .because = "a kernel with roles has no other warps: tiles and slots belong to a role", .fix = {"move it into the role that needs it"},
                        .context = cat("kernel \"", k.name, "\"")}));
    for (const auto& inner : o->regions) check_outside(k, *inner);
  }
}

// Before layouts and accumulators are made for a chip that cannot run it anyway.
void check_scaled_products(ir::kernel& k) {
  if (has_tensor_memory(k)) return;
  for (const ir::op* o : find_all(k.body, ir::opcode::mma))
    if (o->has("block"))
      raise(user_error({.id = "scaled-product-missing", .what = cat("a block-scaled product for ", k.target), .where = o->where, .because = "wgmma has no block scales; they came with tcgen05",
                        .fix = {"compile for sm_100a or sm_103a", "leave the scales of blocks out"}, .context = cat("kernel \"", k.name, "\"")}));
}

}  // namespace

void check_roles(ir::kernel& k) {
  check_scaled_products(k);
  const std::string context = cat("kernel \"", k.name, "\"");
  const int most = tile::target_limits(k.target)->threads_per_cta / 32;
  if (k.blocks_per_processor < 1)
    raise(user_error({.id = "occupancy-not-met", .what = cat(k.blocks_per_processor, " CTAs per SM were asked for"), .where = k.where,
                      .because = "a kernel runs in at least one CTA", .fix = {"ask for 1 or more, or leave it out"}, .context = context}));
  const std::vector<ir::op*> roles = find_all(k.body, ir::opcode::role);
  if (roles.empty()) {
    if (k.warps < 1)
      raise(user_error({.id = "warps-missing", .what = cat("kernel \"", k.name, "\" has neither roles nor a number of warps"), .where = k.where,
                        .because = "somebody has to run it", .fix = {"call cta.warps(4_warps) in its body, or give it roles"}}));
    if (k.warps > most)
      raise(user_error({.id = "too-many-warps", .what = cat("the kernel has ", k.warps, " warps, a CTA may have ", most), .where = k.where,
                        .because = "a CTA has at most 1024 threads", .fix = {"use fewer warps"}, .context = context}));
    return;
  }
  for (const ir::op* role : roles) {
    const std::int64_t warps = role->integer("warps");
    if (warps < 1 || warps > most)
      raise(user_error({.id = warps < 1 ? "warps-missing" : "too-many-warps", .what = cat("role \"", role->text("name"), "\" has ", warps, " warps"), .where = role->where,
                        .because = cat("a role has 1 to ", most, " warps"), .fix = {"give it 1_warp, 4_warps or another whole number"}, .context = context}));
    if (role->parent != &k.body)
      raise(user_error({.id = "role-nested", .what = cat("role \"", role->text("name"), "\" stands inside a loop, a branch or another role"), .where = role->where,
                        .because = "roles divide the warps of the whole CTA once", .fix = {"call roles() at the top of the kernel's body"}, .context = context}));
  }
  check_outside(k, k.body);
}

}  // namespace tlx::pass
