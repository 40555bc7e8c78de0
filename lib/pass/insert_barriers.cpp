// Gives every ring its mbarriers. Input: whole rings in roles; output: mbarrier ops, phases in cells, slot addresses, and no ring op.
//
//   full[s]   counts 1 (the expect of a TMA fill, or the commit of an MMA fill), or 1 per warp that fills with ordinary stores
//   empty[s]  counts what the draining roles do when they let go: 1 commit for a tcgen05 reader, 1 arrival per warp for any other (a role may be both)
//
// A pair of CTAs that multiplies together (halve-operands) has them so:
//
//   operands  full[s] of the leader counts 1, its expect of the bytes of both CTAs, whose copies signal there; empty[s] of each CTA counts 1, the commit that reaches both
//   sums      full[s] of each CTA counts 1, the commit that reaches both; empty[s] of the leader counts the warps of both that read their rows
//
//   turn[r]   roles that drain a ring in turns (take-turns): counts 1 per warp of the role before r, which arrives when it has got through with a tile's slots. Without it
//             the next role could take a slot two phases early for its own: a wait knows only a phase's parity
//
// wgmma reads its operands after it was issued: the slot is let go one round later, at a read that has waited for what came after it or when only the newest groups may be in flight, and the last
// one after the loop (with one stage: at once). A fresh barrier lets the filler through at parity 1 and blocks the drainer at parity 0 (PTX ISA, mbarrier phases).
#include <algorithm>
#include <map>
#include <set>

#include "agents.hpp"
#include "passes.hpp"
#include "slots.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

constexpr auto s32 = tile::element::s32;
constexpr auto u32 = tile::element::u32;

value shared_base(ir::builder& b, std::int64_t offset) { return b.simple(opcode::shared_base, u32, {{"offset", offset}}); }

class inserter {
 public:
  explicit inserter(ir::kernel& k) : k_(k), all_(agents(k)), ctas_(k.cluster[0] * k.cluster[1] * k.cluster[2]) {
    for (ir::op* product : find_all(k.body, opcode::mma)) group_ = std::max(group_, product->integer("ctas", 1));
  }

  void run() {
    make_prologue();
    for (ir::op* ring : find_all(k_.body, opcode::ring_make)) {
      ring_ = ring;
      single_ = is_single_shot(k_, *ring);
      together_ = filled_for_cluster() ? ctas_ : 1;
      pair_ = multiplied_by_pair();
      lower_ring();
    }
    if (has_tensor_memory(k_))
      for (ir::op* acc : find_all(k_.body, opcode::acc_make)) lower_accumulator(*acc);
    for (ir::op* product : find_all(k_.body, opcode::mma))
      if (product->has("scratch_free")) guard_scratch(*product);
    for (ir::op* product : find_all(k_.body, opcode::mma))
      if (product->has("scale_column")) place_scales(*product);
    for (opcode done : {opcode::ring_close, opcode::ring_fill, opcode::ring_drain, opcode::ring_make})
      for (ir::op* o : find_all(k_.body, done)) ir::erase(*o);
    make_epilogue();
  }

 private:
  // --- set-up and tear-down

  void make_prologue() {
    std::int64_t columns = 0, word = 0;
    for (ir::op* o : find_all(k_.body, opcode::ring_make))
      if (o->has("tensor_column")) columns = std::max(columns, o->integer("tensor_column") + acc_columns(o->result()->type) * o->result()->type.stages);
    for (ir::op* o : find_all(k_.body, opcode::acc_make))
      if (o->has("tensor_column")) columns = std::max(columns, o->integer("tensor_column") + o->result()->type.cols);
    for (ir::op* o : find_all(k_.body, opcode::mma)) word = o->integer("tensor_word");
    for (ir::op* o : find_all(k_.body, opcode::mma))
      if (o->has("scale_column")) columns = std::max(columns, o->integer("scale_column") + scale_columns_of(*o));
    if (columns > 0)
      for (columns_ = 32; columns_ < columns;) columns_ *= 2;

    ir::builder b = k_.body.ops.empty() ? ir::builder(k_, k_.body) : ir::builder::before(k_, *k_.body.ops.front());
    b.locate(k_.where);
    value first = b.compare("eq", b.simple(opcode::warp_id, s32), b.integer(0));
    const auto allocate = [&](ir::builder& w) {
      w.make(opcode::tmem_alloc, {shared_base(w, word)}, {}, {{"columns", columns_}, {"group", group_}});
      w.make(opcode::tmem_relinquish, {}, {}, {{"group", group_}});
    };
    const bool together = columns_ > 0 && group_ > 1;
    b.when(first, [&](ir::builder& w) {
      w.when(w.simple(opcode::elect, tile::element::boolean), [&](ir::builder& e) { inits_ = &e.where(); });
      if (columns_ > 0 && !together) allocate(w);
    });
    if (ctas_ > 1) b.make(opcode::cluster_sync, {}, {}, {{"relaxed", std::int64_t{1}}});  // fence.init has made the barriers known to the cluster
    if (together) b.when(first, allocate);  // a pair allocates together: both must be there
    b.make(opcode::barrier_cta, {}, {}, {{"id", std::int64_t{0}}, {"threads", std::int64_t{0}}});
    if (columns_ > 0) tensor_base_ = b.make(opcode::shared_load, {shared_base(b, word)}, {ir::type::scalar(u32)}).result();
    start_ = b.located().known() ? &k_.body.ops.back() : nullptr;
    prologue_end_ = 0;
    for (const auto& o : k_.body.ops) {
      ++prologue_end_;
      if (o->is(opcode::barrier_cta)) break;
    }
    if (columns_ > 0) prologue_end_ += 2;  // the word's address and its load
  }

