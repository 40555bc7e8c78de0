// The generator interprets while it builds: every value of the kernel has its elements beside it, in plain C++ with the rules of docs/numerics.md.
#include "tests/compare/programs.hpp"

#include <bit>
#include <cmath>
#include <functional>

#include "tests/codegen/kernels.hpp"
#include "tests/compare/values.hpp"
#include "tlx/ir/builder.hpp"
#include "tlx/support/text.hpp"

namespace tlx::compare {

using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using integers = std::vector<std::int64_t>;

namespace {

/// A tile or scalar with its elements: numbers exact in double (s32, f32, bool).
struct known {
  value v = nullptr;
  element e = element::s32;
  int rows = 1, cols = 1;
  bool scalar = false;
  std::vector<double> x;
};

double flushed(double v) { return std::abs(v) < 0x1p-126 ? std::copysign(0.0, v) : v; }
double single(double v) { return flushed(static_cast<double>(static_cast<float>(v))); }
double wrapped(std::int64_t v) { return static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(v))); }
std::int64_t whole(double v) { return static_cast<std::int64_t>(v); }

class maker {
 public:
  maker(std::uint64_t seed, const std::string& target) : g_(seed) {
    struct shape { int rows, cols, warps; };
    const shape s = g_.of(std::vector<shape>{{64, 64, 4}, {16, 64, 4}, {32, 32, 4}, {128, 32, 4}, {64, 24, 4}, {32, 128, 8}, {16, 16, 4}, {64, 8, 4}});
    rows_ = s.rows, cols_ = s.cols;
    p_.traced = test::new_kernel("k", target, s.warps);
    b_ = std::make_unique<builder>(*p_.traced, p_.traced->body);
    b_->locate(location::here());
  }

  program make() {
    inputs();
    const int steps = g_.between(6, 24);
    for (int i = 0; i < steps; ++i) step();
    outputs();
    return std::move(p_);
  }

 private:
  builder& b() { return *b_; }

  value add_view(const std::string& name, element e, int rank) { return test::add_parameter(*p_.traced, name, type::view_of(e, rank)); }

  void inputs() {
    // Views first, in the order of memories; scalars after.
    std::vector<std::pair<element, value>> views;
    for (const auto& [name, e] : {std::pair{"a", element::f32}, {"b", element::s32}, {"c", element::f32}}) views.push_back({e, add_view(name, e, 2)});
    out_s_ = add_view("out_s", element::s32, 3);
    out_f_ = add_view("out_f", element::f32, 3);
    value n = test::add_parameter(*p_.traced, "n", type::scalar(element::s32));
    for (const auto& [e, view] : views) {
      const auto count = static_cast<std::size_t>(rows_ * cols_);
      const bytes data = draw_many(g_, e, count, e == element::s32 ? draw::bits : draw::tame);
      p_.memories.push_back({cat("in", p_.memories.size()), data, false, e});
      p_.arguments.push_back(view_argument{{rows_, cols_}});
      known k{.v = b().make(opcode::global_load, {view, b().integer(0), b().integer(0)}, {type::tile_of(e, rows_, cols_)}, {{"tile_axes", integers{0, 1}}, {"jagged", std::int64_t{0}}}).result(), .e = e, .rows = rows_, .cols = cols_};
      for (std::size_t i = 0; i < count; ++i) k.x.push_back(decode(e, get(data, e, i)));
      all_.push_back(std::move(k));
    }
    rounds_ = g_.between(0, 5);
    n_ = {.v = n, .e = element::s32, .scalar = true, .x = {static_cast<double>(rounds_)}};
    all_.push_back(n_);
  }

  const known& any(const std::function<bool(const known&)>& fits) {
    std::vector<const known*> good;
    for (const known& k : all_)
      if (fits(k)) good.push_back(&k);
    return *g_.of(good);
  }
  const known& tile(element e) { return any([&](const known& k) { return !k.scalar && k.e == e && k.rows == rows_ && k.cols == cols_; }); }
  bool has(const std::function<bool(const known&)>& fits) const {
    for (const known& k : all_)
      if (fits(k)) return true;
    return false;
  }

