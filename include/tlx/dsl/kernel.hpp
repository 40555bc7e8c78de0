// The door: trace(name, target, body) runs the body once, on the host, with proxies for the arguments, and gives the recorded kernel.
#pragma once
#include <memory>
#include <string>

#include "tlx/dsl/debug.hpp"
#include "tlx/dsl/detail/arguments.hpp"
#include "tlx/dsl/mma.hpp"
#include "tlx/dsl/tiles.hpp"
#include "tlx/support/error.hpp"

namespace tlx {

struct warp_count { int value; };
namespace literals {
constexpr warp_count operator""_warp(unsigned long long n) { return {static_cast<int>(n)}; }
constexpr warp_count operator""_warps(unsigned long long n) { return {static_cast<int>(n)}; }
}  // namespace literals

/// Registers a thread of the role may use; 0: the compiler divides them.
struct registers { int value = 0; };

template <class Body>
struct role_of {
  std::string name;
  int warps;
  Body body;
  location where;
  int registers = 0;
  bool turns = false;

  /// Two such roles instead of one, where accumulators are registers (Hopper): each takes every other tile, and one finishes a tile while the other multiplies the next.
  /// The rings that the role drains are shared; it may fill none. Where there is tensor memory it is one role as before.
  role_of in_turns() const {
    role_of made = *this;
    made.turns = true;
    return made;
  }
};
/// A part of the kernel that runs beside the others on warps of its own. `body(box)` is recorded once and runs for every tile of the list.
template <class Body>
role_of<Body> role(std::string name, warp_count warps, Body body, location where = location::here()) { return {std::move(name), warps.value, std::move(body), where}; }
template <class Body>
role_of<Body> role(std::string name, warp_count warps, registers budget, Body body, location where = location::here()) {
  return {std::move(name), warps.value, std::move(body), where, budget.value};
}

/// A name and the place where it was given.
struct named {
  const char* text;
  location where;
  named(const char* name, location at = location::here()) : text(name), where(at) {}  // NOLINT(google-explicit-constructor): ring("ab", ...)
};

template <class List>
struct persistent_list { List list; };

/// The CTA being described.
class block {
 public:
  explicit block(dsl::context& c) : home_(&c) {}
  dsl::context& home() const { return *home_; }
  const std::string& target() const { return home_->kernel().target; }
  bool has_tensor_memory() const { return target().rfind("sm_10", 0) == 0; }

  /// Warps of a kernel without roles.
  void warps(warp_count n) { home_->kernel().warps = n.value; }
  /// Loads and stores of this kernel are ordinary ones: any stride and alignment, at ordinary speed. A loading role then wants several warps.
  void move_by_threads() { home_->by_threads = true; }
  /// CTAs that must fit on one SM together: checked against registers and shared memory.
  void per_processor(int n) { home_->kernel().blocks_per_processor = n; }
  /// CTAs of a cluster: they run side by side on tiles that are neighbours, and load_for_cluster brings each of them what all of them need. Comes before the list of tiles.
  void cluster(int n) { home_->kernel().cluster[0] = n; }
  /// A cluster of two that multiply together where there is tensor memory: each CTA has its own rows of accumulator and first operand, and keeps half of the
  /// second, which both load with load_for_cluster. Elsewhere cluster(2).
  void pair() {
    cluster(2);
    home_->pairs = has_tensor_memory();
  }

  /// A ring of Stages slots, each with one part per spec: cta.ring<4>("ab", shared<bf16, 128, 64>, shared<bf16, 256, 64>).
  template <int Stages, class... Specs>
  ring_of<Stages, Specs...> ring(const named& name, Specs...) const {
    return {*home_, home_->at(name.where).make(ir::opcode::ring_make, {}, {ir::type::ring_of(Stages, {Specs::type()...})}, {{"name", std::string(name.text)}}).result()};
  }

  /// An accumulator of its own, for products in a loop: mma(acc, a, b, accumulate(i > 0)).
  template <class T, int Rows, int Cols>
  operand_of<accumulator_spec<T, Rows, Cols>> make(accumulator_spec<T, Rows, Cols>, location where = location::here()) const {
    return {home_, home_->at(where).make(ir::opcode::acc_make, {}, {accumulator_spec<T, Rows, Cols>::type()}).result()};
  }

  template <class T> cell<T> carry(const scalar<T>& first) const { return {*home_, first}; }
  template <class T, int R, int C> tile_cell<T, R, C> carry(const tile_of<T, R, C>& first) const { return tile_cell<T, R, C>(first); }
  /// The same for what a role keeps from one tile of its list to the next: `first()` is recorded before them.
  template <class First>
  auto keep(First&& first) const {
    const auto make = [&] { return std::make_unique<decltype(carry(first()))>(carry(first())); };
    return *dsl::before(*home_, dsl::loop_over_tiles(*home_), make);
  }