  void init(std::int64_t offset, int stages, std::int64_t count, const std::string& name, const char* part) {
    ir::builder b(k_, *inits_);
    b.locate(ring_ ? ring_->where : k_.where);
    k_.places.push_back({name, part, offset, 8, stages, b.located()});
    for (int s = 0; s < stages; ++s) b.make(opcode::mbarrier_init, {shared_base(b, offset + 8 * s)}, {}, {{"count", count}});
  }

  void make_epilogue() {
    ir::builder i(k_, *inits_);
    i.make(opcode::fence_init);
    ir::builder b(k_, k_.body);
    b.locate(k_.where);
    const bool together = columns_ > 0 && group_ > 1;  // both CTAs of a pair have read their sums before either frees
    // Others reach into this CTA's shared memory until the last of them is done. Who fills has seen all that they do there (wait_until_free), so nothing is to be
    // ordered: a release would wait until this CTA's results are in memory, 0.7 us for each CTA at the end of a kernel.
    if (ctas_ > 1 && !together) b.make(opcode::cluster_sync, {}, {}, {{"relaxed", std::int64_t{1}}});
    if (columns_ == 0) return;
    b.make(opcode::tmem_fence, {}, {}, {{"before", std::int64_t{1}}});
    if (together) b.make(opcode::cluster_sync);
    else b.make(opcode::barrier_cta, {}, {}, {{"id", std::int64_t{0}}, {"threads", std::int64_t{0}}});
    b.make(opcode::tmem_fence);
    value first = b.compare("eq", b.simple(opcode::warp_id, s32), b.integer(0));
    b.when(first, [&](ir::builder& w) { w.make(opcode::tmem_free, {tensor_base_}, {}, {{"columns", columns_}, {"group", group_}}); });
  }

  static std::int64_t acc_columns(const ir::type& ring) {
    std::int64_t n = 0;
    for (const ir::type& part : ring.parts)
      if (part.is(ir::type::kind::acc)) n += part.cols;
    return n;
  }

  // The last operand of a scaled product: where its scales go in tensor memory.
  void place_scales(ir::op& product) {
    ir::builder b = ir::builder::before(k_, product);
    product.operands.push_back(b.add(tensor_base_, product.integer("scale_column")));
    const auto known = [&](const auto& p) { return p.ring == "scales" && p.offset == product.integer("scale_column"); };
    if (std::none_of(k_.places.begin(), k_.places.end(), known)) k_.places.push_back({"scales", "columns", product.integer("scale_column"), scale_columns_of(product), 1, product.where});
  }

  // A builder where an agent starts: cells of its phases live there.
  ir::builder start_of(const agent& who) {
    if (who.role) return who.body->ops.empty() ? ir::builder(k_, *who.body) : ir::builder::before(k_, *who.body->ops.front());
    ir::op& first = *k_.body.ops[static_cast<size_t>(prologue_end_)];
    return ir::builder::before(k_, first);
  }

  // --- one ring

  struct side {
    value stage = nullptr, parity = nullptr;              // cells
    value held = nullptr, holds = nullptr;                // wgmma readers: the stage not yet let go, and whether there is one
    value slots = nullptr;                                // of one tile, for roles in turns
  };

  // Slots that `who` drains in one tile: trips of the loops around each drain, which depend on the kernel's arguments only.
  value slots_of_a_tile(ir::builder& b, const agent& who) {
    value all = b.integer(0);
    for (ir::op* drain : users(k_, ring_->result())) {
      if (!drain->is(opcode::ring_drain) || &agent_of(all_, *drain) != &who) continue;
      value trips = b.integer(1);
      for (const ir::region* r = drain->parent; !r->parent->integer("tiles"); r = r->parent->parent) {
        const ir::op& loop = *r->parent;
        const bool plain = loop.is(opcode::for_loop) && is_constant(loop.operands[0], 0) && is_constant(loop.operands[2], 1);
        const value high = plain ? recompute(b, loop.operands[1]) : nullptr;
        if (!high) cannot_count(*drain);
        trips = b.mul(trips, b.binary(opcode::max, high, b.integer(0)));
      }
      all = b.add(all, trips);
    }
    return all;
  }
  static bool is_constant(value v, std::int64_t n) { return v->owner && v->owner->is(opcode::constant) && v->owner->integer("value") == n; }
  static value recompute(ir::builder& b, value v) {
    if (!v->owner) return v->scope && !v->scope->parent ? v : nullptr;
    if (ir::row(v->owner->code).effects != ir::effect::pure) return nullptr;
    std::vector<value> operands;
    for (value input : v->owner->operands) {
      const value copy = recompute(b, input);
      if (!copy) return nullptr;
      operands.push_back(copy);
    }
    return b.make(v->owner->code, operands, {v->type}, v->owner->attributes).result();
  }
  [[noreturn]] void cannot_count(const ir::op& drain) {
    raise(user_error({.id = "role-turns", .what = cat("ring \"", ring_->text("name"), "\" is drained in a branch, or in a loop whose rounds depend on the tile, by a role in turns"), .where = drain.where,
                      .because = "a role skips the slots of the other's tile, and must know how many there are", .fix = {"let the loop run from 0 to what follows from the kernel's arguments", "leave in_turns() out"},
                      .context = cat("kernel \"", k_.name, "\"")}));
  }
  void skip(ir::builder& b, const side& s, value slots) {
    const std::int64_t stages = ring_->result()->type.stages;
    const value at = s.stage ? b.add(b.get(s.stage), slots) : slots, laps = s.stage ? b.div(at, b.integer(stages)) : slots;
    if (s.stage) b.make(opcode::var_set, {s.stage, b.sub(at, b.mul(laps, stages))}, {}, {{"uniform", std::int64_t{1}}});
    b.set(s.parity, b.binary(opcode::bit_xor, b.get(s.parity), b.binary(opcode::bit_and, laps, b.integer(1))));
  }

