// Order in memory: ring slots (aligned to whole swizzle atoms), staging of stores, conversions and operands, then barriers and the tensor memory address.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

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

void measure_ring(ir::op& ring) {
  const ir::type& t = ring.result()->type;
  std::vector<std::int64_t> parts;
  std::int64_t stage = 0;
  for (const ir::type& part : t.parts) {
    parts.push_back(stage);
    if (part.is(ir::type::kind::shared)) stage += (shared_tile_of(part).size_bytes() + 1023) / 1024 * 1024;
  }
  ring.set("parts", parts);
  ring.set("stage_bytes", stage);
}

// The slots of rings, and what takes a slot over when nobody reads it any more: other rings that threads fill, and the staging of stores.
class slot_areas {
 public:
  explicit slot_areas(ir::kernel& k) : k_(k) {
    ir::walk(k.body, [&](const ir::op& o) { place_.emplace(&o, static_cast<int>(place_.size())); });
  }

  void place(ir::op& ring, planner& plan) {
    measure_ring(ring);
    const std::int64_t stage = ring.integer("stage_bytes");
    if (!stage) return;
    const ir::op* fill = filled_by_threads_once(ring);
    if (area* dead = fill ? find_dead(*fill, stage) : nullptr) {
      ring.set("offset", take(*dead, stage, true));
      ring.set("meet", std::int64_t{1});  // the slot is dead when every warp has seen its products complete
      dead->rings.push_back(&ring);
      return;
    }
    const int stages = ring.result()->type.stages;
    ring.set("offset", plan.take(stage * stages, 1024, cat("ring \"", ring.text("name"), "\", ", stages, " stages")));
    areas_.push_back({ring.integer("offset"), stage * stages, 0, {&ring}});
  }

  /// Places of `bytes[i]` for `stores[i]`, each in a slot that is dead by then, no two of them in the same bytes; empty: there are not enough.
  struct place_of_store {
    std::int64_t offset;
    bool first;  // in its slot
  };
  std::vector<place_of_store> find_dead(const std::vector<ir::op*>& stores, const std::vector<std::int64_t>& bytes) {
    const std::vector<area> before = areas_;
    std::vector<place_of_store> found;
    for (size_t i = 0; i < stores.size(); ++i) {
      area* dead = in_loop(*stores[i]) || stores[i]->has("piece") ? nullptr : find_dead(*stores[i], bytes[i]);
      if (!dead) {
        areas_ = before;
        return {};
      }
      const bool first = !dead->staged;
      dead->staged = true;
      found.push_back({take(*dead, bytes[i]), first});
    }
    return found;
  }
  /// Where a product's register operand is staged: a slot that is dead by then; -1: there is none.
  std::int64_t find_dead_scratch(const ir::op& product, std::int64_t bytes) {
    area* dead = in_loop(product) ? nullptr : find_dead(product, bytes);
    return dead ? take(*dead, bytes) : -1;
  }
  /// The ring whose own memory is largest; null: none has any.
  const ir::op* largest() const {
    const area* most = nullptr;
    for (const area& a : areas_)
      if (!most || a.bytes > most->bytes) most = &a;
    return most ? most->rings.front() : nullptr;
  }
  /// One dead slot for all.
  const ir::op* find_dead_slot(const ir::op& at, std::int64_t bytes) {
    const area* dead = find_dead(at, bytes);
    return dead ? dead->rings.front() : nullptr;
  }

 private:
  struct area {
    std::int64_t offset, bytes, taken;  // taken: since all rings in it are dead
    std::vector<ir::op*> rings;         // one after another, each dead before the next is filled
    bool staged = false;
  };

  static std::int64_t take(area& a, std::int64_t bytes, bool by_ring = false) {
    const std::int64_t at = a.offset + a.taken;
    if (!by_ring) a.taken += (bytes + 1023) / 1024 * 1024;
    return at;
  }

  const ir::op* filled_by_threads_once(const ir::op& ring) {
    if (!is_single_shot(k_, ring)) return nullptr;
    for (ir::op* opened : users(k_, ring.result())) {
      if (!opened->is(ir::opcode::ring_fill)) continue;
      for (const auto& part : opened->results)
        for (ir::op* user : users(k_, part.get()))
          if (user->is(ir::opcode::tile_write)) return opened;
    }
    return nullptr;
  }

