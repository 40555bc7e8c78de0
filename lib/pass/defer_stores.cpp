// Where accumulators are registers, nothing runs beside the products of a tile but what stands between them. The stores of a tile are put there: the
// finished tile stays packed in cells and its pieces leave one by one behind the first steps of the next tile's MMA loop.
//
//   for tile { for i { products }  store 0..n-1 }
//   -> for tile, and one round more { for i, none in that round { products; if filled and i < n: store piece i }
//                                     if filled: the pieces that found no step
//                                     if a tile: cells = pieces, filled = true }
#include <algorithm>

#include "agents.hpp"
#include "passes.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

constexpr auto s32 = tile::element::s32;

// Registers a thread needs beside accumulators, waiting pieces and what the work on one piece loads; and what a consumer gets at most (setmaxnreg).
constexpr int other_registers = 40, registers_of_a_consumer = 232;

bool is_integer(value v, std::int64_t n) { return v->owner && v->owner->is(opcode::constant) && v->owner->integer("value") == n; }

struct plan {
  ir::op *tiles = nullptr, *steps = nullptr;
  std::vector<ir::op*> stores;
};

int registers(const ir::type& t, int warps) { return t.rows * t.cols * tile::bits(t.element) / 32 / (warps * 32); }

// As the accumulator's fragments spread it: a row vector is held by the eight threads of a column, a column vector by the four of a row.
int registers_of_any(const ir::type& t, int warps) {
  return t.rows == 1 ? t.cols / 4 : t.cols == 1 ? std::max(1, t.rows / (warps * 8)) : t.rows * t.cols / (warps * 32);
}

// The shape this pass understands: a tile loop that ends a role, one MMA loop in it that counts from 0, and after that loop two or more whole stores.
bool understand(const agent& who, plan& p) {
  if (!who.role || who.single_lane || who.body->ops.empty() || who.role->has("turn")) return false;  // roles in turns hide their stores behind each other's products
  p.tiles = who.body->ops.back().get();
  if (!p.tiles->is(opcode::for_loop) || !p.tiles->integer("tiles")) return false;
  int accumulators = 0, pieces = 0, loaded = 0;
  const auto count = [](ir::region& r, opcode code) { return find_all(r, code).size(); };
  for (const auto& o : p.tiles->regions[0]->ops) {
    if (o->is(opcode::acc_make)) accumulators += registers(o->result()->type, who.warps);
    if (o->is(opcode::for_loop)) {
      if (p.steps || count(*o->regions[0], opcode::mma) == 0) return false;
      p.steps = o.get();
    } else if (!o->regions.empty()) {
      return false;
    }
    // Before the MMA loop it would happen in the round more, too, for which nobody fills a ring.
    if (!p.steps && ir::row(o->code).effects != ir::effect::pure) return false;
    if (p.steps && o->is(opcode::global_load) && o->result()->type.is_tile()) loaded += registers_of_any(o->result()->type, who.warps);
    if (!o->is(opcode::tile_store)) continue;
    if (!p.steps || o->integer("jagged") || o->text("by") == "threads") return false;
    p.stores.push_back(o.get());
    pieces += registers(o->operands[0]->type, who.warps);
  }
  if (!p.steps || !is_integer(p.steps->operands[0], 0) || !is_integer(p.steps->operands[2], 1) || p.stores.size() < 2) return false;
  return find_all(*who.body, opcode::tile_store).size() == p.stores.size() && accumulators > 0 &&
         accumulators + pieces + loaded / static_cast<int>(p.stores.size()) + other_registers <= registers_of_a_consumer;
}

class deferrer {
 public:
  deferrer(ir::kernel& k, const plan& p) : k_(k), p_(p) {}

  void run() {
    for (size_t i = 0; i < p_.stores.size(); ++i) p_.stores[i]->set("piece", static_cast<std::int64_t>(i));
    make_cells();
    store_behind_steps();
    add_a_round();
    store_the_rest();
    fill_cells();
  }

 private:
  void make_cells() {
    ir::builder b = ir::builder::before(k_, *p_.tiles);
    for (ir::op* store : p_.stores) {
      b.locate(store->where);
      cells_.push_back(b.var(store->operands[0]->type, nullptr, "waiting"));
      std::vector<value> places;
      for (size_t c = 2; c < store->operands.size(); ++c) places.push_back(cell_of(b, store->operands[c]));
      places_.push_back(places);
    }
    filled_ = b.var(ir::type::scalar(tile::element::boolean), b.boolean(false), "filled");
    // The divisions that give a tile's place then run beside the products too, not between one tile's and the next's.
    if (std::all_of(coordinates_.begin(), coordinates_.end(), [&](const auto& c) { return recomputable(c.first); }))
      number_ = b.var(ir::type::scalar(s32), b.integer(0), "waiting_tile");
  }

  // One cell for each value that the tile loop computes; what stands outside of it needs none.
  value cell_of(ir::builder& b, value coordinate) {
    if (!of_this_tile(coordinate)) return nullptr;
    for (const auto& [of, cell] : coordinates_)
      if (of == coordinate) return cell;
    coordinates_.emplace_back(coordinate, b.var(coordinate->type, b.integer(0, coordinate->type.element), "place"));
    return coordinates_.back().second;
  }
  bool of_this_tile(value v) const { return v->owner ? inside(*v->owner, *p_.tiles->regions[0]) : v->scope == p_.tiles->regions[0].get(); }