  // The op of the tile loop's body in which `o` stands.
  static ir::op& in_tile(ir::op& o) {
    ir::op* at = &o;
    while (!at->parent->parent->integer("tiles")) at = at->parent->parent;
    return *at;
  }

  // All of a tile that drains the ring: from the first op of the tile's body to the last.
  std::pair<ir::op*, ir::op*> drains_of_a_tile(const agent& who) {
    ir::op *first = nullptr, *last = nullptr;
    ir::region& tile = *who.body->ops.back()->regions[0];
    std::set<ir::op*> around;
    for (ir::op* drain : users(k_, ring_->result()))
      if (drain->is(opcode::ring_drain) && &agent_of(all_, *drain) == &who) around.insert(&in_tile(*drain));
    for (ir::op* drain : users(k_, ring_->result()))  // a slot that is opened and closed at the top of the tile
      if (drain->is(opcode::ring_drain) && &agent_of(all_, *drain) == &who) around.insert(&in_tile(close_of(*drain)));
    for (const auto& o : tile.ops)
      if (around.count(o.get())) {
        if (!first) first = o.get();
        last = o.get();
      }
    return {first, last};
  }
  // Before it, over the slots of the tiles of this round that are others'.
  void wait_for_turn(const agent& who, const side& s) {
    const std::int64_t turn = who.role->integer("turn");
    ir::op* first = drains_of_a_tile(who).first;
    ir::builder start = start_of(who);
    start.locate(ring_->where);
    const value parity = start.var(ir::type::scalar(s32), start.integer(turn == 0 ? 1 : 0), ring_->text("name") + "_turn");  // the first turn waits for nobody
    ir::builder before = ir::builder::before(k_, *first);
    before.locate(first->where);
    before.make(opcode::mbarrier_wait, {shared_base(before, ring_->integer("turn") + 8 * turn), before.get(parity)});
    before.set(parity, before.binary(opcode::bit_xor, before.get(parity), before.integer(1)));
    if (turn > 0) skip(before, s, before.mul(s.slots, turn));
  }
  void pass_turn(const agent& who, const side& s) {
    const std::int64_t turns = ring_->integer("turns"), turn = who.role->integer("turn");
    ir::op* last = drains_of_a_tile(who).second;
    ir::builder after = ir::builder::after(k_, *last);
    after.locate(last->where);
    const value leader = after.compare("eq", after.simple(opcode::lane_id, s32), after.integer(0));
    after.make(opcode::mbarrier_arrive, {shared_base(after, ring_->integer("turn") + 8 * ((turn + 1) % turns)), leader}, {}, {{"count", std::int64_t{1}}});
    ir::builder end(k_, *who.body->ops.back()->regions[0]);
    end.locate(ring_->where);
    if (turn + 1 < turns) skip(end, s, end.mul(s.slots, turns - 1 - turn));
  }

  side make_side(const agent& who, bool fills, bool defers) {
    side s;
    if (single_) return s;
    ir::builder b = start_of(who);
    b.locate(ring_->where);
    const std::string name = ring_->text("name");
    if (ring_->result()->type.stages > 1) s.stage = b.var(ir::type::scalar(s32), b.integer(0), name + "_stage");
    s.parity = b.var(ir::type::scalar(s32), b.integer(fills ? 1 : 0), name + "_parity");
    if (defers) {
      s.held = b.var(ir::type::scalar(s32), b.integer(0), name + "_held");
      s.holds = b.var(ir::type::scalar(tile::element::boolean), b.boolean(false), name + "_holds");
    }
    if (!fills && ring_->has("turns") && who.role->has("turn")) s.slots = slots_of_a_tile(b, who);
    return s;
  }

  value stage_of(ir::builder& b, const side& s) { return s.stage ? b.get(s.stage) : b.integer(0); }
  value barrier(ir::builder& b, const char* which, value stage) {
    value base = shared_base(b, ring_->integer(which));
    return ring_->result()->type.stages == 1 ? base : b.add(base, b.mul(b.cast(stage, u32), 8));
  }

  void advance(ir::builder& b, const side& s, value stage) {
    if (single_) return;
    if (!s.stage) {
      b.set(s.parity, b.binary(opcode::bit_xor, b.get(s.parity), b.integer(1)));
      return;
    }
    value next = b.add(stage, 1);
    value wraps = b.compare("eq", next, b.integer(ring_->result()->type.stages));
    b.set(s.stage, b.select(wraps, b.integer(0), next));
    value parity = b.get(s.parity);
    b.set(s.parity, b.select(wraps, b.binary(opcode::bit_xor, parity, b.integer(1)), parity));
  }

