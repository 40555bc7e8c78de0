// Order in memory: ring slots (aligned to whole swizzle atoms), staging of stores, conversions and operands, then barriers and the tensor memory address.
#include <algorithm>
#include <map>

#include "agents.hpp"
#include "passes.hpp"
#include "slots.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/convert.hpp"
#include "tlx/tile/limits.hpp"

namespace tlx::pass {

namespace {

class planner {
 public:
  std::int64_t take(std::int64_t bytes, std::int64_t alignment, const std::string& what) {
    at_ = (at_ + alignment - 1) / alignment * alignment;
    const std::int64_t offset = at_;
    at_ += bytes;
    if (!what.empty()) list_.push_back(cat(what, ": ", bytes));
    return offset;
  }
  std::int64_t used() const { return at_; }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::int64_t at_ = 0;
  std::vector<std::string> list_;
};

void place_ring(ir::op& ring, planner& plan) {
  const ir::type& t = ring.result()->type;
  std::vector<std::int64_t> parts;
  std::int64_t stage = 0;
  for (const ir::type& part : t.parts) {
    parts.push_back(stage);
    if (part.is(ir::type::kind::shared)) stage += (shared_tile_of(part).size_bytes() + 1023) / 1024 * 1024;
  }
  ring.set("parts", parts);
  ring.set("stage_bytes", stage);
  if (stage) ring.set("offset", plan.take(stage * t.stages, 1024, cat("ring \"", ring.text("name"), "\", ", t.stages, " stages")));
}

// A slot that nobody reads any more when `store` stages its result: filled once, read by products only, and what they made has been read before.
const ir::op* find_dead_slot(ir::kernel& k, const agent& who, const ir::op& store, std::int64_t bytes) {
  if (who.role) return nullptr;
  std::map<const ir::op*, int> place;
  ir::walk(k.body, [&](const ir::op& o) { place.emplace(&o, static_cast<int>(place.size())); });
  const auto seen_complete = [&](const ir::op& product) {
    for (ir::op* read : users(k, product.operands[0]))
      if (read->is(ir::opcode::acc_read) && place.at(read) < place.at(&store) && inside(store, *read->parent)) return true;
    return false;
  };
  for (ir::op* ring : find_all(k.body, ir::opcode::ring_make)) {
    if (!is_single_shot(k, *ring) || ring->integer("stage_bytes") < bytes) continue;
    bool dead = true;
    for (ir::op* opened : users(k, ring->result())) {
      if (!opened->is(ir::opcode::ring_drain)) continue;
      for (const auto& part : opened->results)
        for (ir::op* user : users(k, part.get()))
          if (!user->is(ir::opcode::ring_close)) dead = dead && user->is(ir::opcode::mma) && seen_complete(*user);
    }
    if (dead) return ring;
  }
  return nullptr;
}

void place_stores(ir::kernel& k, const agent& who, planner& plan) {
  std::vector<ir::op*> stores;
  for (ir::op* store : find_all(*who.body, ir::opcode::tile_store))
    if (stored_through_shared(k, who, *store)) stores.push_back(store);
  if (stores.empty()) return;
  std::int64_t slab = 0;
  for (ir::op* store : stores) slab = std::max<std::int64_t>(slab, slab_tile_of(who, store->operands[0]->type).size_bytes());
  const std::int64_t buffers = stores.size() > 1 ? 2 : 1;
  const std::int64_t bytes = slab * buffers * who.warps;
  const ir::op* dead = find_dead_slot(k, who, *stores.front(), bytes);
  const std::int64_t offset = dead ? dead->integer("offset") : plan.take(bytes, 1024, cat("staging of stores of \"", who.name, "\""));
  if (dead) stores.front()->set("meet", std::int64_t{1});  // the slot is dead when every warp has seen its products complete
  for (size_t i = 0; i < stores.size(); ++i) {
    // a deferred store stands at several places, of which one runs: its place in the sequence counts
    const std::int64_t place = stores[i]->has("piece") ? stores[i]->integer("piece") : static_cast<std::int64_t>(i);
    const std::int64_t sequence = stores[i]->has("piece") ? stores[i]->integer("pieces") : static_cast<std::int64_t>(stores.size());
    const std::int64_t buffer = place % buffers;
    stores[i]->set("stage", offset + buffer * slab);
    stores[i]->set("stage_per_warp", slab * buffers);
    // the newest group may still be read from the other buffer; an odd number of stores meets its own buffer when the list starts again
    stores[i]->set("pending", std::int64_t{buffers == 2 && !(place == 0 && sequence % 2 == 1)});
  }
}

// Conversions between layouts that leave the thread: one area for all of an agent, which runs them one after the other.
void place_conversions(const agent& who, planner& plan) {
  std::int64_t bytes = 0;
  std::vector<ir::op*> placed;
  for (ir::op* o : find_all(*who.body, ir::opcode::convert)) {
    const ir::type& t = o->operands[0]->type;
    const tile::conversion_kind kind = tile::plan(*t.layout, *o->result()->type.layout, t.element).kind;
    if (kind == tile::conversion_kind::none || kind == tile::conversion_kind::registers) continue;
    const int size = std::max(8, tile::bits(t.element)) / 8;
    bytes = std::max<std::int64_t>(bytes, tile::shared_tile{t.element, t.rows, t.cols, tile::widest_swizzle(t.cols * size), false}.size_bytes());
    placed.push_back(o);
  }
  if (placed.empty()) return;
  const std::int64_t offset = plan.take(bytes, 1024, cat("layout conversions of \"", who.name, "\""));
  for (ir::op* o : placed)
    o->set("scratch", offset).set("id", who.role ? who.role->integer("barrier") : 0).set("threads", who.role ? std::int64_t{who.warps} * 32 : 0);
}

}  // namespace

void assign_shared_memory(ir::kernel& k) {
  planner plan;
  const std::vector<agent> all = agents(k);
  std::int64_t barrier = 1;  // named barrier 0 is the whole CTA's
  for (const agent& who : all)
    if (who.role && who.warps > 1) who.role->set("barrier", barrier++);
  for (ir::op* ring : find_all(k.body, ir::opcode::ring_make)) place_ring(*ring, plan);
  for (const agent& who : all) place_stores(k, who, plan);
  for (const agent& who : all) place_conversions(who, plan);
  for (ir::op* o : find_all(k.body, ir::opcode::mma))
    if (o->operands[1]->type.is_tile() && has_tensor_memory(k)) {
      const ir::type& a = o->operands[1]->type;
      o->set("scratch", plan.take(tile::make_shared_tile(a.element, a.rows, a.cols).size_bytes(), 1024, "staging of a register operand"));
      if (in_loop(*o)) o->set("scratch_free", plan.take(8, 8, ""));  // the next round must not overwrite what this round's product still reads
    }
  for (ir::op* ring : find_all(k.body, ir::opcode::ring_make)) {
    ring->set("full", plan.take(8 * ring->result()->type.stages, 8, ""));
    if (!is_single_shot(k, *ring)) ring->set("empty", plan.take(8 * ring->result()->type.stages, 8, ""));
  }
  if (has_tensor_memory(k)) {
    for (ir::op* acc : find_all(k.body, ir::opcode::acc_make)) acc->set("full", plan.take(8, 8, ""));
    if (!find_all(k.body, ir::opcode::mma).empty()) {
      const std::int64_t word = plan.take(8, 8, "");
      for (ir::op* o : find_all(k.body, ir::opcode::mma)) o->set("tensor_word", word);
    }
  }
  const tile::limits limit = *tile::target_limits(k.target);
  const std::string context = cat("kernel \"", k.name, "\"");
  if (plan.used() > limit.shared_bytes_per_cta)
    raise(user_error({.id = "shared-memory-exceeded",
                      .what = cat("the kernel needs ", plan.used(), " bytes of shared memory, a CTA has ", limit.shared_bytes_per_cta, " (", join(plan.list(), ", "), ")"),
                      .where = k.where, .because = cat(k.target, " offers 227 KB per CTA"), .fix = {"use fewer stages or smaller tiles"}, .context = context}));
  if (tile::ctas_by_shared_memory(limit, static_cast<int>(plan.used())) < k.blocks_per_processor)
    raise(user_error({.id = "occupancy-not-met",
                      .what = cat(k.blocks_per_processor, " CTAs per SM were asked for, ", plan.used(), " bytes of shared memory each allow ",
                                  tile::ctas_by_shared_memory(limit, static_cast<int>(plan.used())), " (", join(plan.list(), ", "), ")"),
                      .where = k.where, .because = "an SM has 228 KB, 1 KB of it reserved per CTA", .fix = {"ask for fewer CTAs per SM, or use smaller tiles"}, .context = context}));
  k.shared_bytes = static_cast<int>(plan.used());
}

}  // namespace tlx::pass