  // Pure arithmetic on the tile's number, done again for another number.
  value recompute(ir::builder& b, value v, value number) {
    if (!of_this_tile(v)) return v;
    if (!v->owner) return number;
    std::vector<value> operands;
    for (value input : v->owner->operands) operands.push_back(recompute(b, input, number));
    return b.make(v->owner->code, operands, {v->type}, v->owner->attributes).result();
  }
  bool recomputable(value v) const {
    if (!of_this_tile(v) || !v->owner) return true;
    if (v->owner->parent != p_.tiles->regions[0].get() || ir::row(v->owner->code).effects != ir::effect::pure || v->type.is_tile()) return false;
    return std::all_of(v->owner->operands.begin(), v->owner->operands.end(), [&](value input) { return recomputable(input); });
  }

  void store(ir::builder& b, size_t i) {
    const ir::op& old = *p_.stores[i];
    b.locate(old.where);
    if (i == 0 && number_)
      for (const auto& [of, cell] : coordinates_) b.set(cell, recompute(b, of, b.get(number_)));
    std::vector<value> operands{b.get(cells_[i]), old.operands[1]};
    for (size_t c = 0; c < places_[i].size(); ++c) operands.push_back(places_[i][c] ? b.get(places_[i][c]) : old.operands[c + 2]);
    b.make(opcode::tile_store, operands, {}, old.attributes);
  }

  void store_behind_steps() {
    ir::region& body = *p_.steps->regions[0];
    const value step = body.arguments[0].get();
    ir::builder b(k_, body);
    b.locate(p_.stores[0]->where);
    const value due = b.binary(opcode::bit_and, b.get(filled_), b.compare("lt", step, b.integer(static_cast<std::int64_t>(cells_.size()))));
    b.when(due, [&](ir::builder& w) { store_piece_of(w, step, 0); }).set("due", std::int64_t{1});  // the marks are for fold-rest
    p_.steps->set("deferred", static_cast<std::int64_t>(cells_.size()));
  }
  void store_piece_of(ir::builder& b, value step, size_t i) {
    if (i + 1 == cells_.size()) return store(b, i);
    b.when(b.compare("eq", step, b.integer(static_cast<std::int64_t>(i))), [&](ir::builder& t) { store(t, i); }, [&](ir::builder& e) { store_piece_of(e, step, i + 1); });
  }

  void store_the_rest() {
    const value steps = p_.steps->operands[1];
    ir::builder b = ir::builder::after(k_, *p_.steps);
    b.locate(p_.stores[0]->where);
    const value due = b.binary(opcode::bit_and, b.get(filled_), b.compare("lt", steps, b.integer(static_cast<std::int64_t>(cells_.size()))));
    rest_ = &b.when(due, [&](ir::builder& w) {
      for (size_t i = 0; i < cells_.size(); ++i)
        w.when(w.compare("le", steps, w.integer(static_cast<std::int64_t>(i))), [&](ir::builder& t) { store(t, i); });
    });
    rest_->set("rest", std::int64_t{1});
  }

  // The last tile leaves in a round of its own, which has no products: its pieces are then those that found no step.
  void add_a_round() {
    ir::builder outside = ir::builder::before(k_, *p_.tiles);
    outside.locate(p_.tiles->where);
    const value end = p_.tiles->operands[1];
    p_.tiles->operands[1] = outside.add(end, p_.tiles->operands[2]);
    ir::builder b = ir::builder::before(k_, *p_.steps);
    b.locate(p_.steps->where);
    tile_ = b.compare("lt", p_.tiles->regions[0]->arguments[0].get(), end);
    p_.steps->operands[1] = b.select(tile_, p_.steps->operands[1], b.integer(0));
  }

  // What follows the MMA loop and the waiting pieces is the work on the tile that these products made.
  void fill_cells() {
    ir::region& body = *p_.tiles->regions[0];
    const auto first = std::find_if(body.ops.begin(), body.ops.end(), [&](const auto& o) { return o.get() == rest_; }) + 1;
    std::vector<std::unique_ptr<ir::op>> finish(std::make_move_iterator(first), std::make_move_iterator(body.ops.end()));
    body.ops.erase(first, body.ops.end());
    ir::builder b(k_, body);
    b.locate(p_.stores[0]->where);
    b.when(tile_, [&](ir::builder& w) {
      for (auto& o : finish) {
        o->parent = &w.where();
        w.where().ops.push_back(std::move(o));
      }
    });
    for (size_t i = 0; i < cells_.size(); ++i) {
      ir::builder at = ir::builder::before(k_, *p_.stores[i]);
      at.locate(p_.stores[i]->where);
      at.make(opcode::var_set, {cells_[i], p_.stores[i]->operands[0]}, {}, {{"now", std::int64_t{1}}});
    }
    ir::builder at = ir::builder::after(k_, *p_.stores.back());
    at.locate(p_.stores.back()->where);
    if (number_) at.set(number_, body.arguments[0].get());
    else
      for (const auto& [of, cell] : coordinates_) at.set(cell, of);
    at.set(filled_, at.boolean(true));
    for (ir::op* old : p_.stores) ir::erase(*old);
  }

  ir::kernel& k_;
  const plan& p_;
  std::vector<value> cells_;
  std::vector<std::vector<value>> places_;                 // by store and coordinate; null: computed outside of the loop
  std::vector<std::pair<value, value>> coordinates_;
  value filled_ = nullptr, number_ = nullptr;              // number_: the tile that waits; null: its coordinates are kept instead
  value tile_ = nullptr;                                   // whether the round has a tile: false in the one that was added
  ir::op* rest_ = nullptr;                                 // stores what found no step
};

}  // namespace

void defer_stores(ir::kernel& k) {
  if (has_tensor_memory(k)) return;
  for (const agent& who : agents(k)) {
    plan p;
    if (understand(who, p)) deferrer(k, p).run();
  }
}

}  // namespace tlx::pass