  // Where one lane alone touches the slot, it alone waits: nothing would hold the phases back for the other warps, and a late one could miss two.
  void wait(ir::builder& b, const agent& who, bool one_lane, value address, value parity) {
    const auto make = [&](ir::builder& e) { e.make(opcode::mbarrier_wait, {address, parity}); };
    if (one_lane && who.warps > 1 && !single_) elected(b, who, make);
    else make(b);
  }

  bool read_by_threads(ir::op& drain) { return !readers(drain, opcode::tile_read).empty() || !readers(drain, opcode::tile_clear).empty(); }

  // A commit arrives some time later, and so does an arrival from another CTA; neither may come to a CTA that has ended: whoever fills the ring stays until all slots
  // came back.
  void wait_until_free(const agent& who, const side& s) {
    ir::builder end(k_, *who.body);
    end.locate(ring_->where);
    for (int i = 0; i < ring_->result()->type.stages; ++i) {
      value stage = stage_of(end, s);
      value address = barrier(end, "empty", stage), parity = end.get(s.parity);
      wait(end, who, true, address, parity);
      advance(end, s, stage);
    }
  }

  // Replaces the parts of an opened slot by their addresses.
  void place_parts(ir::builder& b, ir::op& opened, value stage) {
    const ir::type& ring = ring_->result()->type;
    const std::vector<std::int64_t> parts = ring_->integers("parts");
    for (size_t i = 0; i < opened.results.size(); ++i) {
      value at;
      if (opened.results[i]->type.is(ir::type::kind::shared)) {
        at = shared_base(b, ring_->integer("offset") + parts[i]);
        if (ring.stages > 1) at = b.add(at, b.mul(b.cast(stage, u32), ring_->integer("stage_bytes")));
        at = b.make(opcode::shared_view, {at}, {opened.results[i]->type}).result();
      } else {
        at = b.add(tensor_base_, ring_->integer("tensor_column"));
        if (ring.stages > 1) at = b.add(at, b.mul(b.cast(stage, u32), opened.results[i]->type.cols));
        at = b.make(opcode::acc_view, {at}, {opened.results[i]->type}).result();
      }
      at->name = ring_->text("name");
      views_[opened.result(i)] = at;
    }
  }
  void use_places(ir::op& opened) {
    for (const auto& r : opened.results)
      for (ir::op* user : users(k_, r.get()))
        if (!user->is(opcode::ring_close)) std::replace(user->operands.begin(), user->operands.end(), static_cast<value>(r.get()), views_.at(r.get()));
  }

  std::vector<ir::op*> readers(ir::op& opened, opcode code) {
    std::vector<ir::op*> found;
    const auto look = [&](const auto& self, value part) -> void {
      for (ir::op* user : users(k_, part)) {
        if (user->is(opcode::shared_view)) self(self, user->result());  // some rows of it
        else if (user->is(code) && std::find(found.begin(), found.end(), user) == found.end()) found.push_back(user);  // a product reads several parts of one slot
      }
    };
    for (const auto& r : opened.results) look(look, r.get());
    return found;
  }

  ir::op& close_of(ir::op& opened) {
    for (ir::op* user : users(k_, opened.result()))
      if (user->is(opcode::ring_close)) return *user;
    raise(internal_error({.id = "slot-never-closed", .what = cat("a slot of ring \"", ring_->text("name"), "\" is opened and never closed"), .where = opened.where}));
  }

  enum class filler { tma, mma, threads };

  filler how_filled() {
    bool loads = false, products = false, threads = false;
    for (ir::op* fill : users(k_, ring_->result())) {
      if (!fill->is(opcode::ring_fill)) continue;
      for (ir::op* load : readers(*fill, opcode::tile_load)) threads = threads || load->text("by") == "threads";
      threads = threads || !readers(*fill, opcode::tile_write).empty();
      loads = loads || threads || !readers(*fill, opcode::tile_load).empty();
      products = products || !readers(*fill, opcode::mma).empty();
    }
    if (loads == products)
      raise(user_error({.id = loads ? "ring-mixed-fill" : "ring-never-written",
                        .what = cat("ring \"", ring_->text("name"), "\": its slots are ", loads ? "filled by loads and by mma" : "opened for filling but nothing writes them"),
                        .where = ring_->where, .because = "who fills a slot decides how its arrival is signalled",
                        .fix = {"load or write into the slot, or accumulate into it, between fill() and its close"}, .context = cat("kernel \"", k_.name, "\"")}));
    return threads ? filler::threads : loads ? filler::tma : filler::mma;
  }

  // A slot that every CTA of the cluster writes is free when the readers of all of them have let go.
  bool filled_for_cluster() {
    bool found = false;
    for (ir::op* fill : users(k_, ring_->result()))
      for (ir::op* load : readers(*fill, opcode::tile_load)) found = found || load->integer("ctas", 1) > 1;
    if (!found) return false;
    for (ir::op* drain : users(k_, ring_->result()))
      if (drain->is(opcode::ring_drain) && (read_by_threads(*drain) || readers(*drain, opcode::mma).empty()))
        raise(user_error({.id = "cluster-read", .what = cat("threads read ring \"", ring_->text("name"), "\", whose slots other CTAs of the cluster fill"), .where = drain->where,
                          .because = "a slot is given back to the other CTAs without a fence, which is right behind products only", .fix = {"load for one CTA, with load", "let products drain the ring"},
                          .context = cat("kernel \"", k_.name, "\"")}));
    return true;
  }

