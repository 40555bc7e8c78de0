// Scalars of a kernel: arithmetic, comparison, approximate functions. C++ control flow on them does not compile; see flow.hpp for the words that do.
#pragma once
#include <cstdint>
#include <type_traits>

#include "tlx/dsl/context.hpp"
#include "tlx/tile/element.hpp"

namespace tlx {

/// A constant written in the source. Only constant expressions convert: a run-time value of the host is a parameter of the kernel, or an explicit
/// constant(v), never a silent part of the code.
// clang 14 refuses template parameters as arguments of immediate functions, so with it the rule is not enforced.
#if defined(__clang__) && __clang_major__ < 16
#define TLX_IMMEDIATE constexpr
#else
#define TLX_IMMEDIATE consteval
#endif
template <class T>
struct literal {
  T value;
  TLX_IMMEDIATE literal(T v) : value(v) {}  // NOLINT(google-explicit-constructor): `x * 2` is the point
};
#undef TLX_IMMEDIATE

namespace dsl {
template <class T> ir::value constant_of(context& c, T v) {
  if constexpr (std::is_floating_point_v<T>) return c.at().number(static_cast<double>(v), tile::element_of<T>);
  else if constexpr (std::is_arithmetic_v<T>) return c.at().integer(static_cast<std::int64_t>(v), tile::element_of<T>);
  else return c.at().number(static_cast<double>(static_cast<float>(v)), tile::element_of<T>);
}
}  // namespace dsl

template <class T>
class scalar {
 public:
  using element_type = T;
  scalar() = default;  // bound when the kernel's arguments are; using an unbound one is an error
  scalar(dsl::context& home, ir::value v) : home_(&home), value_(v) {}
  scalar(const scalar&) = default;
  scalar& operator=(const scalar&) = delete;  // a carried value is a cell<T>: an assignment would be lost when the loop is recorded
  explicit operator bool() const = delete;    // `if` on a traced value: use when(condition, ...)

  dsl::context& home() const { return dsl::bound(home_); }
  ir::value raw() const { return value_; }
  void bind(dsl::context& home, ir::value v) {
    home_ = &home;
    value_ = v;
  }

#define TLX_BINARY(symbol, code)                                                                                                             \
  friend scalar operator symbol(const scalar& a, const scalar& b) { return a.with(a.home().at().binary(ir::opcode::code, a.used(), a.used(b))); } \
  friend scalar operator symbol(const scalar& a, literal<T> b) { return a.with(a.home().at().binary(ir::opcode::code, a.used(), a.made(b))); }     \
  friend scalar operator symbol(literal<T> a, const scalar& b) { return b.with(b.home().at().binary(ir::opcode::code, b.made(a), b.used())); }
  TLX_BINARY(+, add)
  TLX_BINARY(-, sub)
  TLX_BINARY(*, mul)
  TLX_BINARY(/, div)
  TLX_BINARY(%, rem)
  TLX_BINARY(&, bit_and)
  TLX_BINARY(|, bit_or)
  TLX_BINARY(^, bit_xor)
  TLX_BINARY(<<, shl)
  TLX_BINARY(>>, shr)
#undef TLX_BINARY
#define TLX_COMPARE(symbol, name)                                                                                                                      \
  friend scalar<bool> operator symbol(const scalar& a, const scalar& b) { return {a.home(), a.home().at().compare(name, a.used(), a.used(b))}; }        \
  friend scalar<bool> operator symbol(const scalar& a, literal<T> b) { return {a.home(), a.home().at().compare(name, a.used(), a.made(b))}; }           \
  friend scalar<bool> operator symbol(literal<T> a, const scalar& b) { return {b.home(), b.home().at().compare(name, b.made(a), b.used())}; }
  TLX_COMPARE(<, "lt")
  TLX_COMPARE(<=, "le")
  TLX_COMPARE(>, "gt")
  TLX_COMPARE(>=, "ge")
  TLX_COMPARE(==, "eq")
  TLX_COMPARE(!=, "ne")
#undef TLX_COMPARE
  friend scalar operator-(const scalar& a) { return a.with(a.home().at().unary(ir::opcode::neg, a.used())); }

  ir::value used() const { return home().use(value_, home_); }

 private:
  scalar with(ir::value v) const { return {*home_, v}; }
  ir::value used(const scalar& other) const { return home().use(other.value_, other.home_); }
  ir::value made(literal<T> l) const { return dsl::constant_of(*home_, l.value); }

  dsl::context* home_ = nullptr;
  ir::value value_ = nullptr;
};

using index = scalar<std::int32_t>;
using predicate = scalar<bool>;

/// Both conditions are computed; there is nothing to short-circuit.
inline predicate operator&&(const predicate& a, const predicate& b) { return a & b; }
inline predicate operator||(const predicate& a, const predicate& b) { return a | b; }
inline predicate operator!(const predicate& a) { return {a.home(), a.home().at().unary(ir::opcode::bit_not, a.used())}; }

/// A host value made part of the code, on purpose: another value is another kernel.
template <class T>
scalar<T> constant(dsl::context& c, T v) { return {c, dsl::constant_of(c, v)}; }

template <class To, class From>
scalar<To> cast(const scalar<From>& a) { return {a.home(), a.home().at().cast(a.used(), tile::element_of<To>)}; }

template <class T> scalar<T> min(const scalar<T>& a, const scalar<T>& b) { return {a.home(), a.home().at().binary(ir::opcode::min, a.used(), a.home().use(b.raw(), &b.home()))}; }
template <class T> scalar<T> max(const scalar<T>& a, const scalar<T>& b) { return {a.home(), a.home().at().binary(ir::opcode::max, a.used(), a.home().use(b.raw(), &b.home()))}; }
template <class T> scalar<T> min(const scalar<T>& a, literal<std::type_identity_t<T>> b) { return min(a, constant(a.home(), b.value)); }
template <class T> scalar<T> max(const scalar<T>& a, literal<std::type_identity_t<T>> b) { return max(a, constant(a.home(), b.value)); }
/// (a + b - 1) / b for a >= 0.
inline index ceil_div(const index& a, literal<std::int32_t> b) { return {a.home(), a.home().at().ceil_div(a.used(), b.value)}; }
template <class T> scalar<T> where(const predicate& c, const scalar<T>& a, const scalar<T>& b) { return {a.home(), a.home().at().select(c.used(), a.used(), b.used())}; }

}  // namespace tlx
