// Rings: what one role hands to another, slot by slot. Fill opens the next free slot, drain the next filled one; a slot closes when its handle goes.
#pragma once
#include <exception>
#include <string>
#include <tuple>

#include "tlx/dsl/memory.hpp"

namespace tlx {

/// An open slot. Parts: get<0>(slot), or `auto [a, b] = ring.fill();`. A slot of one part converts to it.
template <class... Specs>
class slot_of {
 public:
  slot_of(dsl::context& home, ir::op& opened) : home_(&home), opened_(&opened), unwinding_(std::uncaught_exceptions()) {}
  slot_of(const slot_of&) = delete;
  slot_of& operator=(const slot_of&) = delete;
  ~slot_of() {
    if (std::uncaught_exceptions() == unwinding_) home_->close(*opened_);
  }
  template <size_t I>
  operand_of<std::tuple_element_t<I, std::tuple<Specs...>>> part() const { return {home_, opened_->result(I)}; }
  dsl::context& home() const { return *home_; }

 private:
  dsl::context* home_;
  ir::op* opened_;
  int unwinding_;
};
template <size_t I, class... Specs> auto get(const slot_of<Specs...>& s) { return s.template part<I>(); }

template <int Stages, class... Specs>
class ring_of {
 public:
  static_assert(Stages >= 1, "tlx: a ring has at least one stage");
  ring_of(dsl::context& home, ir::value v) : home_(&home), value_(v) {}
  /// Opens the next free slot for writing; waits until its readers have let go.
  slot_of<Specs...> fill(location where = location::here()) const { return open(ir::opcode::ring_fill, where); }
  /// Opens the next filled slot for reading; waits until all of it has arrived.
  slot_of<Specs...> drain(location where = location::here()) const { return open(ir::opcode::ring_drain, where); }

 private:
  slot_of<Specs...> open(ir::opcode code, location where) const {
    home_->at(where);
    ir::value v = home_->use(value_, home_);
    return {*home_, home_->at().make(code, {v}, {Specs::type()...})};
  }
  dsl::context* home_;
  ir::value value_;
};

}  // namespace tlx

template <class... Specs> struct std::tuple_size<tlx::slot_of<Specs...>> : std::integral_constant<size_t, sizeof...(Specs)> {};
template <size_t I, class... Specs> struct std::tuple_element<I, tlx::slot_of<Specs...>> {
  using type = const tlx::operand_of<std::tuple_element_t<I, std::tuple<Specs...>>>;
};