  // Whether the ring holds operands or sums of a pair's products: then two CTAs fill its slots, or two drain them.
  bool multiplied_by_pair() {
    for (ir::op* opened : users(k_, ring_->result()))
      for (ir::op* product : readers(*opened, opcode::mma))
        if (product->integer("ctas", 1) == 2) return true;
    return false;
  }

  // Of a pair, what reaches the barriers of both CTAs.
  void commit_slot(ir::builder& b, value to) {
    ir::op& commit = b.make(opcode::tcgen05_commit, {to}, {}, {{"group", group_}});
    const int ctas = pair_ ? 2 : together_;
    if (ctas > 1) commit.set("multicast", (std::int64_t{1} << ctas) - 1);
  }

  std::vector<const agent*> in_turns(const std::map<std::string, side>& sides) const {
    std::vector<const agent*> found;
    for (const agent& a : all_)
      if (ring_->has("turns") && a.role && a.role->has("turn") && sides.count("drain " + a.name)) found.push_back(&a);
    return found;
  }

  void lower_ring() {
    const filler how = how_filled();
    std::int64_t releases = 0, fillers = 1;
    bool by_commit = false;
    std::vector<ir::op*> opened = users(k_, ring_->result());
    std::map<std::string, side> sides;
    std::set<std::string> counted;
    for (ir::op* o : opened) {
      const agent& who = agent_of(all_, *o);
      const bool fills = o->is(opcode::ring_fill);
      const bool wgmma_reader = !fills && !has_tensor_memory(k_) && !readers(*o, opcode::mma).empty();
      const std::string key = (fills ? "fill " : "drain ") + who.name;
      if (!sides.count(key)) sides[key] = make_side(who, fills, wgmma_reader);
      if (fills && how == filler::threads) fillers = who.warps;
      if (!fills && counted.insert(key).second && !(ring_->has("turns") && who.role->integer("turn") > 0)) {  // of roles in turns one lets go of each slot, beside the roles that drain all
        const bool commits = has_tensor_memory(k_) && !readers(*o, opcode::mma).empty();
        by_commit = by_commit || commits;
        releases += ((commits ? 1 : 0) + (!commits || read_by_threads(*o) ? who.warps : 0)) * (pair_ && !commits ? 2 : together_);
      }
    }
    for (const agent* who : in_turns(sides)) wait_for_turn(*who, sides.at("drain " + who->name));
    for (ir::op* o : opened) {
      const agent& who = agent_of(all_, *o);
      if (o->is(opcode::ring_fill)) lower_fill(*o, who, sides.at("fill " + who.name), how);
      else lower_drain(*o, who, sides.at("drain " + who.name));
    }
    for (const agent* who : in_turns(sides)) pass_turn(*who, sides.at("drain " + who->name));
    if ((by_commit || together_ > 1) && !single_) {
      const agent* fills = nullptr;
      for (ir::op* o : opened)
        if (o->is(opcode::ring_fill)) fills = &agent_of(all_, *o);
      if (fills) wait_until_free(*fills, sides.at("fill " + fills->name));
    }
    const std::string name = ring_->text("name");
    const ir::type& ring = ring_->result()->type;
    init(ring_->integer("full"), ring.stages, fillers, name, "full");
    if (!single_) init(ring_->integer("empty"), ring.stages, releases, name, "empty");
    if (const auto turns = in_turns(sides); !turns.empty()) init(ring_->integer("turn"), static_cast<int>(turns.size()), turns[0]->warps, name, "turn");
    if (ring_->integer("stage_bytes")) k_.places.push_back({name, "slots", ring_->integer("offset"), ring_->integer("stage_bytes"), ring.stages, ring_->where});
    if (ring_->has("tensor_column")) k_.places.push_back({name, "columns", ring_->integer("tensor_column"), acc_columns(ring), ring.stages, ring_->where});
  }

  // Whether `who` drains this ring itself, each of its warps arriving: then no phase ends without them, and they may wait together. A warp that waited
  // alone could give up (pass::watch) while the others of its warpgroup are in a wgmma.
  bool each_warp_lets_go(const agent& who) {
    for (ir::op* o : users(k_, ring_->result()))
      if (o->is(opcode::ring_drain) && &agent_of(all_, *o) == &who && (!has_tensor_memory(k_) || readers(*o, opcode::mma).empty() || read_by_threads(*o))) return true;
    return false;
  }

  void lower_fill(ir::op& fill, const agent& who, const side& s, filler how) {
    ir::builder b = ir::builder::before(k_, fill);
    if (ring_->integer("meet")) meet(b, who);
    value stage = stage_of(b, s);
    if (!single_) {
      value address = barrier(b, "empty", stage), parity = b.get(s.parity);
      wait(b, who, how != filler::threads && !each_warp_lets_go(who), address, parity);
    }
    if (how == filler::mma) b.make(opcode::tmem_fence);
    value full = barrier(b, "full", stage);
    place_parts(b, fill, stage);
    if (how == filler::tma) {
      std::int64_t bytes = 0;
      for (ir::op* load : readers(fill, opcode::tile_load)) {
        bytes += shared_tile_of(load->operands[0]->type).size_bytes();
        load->operands.push_back(full);
        load->set("barrier", std::int64_t{1});
        if (pair_) load->set("group", std::int64_t{2});
      }
      elected(b, who, [&](ir::builder& e) {
        // The copies of the other CTA may land first: the phase lasts until the leader has announced all of them.
        if (pair_) e.when(is_leader(e), [&](ir::builder& l) { l.make(opcode::mbarrier_expect, {full}, {}, {{"bytes", 2 * bytes}}); });
        else e.make(opcode::mbarrier_expect, {full}, {}, {{"bytes", bytes}});
      });
    }
    ir::op& close = close_of(fill);
    ir::builder c = ir::builder::before(k_, close);
    if (how == filler::mma) elected(c, who, [&](ir::builder& e) { commit_slot(e, full); });
    if (how == filler::threads) {
      c.make(opcode::fence_async);
      c.make(opcode::barrier_warp);
      each_warp_elected(c, who, [&](ir::builder& e) { e.make(opcode::mbarrier_arrive, {full}, {}, {{"count", std::int64_t{1}}}); });
    }
    advance(c, s, stage);
    use_places(fill);
  }