  /// A second operand for a full tile: a tile, a vector spread to it, a scalar or a constant.
  known operand(element e) {
    const int what = g_.between(0, 5);
    if (what == 0) {
      const double v = e == element::s32 ? g_.between(-9, 9) : g_.between(-16, 16) * 0.375;
      return {.v = e == element::s32 ? b().integer(whole(v)) : b().number(v), .e = e, .scalar = true, .x = {v}};
    }
    const auto vector = [&](const known& k) { return !k.scalar && k.e == e && (k.rows == 1) != (k.cols == 1); };
    if (what == 1 && has(vector)) {
      const known& k = any(vector);
      known wide{.v = b().make(opcode::broadcast, {k.v}, {type::tile_of(e, rows_, cols_)}).result(), .e = e, .rows = rows_, .cols = cols_};
      for (int r = 0; r < rows_; ++r)
        for (int c = 0; c < cols_; ++c) wide.x.push_back(k.x[static_cast<std::size_t>(k.rows == 1 ? c : r)]);
      return wide;
    }
    const auto scalar = [&](const known& k) { return k.scalar && k.e == e; };
    if (what == 2 && has(scalar)) return any(scalar);
    return tile(e);
  }

  static double at(const known& k, std::size_t i) { return k.scalar ? k.x[0] : k.x[i]; }

  void keep(value v, element e, std::vector<double> x) { all_.push_back({.v = v, .e = e, .rows = rows_, .cols = cols_, .x = std::move(x)}); }
  template <class F>
  std::vector<double> each(F&& f) const {
    std::vector<double> out(static_cast<std::size_t>(rows_ * cols_));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = f(i);
    return out;
  }

  static double binary(opcode code, element e, double x, double y) {
    if (e == element::s32) {
      const std::int64_t u = whole(x), v = whole(y);
      switch (code) {
        case opcode::add: return wrapped(u + v);
        case opcode::sub: return wrapped(u - v);
        case opcode::mul: return wrapped(static_cast<std::int64_t>(static_cast<std::uint64_t>(u) * static_cast<std::uint64_t>(v)));
        case opcode::min: return std::min(x, y);
        case opcode::max: return std::max(x, y);
        case opcode::bit_and: return wrapped(u & v);
        case opcode::bit_or: return wrapped(u | v);
        default: return wrapped(u ^ v);
      }
    }
    x = flushed(x), y = flushed(y);
    switch (code) {
      case opcode::add: return flushed(static_cast<double>(static_cast<float>(x) + static_cast<float>(y)));
      case opcode::sub: return flushed(static_cast<double>(static_cast<float>(x) - static_cast<float>(y)));
      case opcode::mul: return single(x * y);
      case opcode::min: return std::isnan(x) ? y : std::isnan(y) ? x : std::min(x, y);
      default: return std::isnan(x) ? y : std::isnan(y) ? x : std::max(x, y);
    }
  }

