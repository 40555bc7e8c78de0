// Where accumulators are registers, nothing runs beside the products of a tile but what stands between them. The stores of a tile are put there: the
// finished tile stays packed in cells and its pieces leave one by one behind the first steps of the next tile's MMA loop.
//
//   for tile { for i { products }  store 0..n-1 }
//   -> for tile, and one round more { for i, none in that round { products; if filled and i < n: store piece i }
//                                     if filled: the pieces that found no step
//                                     if a tile: cells = pieces, filled = true }
#include <algorithm>
#include <map>
#include <set>

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

// What leaves at once: one store, or, where the work on a tile waits too, all that is made of the same columns of the accumulator.
struct piece {
  std::vector<ir::op*> stores;
  std::vector<ir::op*> work;    // in program order, loads of matrices first; empty: the stores alone wait
  std::vector<ir::op*> loads;   // of matrices, a part of the work: begun a step earlier, since they take longer than a step
  std::vector<value> kept;      // tiles and scalars that the tile's own round computes: what stays in cells
};

struct plan {
  ir::op *tiles = nullptr, *steps = nullptr;
  std::vector<piece> pieces;
};

int registers(const ir::type& t, int warps) { return t.rows * t.cols * tile::bits(t.element) / 32 / (warps * 32); }

// As the accumulator's fragments spread it: a row vector is held by the eight threads of a column, a column vector by the four of a row.
int registers_of_any(const ir::type& t, int warps) {
  return t.rows == 1 ? t.cols / 4 : t.cols == 1 ? std::max(1, t.rows / (warps * 8)) : t.rows * t.cols / (warps * 32);
}

bool elementwise(const ir::op& o) { return o.code >= opcode::add && o.code <= opcode::cos; }
bool is_matrix(const ir::type& t) { return t.is_tile() && t.rows > 1 && t.cols > 1; }

// The work on a tile, divided among its stores. Empty where some of it cannot wait, or is so little that it would not pay for the registers of an f32 tile.
class work_finder {
 public:
  work_finder(ir::kernel& k, const plan& p, int warps) : k_(k), body_(*p.tiles->regions[0]), steps_(p.steps), warps_(warps) {
    for (const auto& o : body_.ops) order_.emplace(o.get(), order_.size());
  }

  std::vector<piece> find(const std::vector<ir::op*>& stores, int accumulators) {
    std::vector<piece> all;
    for (ir::op* store : stores) {
      std::set<ir::op*> work;
      std::set<value> kept;
      for (size_t i = 0; i < store->operands.size(); ++i)
        if (i != 1 && !collect(store->operands[i], work, kept)) return {};
      add(all, store, work, kept);
    }
    int waiting = 0, loaded = 0, arithmetic = 0;
    std::set<value> counted;
    for (piece& p : all) {
      int loads = 0;
      std::sort(p.work.begin(), p.work.end(), [&](ir::op* x, ir::op* y) { return order_.at(x) < order_.at(y); });
      for (ir::op* o : p.work) {
        if (o->is(opcode::global_load) && is_matrix(o->result()->type)) {
          loads += std::max(1, registers(o->result()->type, warps_));
          p.loads.push_back(o);
        }
        arithmetic = std::max(arithmetic, static_cast<int>(std::count_if(p.work.begin(), p.work.end(), [](const ir::op* w) { return elementwise(*w) && is_matrix(w->result()->type); })));
        if (!stays_inside(*o, p)) return {};
      }
      loaded = std::max(loaded, loads);
      for (value v : p.kept)
        if (counted.insert(v).second) waiting += v->type.is_tile() ? registers_of_any(v->type, warps_) : 1;
    }
    constexpr int little = 3;  // a factor, a sum and the cast
    if (all.size() < 2 || (arithmetic <= little && loaded == 0) || accumulators + waiting + loaded + other_registers > registers_of_a_consumer) return {};
    return all;
  }

 private:
  bool here(value v) const { return v->owner && v->owner->parent == &body_ && order_.at(v->owner) > order_.at(steps_); }