  void lower_drain(ir::op& drain, const agent& who, const side& s) {
    ir::builder b = ir::builder::before(k_, drain);
    value stage = stage_of(b, s);
    const bool one_lane = has_tensor_memory(k_) && !readers(drain, opcode::mma).empty() && !read_by_threads(drain);
    value address = barrier(b, "full", stage), parity = single_ ? b.integer(0) : b.get(s.parity);
    wait(b, who, one_lane, address, parity);
    const bool tensor = drain.results[0]->type.is(ir::type::kind::acc);
    if (tensor) b.make(opcode::tmem_fence);
    place_parts(b, drain, stage);
    // where one lane alone has waited, those who zero wait as well
    zero_invalid_rows(b, drain, who, one_lane && !single_ ? address : nullptr, parity);

    ir::op& close = close_of(drain);
    if (!single_) {
      const bool products = !readers(drain, opcode::mma).empty();
      ir::builder c = ir::builder::before(k_, close);
      value empty = barrier(c, "empty", stage);
      if (products && read_by_threads(drain)) {  // both kinds of readers let go
        c.make(opcode::fence_async);
        c.make(opcode::barrier_warp);
        if (has_tensor_memory(k_)) each_warp_elected(c, who, [&](ir::builder& e) { e.make(opcode::mbarrier_arrive, {empty}, {}, {{"count", std::int64_t{1}}}); });
      }
      if (products && has_tensor_memory(k_)) {
        elected(c, who, [&](ir::builder& e) { commit_slot(e, empty); });
      } else if (products) {
        release_late(c, drain, who, s, stage);
      } else {
        if (tensor) c.make(opcode::tmem_fence, {}, {}, {{"before", std::int64_t{1}}});
        else c.make(opcode::fence_async);
        c.make(opcode::barrier_warp);
        each_warp_elected(c, who, [&](ir::builder& e) {
          // Only loads from tensor memory must be ordered, which have been waited for: no release in the cluster, as in give_back().
          if (pair_) e.make(opcode::mbarrier_remote, {empty, e.integer(0)}, {}, {{"bare", std::int64_t{1}}});
          else e.make(opcode::mbarrier_arrive, {empty}, {}, {{"count", std::int64_t{1}}});
        });
      }
      advance(c, s, stage);
    }
    use_places(drain);
  }

  static value is_leader(ir::builder& b) { return b.compare("eq", b.simple(opcode::cluster_rank, s32), b.integer(0)); }

  // An arrival where `when` is true; in every CTA of the cluster for a slot that they fill together.
  void give_back(ir::builder& b, value empty, value when) {
    if (together_ == 1) {
      b.make(opcode::mbarrier_arrive, {empty, when}, {}, {{"count", std::int64_t{1}}});
      return;
    }
    // Products alone have read the slot, and have been waited for: no ordinary access must be ordered. A release in the cluster would cost a fence of the
    // whole GPU before each arrival (a fifth of the speed); without qualifiers it is what CUTLASS gives slots back with.
    for (int cta = 0; cta < together_; ++cta) b.make(opcode::mbarrier_remote, {empty, b.integer(cta), when}, {}, {{"bare", std::int64_t{1}}});
  }

  void let_go(ir::builder& b, const side& s) {
    value leader = b.compare("eq", b.simple(opcode::lane_id, s32), b.integer(0));
    give_back(b, barrier(b, "empty", b.get(s.held)), b.binary(opcode::bit_and, leader, b.get(s.holds)));
  }

  static std::int64_t products_in(const ir::region& r) { return std::count_if(r.ops.begin(), r.ops.end(), [](const auto& o) { return o->is(opcode::mma); }); }

  // MMAs of one round that may still run when the slot of the round before is let go: each is a group of its own.
  std::int64_t products_of_a_round(ir::op& drain, const ir::op& loop) {
    const std::int64_t plain = products_in(*loop.regions[0]);
    return std::max<std::int64_t>(1, drain.parent == loop.regions[0].get() ? plain : 1);
  }

  // Whether all products that read the slot are known to be complete where it closes: something between has read the result of the last of them, or of a
  // later one (groups complete in order).
  bool products_complete(ir::op& drain, const ir::op& close) {
    const std::vector<ir::op*> mine = readers(drain, opcode::mma);
    std::map<value, int> newest;  // of each accumulator, the place of the product that wrote it last
    int place = 0, last = -1, complete = -1;
    size_t seen = 0;
    for (const auto& o : close.parent->ops) {
      ++place;
      if (o.get() == &close) break;
      if (o->is(opcode::mma)) {
        newest[o->operands[0]] = place;
        if (std::find(mine.begin(), mine.end(), o.get()) != mine.end()) {
          last = place;
          ++seen;
        }
      }
      if (o->is(opcode::acc_read) && newest.count(o->operands[0])) complete = std::max(complete, newest.at(o->operands[0]));
    }
    return seen == mine.size() && complete >= last;
  }