  area* find_dead(const ir::op& at, std::int64_t bytes) {
    if (enclosing(at, ir::opcode::role)) return nullptr;
    for (area& a : areas_) {
      bool dead = a.taken + bytes <= a.bytes;
      for (const ir::op* ring : a.rings) dead = dead && is_dead(*ring, at);
      if (dead) return &a;
    }
    return nullptr;
  }

  // Nobody reads the slot any more at `at`: filled once, read by threads before, or by products of which something has been read before.
  bool is_dead(const ir::op& ring, const ir::op& at) {
    if (!is_single_shot(k_, ring)) return false;
    for (ir::op* opened : users(k_, ring.result())) {
      if (!opened->is(ir::opcode::ring_drain)) continue;
      for (const auto& part : opened->results)
        for (ir::op* user : users(k_, part.get()))
          if (!user->is(ir::opcode::ring_close) && !(user->is(ir::opcode::mma) && seen_complete(*user, at)) && !(user->is(ir::opcode::tile_read) && comes_before(*user, at)))
            return false;
    }
    return true;
  }
  bool comes_before(const ir::op& read, const ir::op& at) { return !in_loop(read) && place_.at(&read) < place_.at(&at) && inside(at, *read.parent); }
  bool seen_complete(const ir::op& product, const ir::op& at) {
    if (in_loop(product)) return false;  // the next round reads again
    for (ir::op* read : users(k_, product.operands[0]))
      if (read->is(ir::opcode::acc_read) && place_.at(&product) < place_.at(read) && comes_before(*read, at)) return true;
    return false;
  }

  ir::kernel& k_;
  std::map<const ir::op*, int> place_;
  std::vector<area> areas_;
};

// Whether `one` went out by a bulk copy wherever `other` does: a warp whose rows are not all valid stores them itself, and has no copy in flight.
bool copied_with(const ir::op& one, const ir::op& other) {
  return !one.integer("jagged") || (other.integer("jagged") && one.operands.back() == other.operands.back());
}