  void step() {
    const element e = g_.between(0, 1) ? element::s32 : element::f32;
    switch (g_.between(0, 9)) {
      case 0:
      case 1: {  // two operands
        const opcode code = e == element::s32 ? g_.of(std::vector<opcode>{opcode::add, opcode::sub, opcode::mul, opcode::min, opcode::max, opcode::bit_and, opcode::bit_or, opcode::bit_xor})
                                              : g_.of(std::vector<opcode>{opcode::add, opcode::sub, opcode::mul, opcode::min, opcode::max});
        const known x = tile(e), y = operand(e);
        keep(b().binary(code, x.v, y.v), e, each([&](std::size_t i) { return binary(code, e, x.x[i], at(y, i)); }));
        break;
      }
      case 2: {  // fma
        const known x = tile(element::f32), y = tile(element::f32), z = tile(element::f32);
        keep(b().make(opcode::fma, {x.v, y.v, z.v}, {x.v->type}).result(), element::f32, each([&](std::size_t i) {
               return flushed(static_cast<double>(std::fma(static_cast<float>(flushed(x.x[i])), static_cast<float>(flushed(y.x[i])), static_cast<float>(flushed(z.x[i])))));
             }));
        break;
      }
      case 3: {  // compare and select
        const char* is = g_.of(std::vector<const char*>{"lt", "le", "gt", "ge", "eq", "ne"});
        const element other = g_.between(0, 1) ? element::s32 : element::f32;
        const known x = tile(e), y = operand(e), p = tile(other), q = operand(other);
        value test = b().compare(is, x.v, y.v);
        const std::string how = is;
        keep(b().select(test, p.v, q.v), other, each([&](std::size_t i) {
               const double u = e == element::f32 ? flushed(x.x[i]) : x.x[i], v = e == element::f32 ? flushed(at(y, i)) : at(y, i);
               const bool t = how == "lt" ? u < v : how == "le" ? u <= v : how == "gt" ? u > v : how == "ge" ? u >= v : how == "eq" ? u == v : !(u == v);
               return t ? p.x[i] : at(q, i);
             }));
        break;
      }
      case 4: {  // casts
        if (e == element::s32) {
          const known x = tile(element::s32);
          keep(b().cast(x.v, element::f32), element::f32, each([&](std::size_t i) { return static_cast<double>(static_cast<float>(x.x[i])); }));
        } else if (g_.between(0, 1)) {
          const known x = tile(element::f32);
          keep(b().cast(x.v, element::s32), element::s32, each([&](std::size_t i) { return std::isnan(x.x[i]) ? 0.0 : std::trunc(std::min(2147483647.0, std::max(-2147483648.0, x.x[i]))); }));
        } else {
          const element narrow = g_.of(std::vector<element>{element::bf16, element::f16});
          const known x = tile(element::f32);
          keep(b().cast(b().cast(x.v, narrow), element::f32), element::f32, each([&](std::size_t i) { return decode(narrow, encode(narrow, x.x[i])); }));
        }
        break;
      }
      case 5: {  // reduction along the columns
        const std::string how = e == element::s32 ? g_.of(std::vector<std::string>{"add", "min", "max"}) : g_.of(std::vector<std::string>{"min", "max"});
        const known x = tile(e);
        known r{.v = b().make(opcode::reduce, {x.v}, {type::tile_of(e, rows_, 1)}, {{"op", how}, {"axis", std::int64_t{1}}}).result(), .e = e, .rows = rows_, .cols = 1};
        for (int row = 0; row < rows_; ++row) {
          double sum = e == element::f32 ? flushed(x.x[static_cast<std::size_t>(row * cols_)]) : x.x[static_cast<std::size_t>(row * cols_)];
          for (int c = 1; c < cols_; ++c) sum = binary(how == "add" ? opcode::add : how == "min" ? opcode::min : opcode::max, e, sum, x.x[static_cast<std::size_t>(row * cols_ + c)]);
          r.x.push_back(sum);
        }
        all_.push_back(std::move(r));
        break;
      }
      case 6: {  // where an element is
        const bool down = g_.between(0, 1) == 0;
        keep(b().make(opcode::iota, {}, {type::tile_of(element::s32, rows_, cols_)}, {{"axis", std::int64_t{down ? 0 : 1}}}).result(), element::s32,
             each([&](std::size_t i) { return static_cast<double>(down ? i / static_cast<std::size_t>(cols_) : i % static_cast<std::size_t>(cols_)); }));
        break;
      }
      case 7: {  // one operand
        const known x = tile(e);
        const bool negative = g_.between(0, 1) == 0;
        keep(b().unary(negative ? opcode::neg : opcode::abs, x.v), e, each([&](std::size_t i) {
               if (e == element::s32) return wrapped(negative || x.x[i] < 0 ? -whole(x.x[i]) : whole(x.x[i]));
               const double v = flushed(x.x[i]);
               return negative ? -v : std::abs(v);
             }));
        break;
      }
      case 8: {  // a loop that carries a scalar, with a branch inside
        known sum{.v = nullptr, .e = element::s32, .scalar = true};
        value cell = b().var(type::scalar(element::s32), b().integer(3), "sum");
        const int odd = g_.between(2, 7);
        b().for_each(b().integer(0), n_.v, b().integer(1), [&](builder& in, value i) {
          in.set(cell, in.add(in.mul(in.get(cell), static_cast<std::int64_t>(odd)), i));
          in.when(in.compare("eq", in.binary(opcode::bit_and, i, in.integer(1)), in.integer(1)), [&](builder& deeper) { deeper.set(cell, deeper.binary(opcode::bit_xor, deeper.get(cell), deeper.integer(85))); });
        });
        std::int64_t s = 3;
        for (int i = 0; i < rounds_; ++i) {
          s = whole(wrapped(s * odd + i));
          if (i & 1) s ^= 85;
        }
        sum.v = b().get(cell);
        sum.x = {static_cast<double>(s)};
        all_.push_back(std::move(sum));
        break;
      }
      default: {  // through shared memory: a ring of one slot
        const known x = tile(element::f32);
        const element narrow = element::bf16;
        if (cols_ * 2 % 32 != 0) break;
        const int row_bytes = cols_ * 2, swizzle = row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : 32;
        const type slot = type::shared_of(narrow, rows_, cols_, swizzle);
        value ring = b().make(opcode::ring_make, {}, {type::ring_of(1, {slot})}, {{"name", cat("r", all_.size())}}).result();
        value filled = b().make(opcode::ring_fill, {ring}, {slot}).result();
        b().make(opcode::tile_write, {b().cast(x.v, narrow), filled});
        b().make(opcode::ring_close, {filled});
        value drained = b().make(opcode::ring_drain, {ring}, {slot}).result();
        value back = b().make(opcode::tile_read, {drained}, {type::tile_of(narrow, rows_, cols_)}).result();
        keep(b().cast(back, element::f32), element::f32, each([&](std::size_t i) { return decode(narrow, encode(narrow, x.x[i])); }));
        b().make(opcode::ring_close, {drained});
        break;
      }
    }
  }

