// Control flow that is recorded: for_each, when, and cells for what a loop carries.
#pragma once
#include <algorithm>
#include <memory>

#include "tlx/dsl/tile.hpp"

namespace tlx {

/// low, low + step, ... below high. Bounds are read once.
struct range {
  index low, high;
  int step = 1;
};
inline range below(const index& high) { return {constant(high.home(), 0), high, 1}; }

/// Runs `body(index)` for each element of the range, in order. No value made inside may be used outside; see cell.
template <class Body>
void for_each(const range& r, Body&& body, location where = location::here()) {
  dsl::context& c = r.high.home();
  c.at(where);
  ir::value low = r.low.used(), high = c.use(r.high.raw(), &r.high.home()), step = dsl::constant_of<std::int32_t>(c, r.step);
  ir::op& loop = c.at().make(ir::opcode::for_loop, {low, high, step});
  ir::region& inner = ir::builder::add_region(loop);
  inner.arguments.push_back(std::make_unique<ir::value_def>(ir::value_def{.type = low->type, .owner = nullptr, .scope = &inner, .name = "i"}));
  c.within(inner, [&] { body(index(c, inner.arguments[0].get())); });
}
template <class Body>
void for_each(const index& high, Body&& body, location where = location::here()) { for_each(below(high), body, where); }

/// Runs `then` where the condition holds.
template <class Then>
void when(const predicate& condition, Then&& then, location where = location::here()) {
  dsl::context& c = condition.home();
  ir::op& branch = c.at(where).make(ir::opcode::if_then, {condition.used()});
  ir::region& first = ir::builder::add_region(branch);
  ir::builder::add_region(branch);
  c.within(first, [&] { then(); });
}

/// Repeats `body()` while `condition()` holds; the condition is computed before each round.
template <class Condition, class Body>
void repeat_while(dsl::context& c, Condition&& condition, Body&& body, location where = location::here()) {
  ir::op& loop = c.at(where).make(ir::opcode::while_loop, {});
  ir::region& test = ir::builder::add_region(loop);
  ir::region& inner = ir::builder::add_region(loop);
  c.within(test, [&] {
    predicate p = condition();
    c.at().make(ir::opcode::yield, {p.used()});
  });
  c.within(inner, [&] { body(); });
}

/// Lane of the executing thread in its warp, 0 to 31.
inline index lane(dsl::context& c, location where = location::here()) { return {c, c.at(where).simple(ir::opcode::lane_id, tile::element::s32)}; }

/// Sum over the lanes of a warp, in every lane. All lanes must get here together (redux.sync).
inline index warp_sum(const index& a, location where = location::here()) {
  a.home().at(where);
  ir::value v = a.used();
  return {a.home(), a.home().at()
                        .make(ir::opcode::inline_ptx, {v}, {ir::type::scalar(tile::element::s32)},
                              {{"text", std::string("redux.sync.add.s32 $0, $1, 0xffffffff;")}, {"constraints", std::string("=r,r")}})
                        .result()};
}

/// A value that loops carry: set() and get() in program order.
template <class T>
class cell {
 public:
  cell(dsl::context& c, const scalar<T>& first) : home_(&c), value_(c.at().var(ir::type::scalar(tile::element_of<T>), first.used())) {}
  scalar<T> get() const { return {*home_, home_->at().get(home_->use(value_, home_))}; }
  void set(const scalar<T>& v) { home_->at().set(home_->use(value_, home_), v.used()); }

 private:
  dsl::context* home_;
  ir::value value_;
};

/// The same for a register tile; one tile's worth of registers.
template <class T, int R, int C>
class tile_cell {
 public:
  explicit tile_cell(const tile_of<T, R, C>& first) : home_(&first.home()), value_(home_->at().var(tile_of<T, R, C>::type(), first.used())) {}
  tile_of<T, R, C> get() const { return {*home_, home_->at().get(home_->use(value_, home_))}; }
  void set(const tile_of<T, R, C>& v) { home_->at().set(home_->use(value_, home_), v.used()); }

 private:
  dsl::context* home_;
  ir::value value_;
};

namespace dsl {

/// The loop over a role's list of tiles, in whose body is recorded.
inline ir::op& loop_over_tiles(context& c) {
  ir::op* loop = c.at().where().parent;
  while (!loop->integer("tiles")) loop = loop->parent->parent;
  return *loop;
}

/// Records right before that loop, which stands last in its role; gives what `make` gives, which may be neither copied nor empty.
template <class Make>
auto before(context& c, ir::op& loop, Make&& make) {
  ir::region& role = *loop.parent;
  const auto place = static_cast<std::ptrdiff_t>(role.ops.size()) - 1;
  decltype(make()) made;
  c.within(role, [&] { made = make(); });
  std::rotate(role.ops.begin() + place, role.ops.begin() + place + 1, role.ops.end());
  return made;
}

}  // namespace dsl

}  // namespace tlx