void place_stores(ir::kernel& k, const agent& who, planner& plan, slot_areas& areas) {
  std::vector<ir::op*> stores;
  for (ir::op* store : find_all(*who.body, ir::opcode::tile_store))
    if (stored_through_shared(k, who, *store)) stores.push_back(store);
  if (stores.empty()) return;
  std::int64_t slab = 0;
  std::vector<std::int64_t> each;
  for (ir::op* store : stores) {
    each.push_back(slab_tile_of(who, store->operands[0]->type).size_bytes() * who.warps);
    slab = std::max<std::int64_t>(slab, each.back() / who.warps);
  }
  if (const auto places = areas.find_dead(stores, each); !places.empty()) {
    for (size_t i = 0; i < stores.size(); ++i) {
      stores[i]->set("stage", places[i].offset).set("stage_per_warp", each[i] / who.warps).set("pending", std::int64_t{-1});
      if (places[i].first) stores[i]->set("meet", std::int64_t{1});
    }
    return;
  }
  // A deferred store stands at several places, of which one runs: its place among the pieces that are staged counts. Others of them go out by threads.
  std::set<std::int64_t> pieces;
  for (const ir::op* store : stores)
    if (store->has("piece")) pieces.insert(store->integer("piece"));
  const std::int64_t buffers = (pieces.empty() ? stores.size() : pieces.size()) > 1 ? 2 : 1;
  const std::int64_t bytes = slab * buffers * who.warps;
  const ir::op* dead = areas.find_dead_slot(*stores.front(), bytes);
  const std::int64_t offset = dead ? dead->integer("offset") : plan.take(bytes, 1024, cat("staging of stores of \"", who.name, "\""));
  if (dead) stores.front()->set("meet", std::int64_t{1});
  // Two buffers in turns: a store need not wait for the one right before it. Which that is, is known where all stand in one list, or the one before stands in the same.
  const bool one_list = std::all_of(stores.begin(), stores.end(), [&](const ir::op* s) { return s->has("piece") || s->parent == stores.front()->parent; });
  bool alike = true;
  for (const ir::op* s : stores) alike = alike && copied_with(*stores.back(), *s);
  for (size_t i = 0; i < stores.size(); ++i) {
    const bool deferred = stores[i]->has("piece");
    const std::int64_t place = deferred ? std::distance(pieces.begin(), pieces.find(stores[i]->integer("piece"))) : static_cast<std::int64_t>(i);
    const auto sequence = static_cast<std::int64_t>(deferred ? pieces.size() : stores.size());
    const std::int64_t buffer = place % buffers;
    stores[i]->set("stage", offset + buffer * slab);
    stores[i]->set("stage_per_warp", slab * buffers);
    // the newest group may still be read from the other buffer; an odd number of stores meets its own buffer when the list starts again
    const bool other_before = deferred ? !(place == 0 && sequence % 2 == 1)
                              : i == 0 ? one_list && sequence % 2 == 0 && alike
                                       : stores[i - 1]->parent == stores[i]->parent && copied_with(*stores[i - 1], *stores[i]);
    stores[i]->set("pending", std::int64_t{buffers == 2 && other_before});
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

// The largest ring is what the author can change: the message stands at it and says how many of its stages would fit.
[[noreturn]] void too_much(const ir::kernel& k, const planner& plan, const ir::op* ring, std::int64_t limit) {
  diagnostic d{.id = "shared-memory-exceeded", .what = cat("the kernel needs ", plan.used(), " bytes of shared memory, a CTA has ", limit, " (", join(plan.list(), ", "), ")"),
               .where = ring ? ring->where : k.where, .because = cat(k.target, " offers 227 KB per CTA"), .fix = {"use smaller tiles"}, .context = cat("kernel \"", k.name, "\"")};
  if (ring) {
    const std::int64_t stages = ring->result()->type.stages, stage = ring->integer("stage_bytes") + (ring->has("empty") ? 16 : 8);  // with its barriers
    const std::int64_t fit = stages - (plan.used() - limit + stage - 1) / stage;
    if (fit >= 1) d.fix.insert(d.fix.begin(), cat("at most ", fit, fit == 1 ? " stage" : " stages", " of ring \"", ring->text("name"), "\" fit, of ", ring->integer("stage_bytes"), " bytes each"));
  }
  raise(user_error(std::move(d)));
}

}  // namespace

void assign_shared_memory(ir::kernel& k) {
  planner plan;
  const std::vector<agent> all = agents(k);
  std::int64_t barrier = 1;  // named barrier 0 is the whole CTA's
  for (const agent& who : all)
    if (who.role && who.warps > 1) who.role->set("barrier", barrier++);
  slot_areas areas(k);
  for (ir::op* ring : find_all(k.body, ir::opcode::ring_make)) areas.place(*ring, plan);
  for (const agent& who : all) place_stores(k, who, plan, areas);
  for (const agent& who : all) place_conversions(who, plan);
  for (ir::op* o : find_all(k.body, ir::opcode::mma))
    if (o->operands[1]->type.is_tile() && has_tensor_memory(k)) {
      const ir::type& a = o->operands[1]->type;
      const std::int64_t bytes = tile::make_shared_tile(a.element, a.rows, a.cols).size_bytes(), dead = areas.find_dead_scratch(*o, bytes);
      o->set("scratch", dead >= 0 ? dead : plan.take(bytes, 1024, "staging of a register operand"));
      if (dead >= 0) o->set("meet", std::int64_t{1});
      if (in_loop(*o)) o->set("scratch_free", plan.take(8, 8, ""));  // the next round must not overwrite what this round's product still reads
    }
  for (ir::op* ring : find_all(k.body, ir::opcode::ring_make)) {
    ring->set("full", plan.take(8 * ring->result()->type.stages, 8, ""));
    if (!is_single_shot(k, *ring)) ring->set("empty", plan.take(8 * ring->result()->type.stages, 8, ""));
    if (ring->has("turns")) ring->set("turn", plan.take(8 * ring->integer("turns"), 8, ""));
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
  if (plan.used() > limit.shared_bytes_per_cta) too_much(k, plan, areas.largest(), limit.shared_bytes_per_cta);
  if (tile::ctas_by_shared_memory(limit, static_cast<int>(plan.used())) < k.blocks_per_processor)
    raise(user_error({.id = "occupancy-not-met",
                      .what = cat(k.blocks_per_processor, " CTAs per SM were asked for, ", plan.used(), " bytes of shared memory each allow ",
                                  tile::ctas_by_shared_memory(limit, static_cast<int>(plan.used())), " (", join(plan.list(), ", "), ")"),
                      .where = k.where, .because = "an SM has 228 KB, 1 KB of it reserved per CTA", .fix = {"ask for fewer CTAs per SM, or use smaller tiles"}, .context = context}));
  k.shared_bytes = static_cast<int>(plan.used());
}

}  // namespace tlx::pass