  // Matrices and rows of work that can wait; what it starts from is kept: accumulators, columns (a few registers), scalars that are no coordinates.
  bool collect(value v, std::set<ir::op*>& work, std::set<value>& kept) {
    const bool ours = v->owner ? inside(*v->owner, body_) : v->scope == &body_;
    if (!ours || !v->owner) return true;
    ir::op& o = *v->owner;
    if (!v->type.is_tile()) {
      if (v->type.is_scalar() && !tile::is_integer(v->type.element) && !o.is(opcode::constant)) kept.insert(v);
      return true;  // constants and coordinates are made again
    }
    if (work.count(&o)) return true;
    const bool waits = here(v) && v->type.cols > 1 && (elementwise(o) || o.is(opcode::constant) || o.is(opcode::iota) || o.is(opcode::broadcast) || (o.is(opcode::global_load) && !o.integer("jagged")));
    if (!waits) {
      if (v->type.cols > 1 && !o.is(opcode::acc_read)) return false;
      kept.insert(v);
      return true;
    }
    work.insert(&o);
    return std::all_of(o.operands.begin(), o.operands.end(), [&](value input) { return input->type.is(ir::type::kind::view) || collect(input, work, kept); });
  }

  void add(std::vector<piece>& all, ir::op* store, const std::set<ir::op*>& work, const std::set<value>& kept) {
    const auto shares = [&](const piece& p) { return std::any_of(p.work.begin(), p.work.end(), [&](ir::op* o) { return work.count(o); }); };
    auto to = std::find_if(all.begin(), all.end(), shares);
    if (to == all.end()) to = all.insert(all.end(), piece{});
    to->stores.push_back(store);
    for (ir::op* o : work)
      if (std::find(to->work.begin(), to->work.end(), o) == to->work.end()) to->work.push_back(o);
    // in program order, so that the text of a kernel is the same every time
    std::vector<value> fresh;
    for (value v : kept)
      if (std::find(to->kept.begin(), to->kept.end(), v) == to->kept.end()) fresh.push_back(v);
    std::sort(fresh.begin(), fresh.end(), [&](value x, value y) { return order_.at(x->owner) < order_.at(y->owner); });
    to->kept.insert(to->kept.end(), fresh.begin(), fresh.end());
  }

  bool stays_inside(const ir::op& o, const piece& p) {
    for (ir::op* user : users(k_, o.result()))
      if (std::find(p.work.begin(), p.work.end(), user) == p.work.end() && std::find(p.stores.begin(), p.stores.end(), user) == p.stores.end()) return false;
    return true;
  }

  ir::kernel& k_;
  const ir::region& body_;
  const ir::op* steps_;
  int warps_;
  std::map<const ir::op*, size_t> order_;
};

// The shape this pass understands: a tile loop that ends a role, one MMA loop in it that counts from 0, and after that loop two or more whole stores.
bool understand(ir::kernel& k, const agent& who, plan& p) {
  if (!who.role || who.single_lane || who.body->ops.empty()) return false;
  p.tiles = who.body->ops.back().get();
  if (!p.tiles->is(opcode::for_loop) || !p.tiles->integer("tiles")) return false;
  int accumulators = 0, packed = 0, loaded = 0;
  std::vector<ir::op*> stores;
  const auto count = [](ir::region& r, opcode code) { return find_all(r, code).size(); };
  for (const auto& o : p.tiles->regions[0]->ops) {
    if (o->is(opcode::acc_make)) accumulators += registers(o->result()->type, who.warps);
    if (o->is(opcode::for_loop)) {
      if (p.steps || count(*o->regions[0], opcode::mma) == 0) return false;
      p.steps = o.get();
    } else if (!o->regions.empty()) {
      return false;
    }
    // Before the MMA loop it would happen in the round more, too, for which nobody fills a ring. A fresh cell does no harm there.
    if (!p.steps && ir::row(o->code).effects != ir::effect::pure && !o->is(opcode::var_new)) return false;
    if (p.steps && o->is(opcode::global_load) && o->result()->type.is_tile()) loaded += registers_of_any(o->result()->type, who.warps);
    if (!o->is(opcode::tile_store)) continue;
    if (!p.steps || o->integer("jagged") || o->text("by") == "threads") return false;
    stores.push_back(o.get());
    packed += registers(o->operands[0]->type, who.warps);
  }
  if (!p.steps || !is_integer(p.steps->operands[0], 0) || !is_integer(p.steps->operands[2], 1) || stores.size() < 2) return false;
  if (find_all(*who.body, opcode::tile_store).size() != stores.size() || accumulators == 0) return false;
  p.pieces = work_finder(k, p, who.warps).find(stores, accumulators);
  if (!p.pieces.empty()) return true;
  for (ir::op* store : stores) p.pieces.push_back({{store}, {}, {}, {store->operands[0]}});
  return accumulators + packed + loaded / static_cast<int>(stores.size()) + other_registers <= registers_of_a_consumer;
}