  // The read of what all products of the slot add to, where it stands in the loop before the first of them: it has waited for those of the round before.
  ir::op* read_of_the_round_before(ir::op& drain, const ir::op& loop) {
    const std::vector<ir::op*> mine = readers(drain, opcode::mma);
    for (const ir::op* product : mine)
      if (product->parent != loop.regions[0].get() || product->operands[0] != mine[0]->operands[0]) return nullptr;
    for (const auto& o : loop.regions[0]->ops) {
      if (o->is(opcode::acc_read) && o->operands[0] == mine[0]->operands[0]) return o.get();
      if (std::find(mine.begin(), mine.end(), o.get()) != mine.end()) break;
    }
    return nullptr;
  }

  // The first read, before the slot closes, of what a product of the same round has made: groups complete in order, so those of the round before are complete too.
  ir::op* read_of_a_product(ir::op& drain, const ir::op& loop) {
    std::set<value> made;
    if (drain.parent != loop.regions[0].get()) return nullptr;
    for (const auto& o : loop.regions[0]->ops) {
      if (o.get() == &close_of(drain)) break;
      if (o->is(opcode::mma)) made.insert(o->operands[0]);
      if (o->is(opcode::acc_read) && made.count(o->operands[0])) return o.get();
    }
    return nullptr;
  }

  void release_late(ir::builder& c, ir::op& drain, const agent&, const side& s, value stage) {
    if (products_complete(drain, close_of(drain))) {
      value leader = c.compare("eq", c.simple(opcode::lane_id, s32), c.integer(0));
      give_back(c, barrier(c, "empty", stage), leader);
      return;
    }
    ir::op* loop = enclosing(drain, opcode::for_loop);
    // With one slot nobody could fill the next round before this one is let go.
    // Where the round's products are a loop of their own, nothing of the next round runs beside the last of them.
    const bool inner = loop && !loop->integer("tiles") && ring_->result()->type.stages > 1 && (drain.parent != loop->regions[0].get() || products_in(*drain.parent) > 0);
    ir::op* read = inner ? read_of_the_round_before(drain, *loop) : nullptr;
    if (inner && !read) read = read_of_a_product(drain, *loop);
    if (!read) c.make(opcode::wgmma_wait, {}, {}, {{"pending", inner ? products_of_a_round(drain, *loop) : 0}});
    if (inner) {
      if (read) {
        ir::builder then = ir::builder::after(k_, *read);
        let_go(then, s);
      } else {
        let_go(c, s);
      }
      c.set(s.held, stage);
      c.set(s.holds, c.boolean(true));
      ir::builder after = ir::builder::after(k_, *loop);
      after.locate(drain.where);
      after.make(opcode::wgmma_wait, {}, {}, {{"pending", std::int64_t{0}}});
      let_go(after, s);
      after.set(s.holds, after.boolean(false));
    } else {
      c.set(s.held, stage);
      c.set(s.holds, c.boolean(true));
      let_go(c, s);
      c.set(s.holds, c.boolean(false));
    }
  }

  // Rows at or beyond the valid ones belong to another sequence: they read as zero.
  void zero_invalid_rows(ir::builder& b, ir::op& drain, const agent& who, value arrived, value parity) {
    for (ir::op* fill : fills_of(drain)) {
      std::map<value, std::vector<size_t>> parts;  // by number of valid rows
      std::vector<value> in_order;
      for (size_t i = 0; i < fill->results.size(); ++i)
        for (ir::op* load : loads_into(fill->result(i))) {
          if (!load->integer("jagged")) continue;
          if (&agent_of(all_, *fill) != &who || who.single_lane || (!single_ && fill->parent != drain.parent))
            raise(user_error({.id = "jagged-load-apart", .what = cat("ring \"", ring_->text("name"), "\" is loaded from jagged rows by one role and drained by another"),
                              .where = load->where, .because = "the reader zeroes the rows beyond the valid ones and must know how many there are",
                              .fix = {"load and drain jagged tiles in one kernel body without roles"}, .context = cat("kernel \"", k_.name, "\"")}));
          value valid = load->operands[load->operands.size() - 1 - static_cast<size_t>(load->integer("barrier"))];
          if (parts[valid].empty()) in_order.push_back(valid);
          parts[valid].push_back(i);
        }
      for (value valid : in_order)
        b.when(b.compare("lt", valid, b.integer(drain.result(parts.at(valid)[0])->type.rows)), [&](ir::builder& z) {
          if (arrived) z.make(opcode::mbarrier_wait, {arrived, parity});
          for (size_t i : parts.at(valid)) zero_rows(z, views_.at(drain.result(i))->owner->operands[0], valid, drain.result(i)->type, who);
          z.make(opcode::fence_async);
          meet(z, who);
        });
    }
  }
  // What may have filled the slot that `drain` opens: where one region has both, the last fill before it.
  std::vector<ir::op*> fills_of(const ir::op& drain) {
    std::vector<ir::op*> all, here;
    for (ir::op* user : users(k_, ring_->result()))
      if (user->is(opcode::ring_fill)) all.push_back(user);
    for (const auto& o : drain.parent->ops) {
      if (o.get() == &drain) break;
      if (std::find(all.begin(), all.end(), o.get()) != all.end()) here = {o.get()};
    }
    return here.empty() ? all : here;
  }
  std::vector<ir::op*> loads_into(value part) {
    std::vector<ir::op*> found;
    for (value place : {part, views_.count(part) ? views_.at(part) : nullptr})
      if (place)
        for (ir::op* user : users(k_, place))
          if (user->is(opcode::tile_load)) found.push_back(user);
    return found;
  }

