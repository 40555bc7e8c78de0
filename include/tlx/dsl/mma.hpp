// Matrix products into accumulators: wgmma on Hopper, tcgen05 on Blackwell.
#pragma once
#include <optional>
#include <type_traits>

#include "tlx/dsl/move.hpp"
#include "tlx/tile/mma_shape.hpp"

namespace tlx {

/// mma(..., accumulate(k > 0)): keep what the accumulator holds where the condition is true, overwrite it otherwise.
struct accumulate {
  std::optional<predicate> condition;
  bool always = false;
  explicit accumulate(const predicate& p) : condition(p) {}
  explicit accumulate(bool keep) : always(keep) {}
};

namespace dsl {
template <class A, bool TA> ir::value operand_value(const context& c, const operand_of<A, TA>& o) { return c.use(o.value, o.home); }
template <class T, int R, int C> ir::value operand_value(const context& c, const tile_of<T, R, C>& t) { return c.use(t.raw(), &t.home()); }
template <class X> inline constexpr bool is_transposed = false;
template <class S> inline constexpr bool is_transposed<operand_of<S, true>> = true;

template <class X> struct operand_element { using type = typename X::element_type; };
template <class S, bool T> struct operand_element<operand_of<S, T>> { using type = typename S::element_type; };
/// What products of T are summed in.
template <class T> using sum_of = std::conditional_t<std::is_integral_v<T>, std::int32_t, float>;

template <class Acc, class A, class B>
void record_mma(const operand_of<Acc>& acc, const A& a, const B& b, ir::value condition, location where) {
  static_assert(A::rows == Acc::rows, "tlx: mma(acc, a, b): a has another number of rows than the accumulator");
  static_assert(B::cols == Acc::cols, "tlx: mma(acc, a, b): b has another number of columns than the accumulator (stored N x K? write transpose(b))");
  static_assert(A::cols == B::rows, "tlx: mma(acc, a, b): the columns of a and the rows of b (K) differ (stored N x K? write transpose(b))");
  using left = typename operand_element<A>::type;
  using right = typename operand_element<B>::type;
  static_assert(tile::kind_of(tile::element_of<left>).has_value() && tile::kind_of(tile::element_of<right>).has_value(),
                "tlx: mma(acc, a, b): operands are bf16, f16, tf32, e4m3, e5m2, s8 or u8 (cast register tiles first)");
  static_assert(tile::mma_elements_problem(tile::element_of<typename Acc::element_type>, tile::element_of<left>, tile::element_of<right>) == nullptr &&
                    std::is_same_v<typename Acc::element_type, sum_of<left>>,
                "tlx: mma(acc, a, b): both operands are of one kind (16-bit floats of one type, tf32, 8-bit floats, 8-bit integers); floats accumulate in float, integers in "
                "std::int32_t");
  context& c = *acc.home;
  c.at(where);
  std::vector<ir::value> operands{c.use(acc.value, acc.home), operand_value(c, a), operand_value(c, b)};
  if (condition) operands.push_back(condition);
  ir::op& made = c.at().make(ir::opcode::mma, operands, {}, {{"ta", std::int64_t{is_transposed<A>}}, {"tb", std::int64_t{is_transposed<B>}}});
  if (c.pairs) made.set("ctas", std::int64_t{2});
}
template <class S> operand_of<S> handle(const slot_of<S>& s) { return s.template part<0>(); }
template <class S, bool T> operand_of<S, T> handle(const operand_of<S, T>& o) { return o; }
template <class T, int R, int C> tile_of<T, R, C> handle(const tile_of<T, R, C>& t) { return t; }
}  // namespace dsl

/// acc = a * b. a is M x K (a shared tile, or a register tile), b is K x N; a stored tile of the other orientation is transpose(x).
template <class Acc, class A, class B>
void mma(const Acc& acc, const A& a, const B& b, location where = location::here()) {
  dsl::record_mma(dsl::handle(acc), dsl::handle(a), dsl::handle(b), nullptr, where);
}
/// acc = a * b + (condition ? acc : 0).
template <class Acc, class A, class B>
void mma(const Acc& acc, const A& a, const B& b, const accumulate& when, location where = location::here()) {
  const auto to = dsl::handle(acc);
  to.home->at(where);
  ir::value keep = when.condition ? when.condition->used() : to.home->at().boolean(when.always);
  dsl::record_mma(to, dsl::handle(a), dsl::handle(b), keep, where);
}
template <class S> auto transpose(const slot_of<S>& s) { return transpose(s.template part<0>()); }

/// The accumulator's values. Lazy: a later pass walks the expression around it in column chunks.
template <class T, int R, int C>
tile_of<T, R, C> read(const operand_of<accumulator_spec<T, R, C>>& acc, location where = location::here()) {
  dsl::context& c = *acc.home;
  c.at(where);
  ir::value v = c.use(acc.value, acc.home);
  return {c, c.at().make(ir::opcode::acc_read, {v}, {ir::type::tile_of(tile::element_of<T>, R, C)}).result()};
}
/// Columns [first, first + Cols) of it, a multiple of 8 each.
template <int Cols, class T, int R, int C>
tile_of<T, R, Cols> read_columns(const operand_of<accumulator_spec<T, R, C>>& acc, int first, location where = location::here()) {
  static_assert(Cols <= C && Cols % 8 == 0, "tlx: read_columns(acc, first): more columns than the accumulator has, or no multiple of 8");
  dsl::context& c = *acc.home;
  c.at(where);
  ir::value v = c.use(acc.value, acc.home);
  return {c, c.at().make(ir::opcode::acc_read, {v}, {ir::type::tile_of(tile::element_of<T>, R, Cols)}, {{"column", std::int64_t{first}}}).result()};
}
/// Into the accumulator, whose products so far are waited for; later ones add to it.
template <class T, int R, int C>
void write(const operand_of<accumulator_spec<T, R, C>>& acc, const tile_of<T, R, C>& what, location where = location::here()) {
  dsl::context& c = *acc.home;
  c.at(where);
  ir::value v = c.use(acc.value, acc.home), tile = c.use(what.raw(), &what.home());
  c.at().make(ir::opcode::acc_write, {v, tile});
}
template <class T, int R, int C>
tile_of<T, R, C> read(const slot_of<accumulator_spec<T, R, C>>& s, location where = location::here()) { return read(s.template part<0>(), where); }

}  // namespace tlx