class deferrer {
 public:
  deferrer(ir::kernel& k, const plan& p) : k_(k), p_(p), with_work_(!p.pieces[0].work.empty()) {}

  void run() {
    std::int64_t number = 0;
    for (const piece& p : p_.pieces)
      for (ir::op* store : p.stores) store->set("piece", number++);
    make_cells();
    store_behind_steps();
    add_a_round();
    store_the_rest();
    fill_cells();
  }

 private:
  void make_cells() {
    ir::builder b = ir::builder::before(k_, *p_.tiles);
    for (const piece& p : p_.pieces) {
      b.locate(p.stores[0]->where);
      for (value v : p.kept)
        if (!cells_.count(v)) cells_[v] = b.var(v->type, nullptr, "waiting");
      // Pieces follow each other: one cell for what each of them loads at the same place.
      size_t place = 0;
      for (ir::op* load : p.loads) {
        while (place < loaded_.size() && !(loaded_[place].first == load->result()->type)) ++place;
        if (place == loaded_.size()) loaded_.emplace_back(load->result()->type, b.var(load->result()->type, nullptr, "loaded"));
        cells_[load->result()] = loaded_[place++].second;
      }
      for (ir::op* store : p.stores)
        for (size_t c = 2; c < store->operands.size(); ++c) register_place(b, store->operands[c]);
      for (ir::op* o : p.work)
        for (value v : o->operands)
          if (v->type.is_scalar() && tile::is_integer(v->type.element)) register_place(b, v);
    }
    filled_ = b.var(ir::type::scalar(tile::element::boolean), b.boolean(false), "filled");
    // The divisions that give a tile's place then run beside the products too, not between one tile's and the next's.
    if (std::all_of(coordinates_.begin(), coordinates_.end(), [&](const auto& c) { return recomputable(c.first); }))
      number_ = b.var(ir::type::scalar(s32), b.integer(0), "waiting_tile");
  }

  // A coordinate and a constant: where the work waits too, registers are few, and the sum is made again for each piece.
  bool is_shifted(value v) const { return with_work_ && v->owner && v->owner->is(opcode::add) && v->owner->operands[1]->owner && v->owner->operands[1]->owner->is(opcode::constant); }