  // An accumulator outside of rings has a barrier of its own. Each read waits for the products before it: where one product stands in the region of
  // its reads, it commits itself; otherwise the commit comes right before the read. Whoever writes it again must know that all warps have read it.
  void lower_accumulator(ir::op& acc) {
    const agent& who = agent_of(all_, acc);
    ring_ = nullptr;
    const std::string name = acc.result()->name.empty() ? "accumulator" : acc.result()->name;
    init(acc.integer("full"), 1, 1, name, "product");
    k_.places.push_back({name, "columns", acc.integer("tensor_column"), acc.result()->type.cols, 1, acc.where});
    ir::builder start = start_of(who);
    value parity = start.var(ir::type::scalar(s32), start.integer(0), "acc_parity");
    ir::builder b = ir::builder::before(k_, acc);
    value place = b.make(opcode::acc_view, {b.add(tensor_base_, acc.integer("tensor_column"))}, {acc.result()->type}).result();
    std::vector<ir::op*> products, reads;
    for (ir::op* user : users(k_, acc.result())) {
      std::replace(user->operands.begin(), user->operands.end(), acc.result(), place);
      if (user->is(opcode::mma)) products.push_back(user);
      if (user->is(opcode::acc_read) || user->is(opcode::acc_write)) reads.push_back(user);  // either wants the products complete
    }
    bool together = products.size() == 1;
    for (ir::op* read : reads) together = together && read->parent == products[0]->parent;
    const bool again = in_loop(acc) || products.size() > 1 || (!products.empty() && in_loop(*products[0]) && !together);
    if (together) products[0]->set("commit", acc.integer("full"));
    const ir::op* known = nullptr;  // the last read that waited
    for (ir::op* read : reads) {
      if (known && !written_between(*known, *read, products)) continue;
      known = read;
      ir::builder r = ir::builder::before(k_, *read);
      value full = shared_base(r, acc.integer("full"));
      if (!together) elected(r, who, [&](ir::builder& e) { e.make(opcode::tcgen05_commit, {full}, {}, {{"group", std::int64_t{1}}}); });
      r.make(opcode::mbarrier_wait, {full, r.get(parity)});
      r.make(opcode::tmem_fence);
      r.set(parity, r.binary(opcode::bit_xor, r.get(parity), r.integer(1)));
    }
    if ((again && !reads.empty()) || acc.integer("reuses"))
      for (ir::op* product : products) {
        ir::builder w = ir::builder::before(k_, *product);
        w.make(opcode::tmem_fence, {}, {}, {{"before", std::int64_t{1}}});
        meet(w, who);
        w.make(opcode::tmem_fence);
      }
    ir::erase(acc);
  }

  // The register operand of a product is staged in shared memory, which the product reads later than it is issued.
  void guard_scratch(ir::op& product) {
    const agent& who = agent_of(all_, product);
    ring_ = nullptr;
    init(product.integer("scratch_free"), 1, 1, "staged operand", "operand");
    ir::builder start = start_of(who);
    value parity = start.var(ir::type::scalar(s32), start.integer(1), "scratch_parity");
    ir::builder b = ir::builder::before(k_, product);
    value free = shared_base(b, product.integer("scratch_free"));
    b.make(opcode::mbarrier_wait, {free, b.get(parity)});
    b.set(parity, b.binary(opcode::bit_xor, b.get(parity), b.integer(1)));
    ir::builder after = ir::builder::after(k_, product);
    elected(after, who, [&](ir::builder& e) { e.make(opcode::tcgen05_commit, {free}, {}, {{"group", std::int64_t{1}}}); });
    ir::builder end(k_, *who.body);  // the last commit must not arrive in a CTA that has ended
    end.locate(product.where);
    end.make(opcode::mbarrier_wait, {shared_base(end, product.integer("scratch_free")), end.get(parity)});
  }

  // False only when both stand in one region and no product is between them.
  static bool written_between(const ir::op& first, const ir::op& second, const std::vector<ir::op*>& products) {
    if (first.parent != second.parent) return true;
    bool between = false;
    for (const auto& o : first.parent->ops) {
      if (o.get() == &second) return false;
      if (o.get() == &first) between = true;
      if (!between) continue;
      for (const ir::op* p : products)
        if (p == o.get() || std::any_of(o->regions.begin(), o->regions.end(), [&](const auto& r) { return inside(*p, *r); })) return true;
    }
    return true;
  }

  ir::kernel& k_;
  std::vector<agent> all_;
  ir::op* ring_ = nullptr;
  bool single_ = false;
  int ctas_ = 1;      // of a cluster
  int together_ = 1;  // CTAs that fill a slot of this ring
  std::int64_t group_ = 1;  // CTAs that make a product
  bool pair_ = false;       // this ring's operands or sums are those of two
  ir::region* inits_ = nullptr;
  std::int64_t columns_ = 0;
  value tensor_base_ = nullptr;
  int prologue_end_ = 0;
  std::unique_ptr<ir::op>* start_ = nullptr;
  std::map<value, value> views_;
};

}  // namespace

void insert_barriers(ir::kernel& k) { inserter(k).run(); }

}  // namespace tlx::pass
