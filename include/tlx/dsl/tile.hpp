// Register tiles: elementwise arithmetic with broadcasting of row and column vectors, reductions along an axis, casts.
#pragma once
#include <limits>

#include "tlx/dsl/value.hpp"

namespace tlx {

/// A (Rows x Cols) tile held in the registers of a role's threads. Row vectors are 1 x Cols, column vectors Rows x 1.
template <class T, int Rows, int Cols>
class tile_of {
 public:
  using element_type = T;
  static constexpr int rows = Rows, cols = Cols;
  tile_of(dsl::context& home, ir::value v) : home_(&home), value_(v) {}
  tile_of(const tile_of&) = default;
  tile_of& operator=(const tile_of&) = delete;
  dsl::context& home() const { return *home_; }
  ir::value raw() const { return value_; }
  ir::value used() const { return home_->use(value_, home_); }
  static ir::type type() { return ir::type::tile_of(tile::element_of<T>, Rows, Cols); }

 private:
  dsl::context* home_;
  ir::value value_;
};

namespace dsl {

constexpr bool shapes_agree(int a, int b) { return a == b || a == 1 || b == 1; }
constexpr int joined(int a, int b) { return a > b ? a : b; }

/// Repeats a row or column vector to Rows x Cols; a tile of that shape is itself.
template <int Rows, int Cols, class T, int R, int C>
ir::value spread(const tile_of<T, R, C>& t) {
  ir::value v = t.used();
  if constexpr (R == Rows && C == Cols) return v;
  else return t.home().at().make(ir::opcode::broadcast, {v}, {ir::type::tile_of(tile::element_of<T>, Rows, Cols)}).result();
}

template <class Result, class T, int R1, int C1, int R2, int C2, class Make>
auto elementwise(const tile_of<T, R1, C1>& a, const tile_of<T, R2, C2>& b, Make&& make) {
  static_assert(shapes_agree(R1, R2) && shapes_agree(C1, C2), "tlx: these tiles have different shapes and neither is a row or column vector of the other");
  constexpr int rows = joined(R1, R2), cols = joined(C1, C2);
  ir::value left = spread<rows, cols>(a);
  ir::value right = a.home().use(spread<rows, cols>(b), &b.home());
  return tile_of<Result, rows, cols>(a.home(), make(a.home().at(), left, right));
}

template <class T, int R, int C>
tile_of<T, R, C> unary(ir::opcode code, const tile_of<T, R, C>& a, location where) {
  a.home().at(where);
  ir::value v = a.used();
  return {a.home(), a.home().at().unary(code, v)};
}
template <class T>
scalar<T> unary(ir::opcode code, const scalar<T>& a, location where) {
  a.home().at(where);
  ir::value v = a.used();
  return {a.home(), a.home().at().unary(code, v)};
}

}  // namespace dsl

#define TLX_TILE_BINARY(symbol, code)                                                                                                                  \
  template <class T, int R1, int C1, int R2, int C2>                                                                                                   \
  auto operator symbol(const tile_of<T, R1, C1>& a, const tile_of<T, R2, C2>& b) {                                                                     \
    return dsl::elementwise<T>(a, b, [](ir::builder& at, ir::value x, ir::value y) { return at.binary(ir::opcode::code, x, y); });                     \
  }                                                                                                                                                    \
  template <class T, int R, int C>                                                                                                                     \
  tile_of<T, R, C> operator symbol(const tile_of<T, R, C>& a, const scalar<T>& b) {                                                                    \
    ir::value x = a.used(), y = a.home().use(b.raw(), &b.home());                                                                                      \
    return {a.home(), a.home().at().binary(ir::opcode::code, x, y)};                                                                                   \
  }                                                                                                                                                    \
  template <class T, int R, int C>                                                                                                                     \
  tile_of<T, R, C> operator symbol(const scalar<T>& a, const tile_of<T, R, C>& b) {                                                                    \
    ir::value x = b.home().use(a.raw(), &a.home()), y = b.used();                                                                                      \
    return {b.home(), b.home().at().binary(ir::opcode::code, x, y)};                                                                                   \
  }                                                                                                                                                    \
  template <class T, int R, int C>                                                                                                                     \
  tile_of<T, R, C> operator symbol(const tile_of<T, R, C>& a, literal<std::type_identity_t<T>> b) {                                                    \
    return a symbol constant(a.home(), b.value);                                                                                                       \
  }                                                                                                                                                    \
  template <class T, int R, int C>                                                                                                                     \
  tile_of<T, R, C> operator symbol(literal<std::type_identity_t<T>> a, const tile_of<T, R, C>& b) {                                                    \
    return constant(b.home(), a.value) symbol b;                                                                                                       \
  }
TLX_TILE_BINARY(+, add)
TLX_TILE_BINARY(-, sub)
TLX_TILE_BINARY(*, mul)
TLX_TILE_BINARY(/, div)
#undef TLX_TILE_BINARY

#define TLX_TILE_COMPARE(symbol, name)                                                                                                     \
  template <class T, int R1, int C1, int R2, int C2>                                                                                       \
  auto operator symbol(const tile_of<T, R1, C1>& a, const tile_of<T, R2, C2>& b) {                                                         \
    return dsl::elementwise<bool>(a, b, [](ir::builder& at, ir::value x, ir::value y) { return at.compare(name, x, y); });                 \
  }                                                                                                                                        \
  template <class T, int R, int C>                                                                                                         \
  tile_of<bool, R, C> operator symbol(const tile_of<T, R, C>& a, const scalar<T>& b) {                                                     \
    ir::value x = a.used(), y = a.home().use(b.raw(), &b.home());                                                                          \
    return {a.home(), a.home().at().compare(name, x, y)};                                                                                  \
  }                                                                                                                                        \
  template <class T, int R, int C>                                                                                                         \
  tile_of<bool, R, C> operator symbol(const tile_of<T, R, C>& a, literal<std::type_identity_t<T>> b) {                                     \
    return a symbol constant(a.home(), b.value);                                                                                           \
  }
TLX_TILE_COMPARE(<, "lt")
TLX_TILE_COMPARE(<=, "le")
TLX_TILE_COMPARE(>, "gt")
TLX_TILE_COMPARE(>=, "ge")
TLX_TILE_COMPARE(==, "eq")
TLX_TILE_COMPARE(!=, "ne")
#undef TLX_TILE_COMPARE

template <class T, int R, int C> tile_of<T, R, C> operator-(const tile_of<T, R, C>& a) { return dsl::unary(ir::opcode::neg, a, a.home().at().located()); }

/// 2^x, log2(x), 1/x, 1/sqrt(x), tanh(x): the hardware's approximate functions (ftz); sqrt is IEEE; erf to 2e-7 absolute. See docs/numerics.md.
#define TLX_FUNCTION(name, code)                                                                                        \
  template <class X> X name(const X& x, location where = location::here()) { return dsl::unary(ir::opcode::code, x, where); }
TLX_FUNCTION(exp2, exp2)
TLX_FUNCTION(log2, log2)
TLX_FUNCTION(rcp, rcp)
TLX_FUNCTION(rsqrt, rsqrt)
TLX_FUNCTION(sqrt, sqrt)
TLX_FUNCTION(tanh, tanh)
TLX_FUNCTION(erf, erf)
TLX_FUNCTION(abs, abs)
TLX_FUNCTION(sin, sin)
TLX_FUNCTION(cos, cos)
#undef TLX_FUNCTION

template <class T, int R1, int C1, int R2, int C2>
auto max(const tile_of<T, R1, C1>& a, const tile_of<T, R2, C2>& b) {
  return dsl::elementwise<T>(a, b, [](ir::builder& at, ir::value x, ir::value y) { return at.binary(ir::opcode::max, x, y); });
}
template <class T, int R1, int C1, int R2, int C2>
auto min(const tile_of<T, R1, C1>& a, const tile_of<T, R2, C2>& b) {
  return dsl::elementwise<T>(a, b, [](ir::builder& at, ir::value x, ir::value y) { return at.binary(ir::opcode::min, x, y); });
}
template <class T, int R, int C>
tile_of<T, R, C> max(const tile_of<T, R, C>& a, literal<std::type_identity_t<T>> b) {
  ir::value x = a.used();
  return {a.home(), a.home().at().binary(ir::opcode::max, x, dsl::constant_of(a.home(), b.value))};
}
template <class T, int R, int C>
tile_of<T, R, C> min(const tile_of<T, R, C>& a, literal<std::type_identity_t<T>> b) {
  ir::value x = a.used();
  return {a.home(), a.home().at().binary(ir::opcode::min, x, dsl::constant_of(a.home(), b.value))};
}

/// The larger of both; NaN where `a` is, which max passes over.
template <class T, int R, int C>
tile_of<T, R, C> max_or_nan(const tile_of<T, R, C>& a, literal<std::type_identity_t<T>> b) {
  const tile_of<T, R, C> made = max(a, b);
  made.used()->owner->set("nan", std::int64_t{1});
  return made;
}
template <class T, int R, int C>
tile_of<T, R, C> max(literal<std::type_identity_t<T>> b, const tile_of<T, R, C>& a) { return max(a, b); }
template <class T, int R, int C>
tile_of<T, R, C> min(literal<std::type_identity_t<T>> b, const tile_of<T, R, C>& a) { return min(a, b); }
template <class T, int R, int C>
tile_of<T, R, C> max(const tile_of<T, R, C>& a, const scalar<T>& b) {
  ir::value x = a.used(), y = a.home().use(b.raw(), &b.home());
  return {a.home(), a.home().at().binary(ir::opcode::max, x, y)};
}
template <class T, int R, int C>
tile_of<T, R, C> min(const tile_of<T, R, C>& a, const scalar<T>& b) {
  ir::value x = a.used(), y = a.home().use(b.raw(), &b.home());
  return {a.home(), a.home().at().binary(ir::opcode::min, x, y)};
}
template <class T, int R, int C> tile_of<T, R, C> max(const scalar<T>& b, const tile_of<T, R, C>& a) { return max(a, b); }
template <class T, int R, int C> tile_of<T, R, C> min(const scalar<T>& b, const tile_of<T, R, C>& a) { return min(a, b); }

/// a * b + c with one rounding.
template <class T, int R, int C>
tile_of<T, R, C> fma(const tile_of<T, R, C>& a, const tile_of<T, R, C>& b, const tile_of<T, R, C>& c) {
  return {a.home(), a.home().at().make(ir::opcode::fma, {a.used(), b.used(), c.used()}, {a.type()}).result()};
}

/// a * b + c with one rounding, b the same for all elements; c may be a row or column vector.
template <class T, int R, int C, int R2, int C2>
tile_of<T, R, C> fma(const tile_of<T, R, C>& a, const scalar<T>& b, const tile_of<T, R2, C2>& c) {
  ir::value x = a.used(), y = a.home().use(b.raw(), &b.home()), z = dsl::spread<R, C>(c);
  return {a.home(), a.home().at().make(ir::opcode::fma, {x, y, z}, {a.type()}).result()};
}

/// condition ? a : otherwise, elementwise. `condition` may be a row or column vector.
template <class T, int R, int C, int R2, int C2>
tile_of<T, R, C> where(const tile_of<bool, R2, C2>& condition, const tile_of<T, R, C>& a, literal<std::type_identity_t<T>> otherwise) {
  ir::value c = dsl::spread<R, C>(condition);
  ir::value x = a.used();
  return {a.home(), a.home().at().select(c, x, dsl::constant_of(a.home(), otherwise.value))};
}
template <class T, int R, int C, int R2, int C2>
tile_of<T, R, C> where(const tile_of<bool, R2, C2>& condition, const tile_of<T, R, C>& a, const tile_of<T, R, C>& otherwise) {
  ir::value c = dsl::spread<R, C>(condition);
  ir::value x = a.used(), y = otherwise.used();
  return {a.home(), a.home().at().select(c, x, y)};
}

/// Every element the same.
template <class T, int R, int C>
tile_of<T, R, C> splat(dsl::context& c, literal<T> value) {
  return {c, c.at().splat(static_cast<double>(value.value), tile_of<T, R, C>::type())};
}

/// To another element type, round to nearest even.
template <class To, class From, int R, int C>
tile_of<To, R, C> cast(const tile_of<From, R, C>& a) {
  ir::value x = a.used();
  return {a.home(), a.home().at().cast(x, tile::element_of<To>)};
}

/// To a narrower type: nearest even, what is out of range becomes the nearest finite value. From f32 to floats, s8, u8, s16 and u16; NaN becomes the lowest
/// integer.
template <class To, int R, int C>
tile_of<To, R, C> cast_saturated(const tile_of<float, R, C>& a) {
  if constexpr (std::is_integral_v<To>) {
    static_assert(sizeof(To) <= 2, "tlx: cast_saturated rounds to integers of 8 and 16 bits");
    constexpr float low = static_cast<float>(std::numeric_limits<To>::lowest()), high = static_cast<float>(std::numeric_limits<To>::max());
    constexpr float to_units = 12582912.0f;  // 1.5 * 2^23: the sum has no bits below 1, so adding it rounds to a whole number
    const tile_of<float, R, C> inside = min(max(a, low), high);
    const tile_of<float, R, C> shifted = inside + to_units;
    return cast<To>(shifted - to_units);
  } else {
    ir::value x = a.used();
    return {a.home(), a.home().at().make(ir::opcode::cast, {x}, {tile_of<To, R, C>::type()}, {{"saturate", std::int64_t{1}}}).result()};
  }
}

namespace dsl {
template <class T, int R, int C, int Rows, int Cols>
tile_of<T, Rows, Cols> reduce(const char* op, int axis, const tile_of<T, R, C>& a, location where) {
  a.home().at(where);
  ir::value x = a.used();
  return {a.home(), a.home().at().make(ir::opcode::reduce, {x}, {ir::type::tile_of(tile::element_of<T>, Rows, Cols)}, {{"op", std::string(op)}, {"axis", std::int64_t{axis}}}).result()};
}
}  // namespace dsl

template <class T, int R, int C> tile_of<T, R, 1> row_max(const tile_of<T, R, C>& a, location where = location::here()) { return dsl::reduce<T, R, C, R, 1>("max", 1, a, where); }
template <class T, int R, int C> tile_of<T, R, 1> row_min(const tile_of<T, R, C>& a, location where = location::here()) { return dsl::reduce<T, R, C, R, 1>("min", 1, a, where); }
template <class T, int R, int C> tile_of<T, R, 1> row_sum(const tile_of<T, R, C>& a, location where = location::here()) { return dsl::reduce<T, R, C, R, 1>("add", 1, a, where); }

namespace dsl {
template <int First, class T, int R, int C>
tile_of<T, R, C / 2> every_other(const tile_of<T, R, C>& a, location where) {
  static_assert(C % 2 == 0, "tlx: even_columns and odd_columns want an even number of columns");
  a.home().at(where);
  ir::value x = a.used();
  return {a.home(), a.home().at().make(ir::opcode::every_other, {x}, {tile_of<T, R, C / 2>::type()}, {{"first", std::int64_t{First}}}).result()};
}
}  // namespace dsl

/// Columns 0 2 4 ... and 1 3 5 ... of a tile.
template <class T, int R, int C> auto even_columns(const tile_of<T, R, C>& a, location where = location::here()) { return dsl::every_other<0>(a, where); }
template <class T, int R, int C> auto odd_columns(const tile_of<T, R, C>& a, location where = location::here()) { return dsl::every_other<1>(a, where); }
/// The tile whose even and odd columns they are.
template <class T, int R, int C>
tile_of<T, R, 2 * C> interleave(const tile_of<T, R, C>& even, const tile_of<T, R, C>& odd, location where = location::here()) {
  even.home().at(where);
  ir::value x = even.used(), y = even.home().use(odd.raw(), &odd.home());
  return {even.home(), even.home().at().make(ir::opcode::interleave, {x, y}, {tile_of<T, R, 2 * C>::type()}).result()};
}

/// Index of each element along an axis of the tile.
template <int Rows, int Cols>
tile_of<std::int32_t, Rows, Cols> row_index(dsl::context& c, location where = location::here()) {
  return {c, c.at(where).make(ir::opcode::iota, {}, {ir::type::tile_of(tile::element::s32, Rows, Cols)}, {{"axis", std::int64_t{0}}}).result()};
}
template <int Rows, int Cols>
tile_of<std::int32_t, Rows, Cols> col_index(dsl::context& c, location where = location::here()) {
  return {c, c.at(where).make(ir::opcode::iota, {}, {ir::type::tile_of(tile::element::s32, Rows, Cols)}, {{"axis", std::int64_t{1}}}).result()};
}

}  // namespace tlx