  void outputs() {
    for (const element e : {element::s32, element::f32}) {
      std::vector<const known*> stored;
      for (const known& k : all_)
        if (!k.scalar && k.e == e && k.rows == rows_ && k.cols == cols_) stored.push_back(&k);
      std::vector<double> expected;
      for (std::size_t i = 0; i < stored.size(); ++i) {
        b().make(opcode::tile_store, {stored[i]->v, e == element::s32 ? out_s_ : out_f_, b().integer(static_cast<std::int64_t>(i)), b().integer(0), b().integer(0)}, {}, {{"tile_axes", integers{1, 2}}, {"jagged", std::int64_t{0}}});
        expected.insert(expected.end(), stored[i]->x.begin(), stored[i]->x.end());
      }
      p_.expected.push_back({.memory = p_.memories.size(), .values = expected});
      p_.memories.push_back({e == element::s32 ? "out_s" : "out_f", unwritten(expected.size() * 4), true, e});
      p_.arguments.push_back(view_argument{{static_cast<std::int64_t>(stored.size()), rows_, cols_}});
    }
    p_.arguments.push_back(bytes_of(std::vector<std::int32_t>{rounds_}));
  }

  generator g_;
  program p_;
  std::unique_ptr<builder> b_;
  int rows_ = 0, cols_ = 0, rounds_ = 0;
  value out_s_ = nullptr, out_f_ = nullptr;
  known n_;
  std::vector<known> all_;
};

}  // namespace

program random_program(std::uint64_t seed, const std::string& target) { return maker(seed, target).make(); }

sample compiled(const program& p, const std::string& name, bool optimised) {
  sample s;
  s.name = name;
  s.memories = p.memories;
  s.expected = p.expected;
  compile_to(s, *p.traced, p.arguments, optimised);
  return s;
}

}  // namespace tlx::compare