  /// As many CTAs as fit stay on the chip and walk the list with the grid's stride.
  template <class List>
  persistent_list<List> persistent(List list) const {
    auto& k = home_->kernel();
    std::string fit = "(mul processors " + std::to_string(k.blocks_per_processor) + ")";
    if (const int n = clusters_of(list); n > 1) fit = "(max 1 (div " + fit + " " + std::to_string(n) + "))";
    k.grid[0] = whole_clusters("(min " + fit + " " + list.count_formula() + ")");
    return {std::move(list)};
  }

  /// One tile per CTA, bound by the hardware; `body(box)` runs where the slot has a tile.
  template <class List, class Body>
  void tile(const List& list, Body&& body, location where = location::here()) const {
    clusters_of(list);
    home_->kernel().grid[0] = whole_clusters(list.count_formula());
    list.visit(by_clusters(cta_id(where)), body);
  }

  template <class List, class... Bodies>
  void roles(const persistent_list<List>& tiles, const role_of<Bodies>&... all) const {
    dsl::each_role(std::tuple<const role_of<Bodies>&...>(all...), [&](const auto& r) {
      ir::op& made = home_->at(r.where).make(ir::opcode::role, {}, {}, {{"name", r.name}, {"warps", std::int64_t{r.warps}}});
      if (r.registers) made.set("registers", std::int64_t{r.registers});
      if (r.turns && !has_tensor_memory()) made.set("turns", std::int64_t{2});
      home_->within(ir::builder::add_region(made), [&] {
        const index first = by_clusters(cta_id(r.where));
        const index step = by_clusters(index(*home_, home_->at().simple(ir::opcode::grid_size, tile::element::s32, {{"axis", std::int64_t{0}}})));
        ir::value count = tiles.list.count().used();
        ir::op& loop = home_->at().make(ir::opcode::for_loop, {first.used(), count, step.used()}, {}, {{"tiles", std::int64_t{1}}});
        ir::region& inner = ir::builder::add_region(loop);
        inner.arguments.push_back(std::make_unique<ir::value_def>(ir::value_def{.type = count->type, .owner = nullptr, .scope = &inner, .name = "tile"}));
        home_->within(inner, [&] { tiles.list.visit(index(*home_, inner.arguments[0].get()), r.body); });
      });
    });
  }

  index cta_id(location where = location::here()) const {
    return {*home_, home_->at(where).make(ir::opcode::cta_id, {}, {ir::type::scalar(tile::element::s32)}, {{"axis", std::int64_t{0}}}).result()};
  }

 private:
  // A list that knows clusters gives all CTAs of one the same number, and each its own box.
  template <class List>
  int clusters_of(const List& list) const {
    const int n = home_->kernel().cluster[0];
    if (ctas_of(list) != n)
      raise(user_error({.id = "cluster-tiles", .what = "a kernel of clusters of " + std::to_string(n) + " walks a list of tiles for " + std::to_string(ctas_of(list)), .where = home_->kernel().where,
                        .because = "the CTAs of a cluster divide each tile of the list among them", .fix = {"say cta.cluster before the list is made, and use grid_of", "leave cta.cluster out"},
                        .context = "kernel \"" + home_->kernel().name + "\""}));
    return n;
  }
  index by_clusters(const index& i) const { return home_->kernel().cluster[0] > 1 ? i / constant(*home_, home_->kernel().cluster[0]) : i; }
  std::string whole_clusters(const std::string& count) const {
    const int n = home_->kernel().cluster[0];
    return n > 1 ? "(mul " + std::to_string(n) + " " + count + ")" : count;
  }

  dsl::context* home_;
};

/// An accumulator of its own (no ring): a * b.
template <class A, class B>
auto mma(const A& a, const B& b, location where = location::here()) {
  auto x = dsl::handle(a);
  auto y = dsl::handle(b);
  using spec = accumulator_spec<dsl::sum_of<typename dsl::operand_element<decltype(x)>::type>, decltype(x)::rows, decltype(y)::cols>;
  dsl::context& c = context_of(x);
  operand_of<spec> acc{&c, c.at(where).make(ir::opcode::acc_make, {}, {spec::type()}).result()};
  dsl::record_mma(acc, x, y, nullptr, where);
  return acc;
}
template <class S, bool T> dsl::context& context_of(const operand_of<S, T>& o) { return *o.home; }
template <class T, int R, int C> dsl::context& context_of(const tile_of<T, R, C>& t) { return t.home(); }

/// Records a kernel. `body(block&, Arguments)` runs now, once, on this thread. Raises user_error for everything that is wrong with the description.
template <class Arguments, class Body>
std::unique_ptr<ir::kernel> trace(const std::string& name, const std::string& target, Body&& body, location where = location::here()) {
  dsl::context c(name, target, where);
  Arguments arguments;
  dsl::bind_arguments(c, arguments);
  block cta(c);
  body(cta, arguments);
  return c.finish();
}

}  // namespace tlx