  // One cell for each value that the tile loop computes; what stands outside of it needs none.
  void register_place(ir::builder& b, value coordinate) {
    if (is_shifted(coordinate)) return register_place(b, coordinate->owner->operands[0]);
    if (!of_this_tile(coordinate)) return;
    for (const auto& [of, cell] : coordinates_)
      if (of == coordinate) return;
    coordinates_.emplace_back(coordinate, b.var(coordinate->type, b.integer(0, coordinate->type.element), "place"));
  }
  value place(ir::builder& b, value coordinate) {
    if (is_shifted(coordinate)) return b.add(place(b, coordinate->owner->operands[0]), coordinate->owner->operands[1]->owner->integer("value"));
    for (const auto& [of, cell] : coordinates_)
      if (of == coordinate) return b.get(cell);
    return coordinate;
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

  // A copy of an op of the finished tile's round, with what was kept of that round.
  ir::op& again(ir::builder& b, ir::cloner& copies, const ir::op& o) {
    for (value v : o.operands) {
      if (copies.look_up(v) != v) continue;
      if (cells_.count(v)) copies.map(v, b.get(cells_.at(v)));
      else if (v->owner && v->owner->is(opcode::constant) && of_this_tile(v)) copies.copy(*v->owner);
      else if (v->type.is_scalar() && tile::is_integer(v->type.element)) copies.map(v, place(b, v));
    }
    return copies.copy(o);
  }
  void load(ir::builder& b, size_t i) {
    ir::cloner copies(b);
    for (const ir::op* o : p_.pieces[i].loads) b.make(opcode::var_set, {cells_.at(o->result()), again(b, copies, *o).result()}, {}, {{"now", std::int64_t{1}}});
  }

  void store(ir::builder& b, size_t i) {
    const piece& p = p_.pieces[i];
    b.locate(p.stores[0]->where);
    if (i == 0 && number_)
      for (const auto& [of, cell] : coordinates_) b.set(cell, recompute(b, of, b.get(number_)));
    ir::cloner copies(b);
    for (const ir::op* o : p.work)
      if (std::find(p.loads.begin(), p.loads.end(), o) == p.loads.end()) again(b, copies, *o);
    for (const ir::op* o : p.stores) again(b, copies, *o);
    if (i + 1 < p_.pieces.size()) load(b, i + 1);
  }

  void store_behind_steps() {
    ir::region& body = *p_.steps->regions[0];
    const value step = body.arguments[0].get();
    ir::builder b(k_, body);
    b.locate(p_.pieces[0].stores[0]->where);
    const value due = b.binary(opcode::bit_and, b.get(filled_), b.compare("lt", step, b.integer(static_cast<std::int64_t>(p_.pieces.size()))));
    b.when(due, [&](ir::builder& w) { store_piece_of(w, step, 0); }).set("due", std::int64_t{1});  // the marks are for fold-rest
    p_.steps->set("deferred", static_cast<std::int64_t>(p_.pieces.size()));
  }
  void store_piece_of(ir::builder& b, value step, size_t i) {
    if (i + 1 == p_.pieces.size()) return store(b, i);
    b.when(b.compare("eq", step, b.integer(static_cast<std::int64_t>(i))), [&](ir::builder& t) { store(t, i); }, [&](ir::builder& e) { store_piece_of(e, step, i + 1); });
  }

  void store_the_rest() {
    const value steps = p_.steps->operands[1];
    ir::builder b = ir::builder::after(k_, *p_.steps);
    b.locate(p_.pieces[0].stores[0]->where);
    const value due = b.binary(opcode::bit_and, b.get(filled_), b.compare("lt", steps, b.integer(static_cast<std::int64_t>(p_.pieces.size()))));
    rest_ = &b.when(due, [&](ir::builder& w) {
      for (size_t i = 0; i < p_.pieces.size(); ++i)
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
    b.locate(p_.pieces[0].stores[0]->where);
    b.when(tile_, [&](ir::builder& w) {
      for (auto& o : finish) {
        o->parent = &w.where();
        w.where().ops.push_back(std::move(o));
      }
    });
    ir::op* const last = p_.pieces.back().stores.back();
    std::set<value> set;
    for (const piece& p : p_.pieces) {
      ir::builder at = ir::builder::before(k_, *p.stores[0]);
      at.locate(p.stores[0]->where);
      for (value v : p.kept)
        if (set.insert(v).second) at.make(opcode::var_set, {cells_.at(v), v}, {}, {{"now", std::int64_t{1}}});
    }
    for (ir::op* o : p_.pieces[0].loads) {
      ir::builder at = ir::builder::after(k_, *o);
      at.locate(o->where);
      at.make(opcode::var_set, {cells_.at(o->result()), o->result()}, {}, {{"now", std::int64_t{1}}});
    }
    ir::builder at = ir::builder::after(k_, *last);
    at.locate(last->where);
    if (number_) at.set(number_, body.arguments[0].get());
    else
      for (const auto& [of, cell] : coordinates_) at.set(cell, of);
    at.set(filled_, at.boolean(true));
    for (size_t i = p_.pieces.size(); i-- > 0;) {
      const piece& p = p_.pieces[i];
      for (ir::op* old : p.stores) ir::erase(*old);
      for (auto o = p.work.rbegin(); o != p.work.rend(); ++o)
        if (i > 0 || std::find(p.loads.begin(), p.loads.end(), *o) == p.loads.end()) ir::erase(**o);
    }
  }

  ir::kernel& k_;
  const plan& p_;
  const bool with_work_;
  std::map<value, value> cells_;                           // of what is kept and what is loaded
  std::vector<std::pair<ir::type, value>> loaded_;
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
    if (understand(k, who, p)) deferrer(k, p).run();
  }
}

}  // namespace tlx::pass
