// Arithmetic and casts written in the IR: every operation on every element type it takes, on special values against special values.
#include <bit>
#include <cmath>
#include <limits>

#include "tests/codegen/kernels.hpp"
#include "tests/compare/values.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"

namespace tlx::compare {

using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using integers = std::vector<std::int64_t>;

namespace {

using make_value = std::function<value(builder&, const std::vector<value>&)>;
using plain = std::function<double(const std::vector<double>&)>;  // on the decoded inputs; empty: no reference

struct recipe {
  std::string name;
  quota from = quota::elementwise;
  element in = element::f32, out = element::f32;
  int operands = 1;
  make_value make;
  plain reference = {};
  double reference_relative = 0, reference_absolute = 0;  // what the reference may be off by
  double ulps = 0, absolute = 0;                          // what two machines may differ by
  bool all_codes = false;                                 // one operand of at most 16 bits: every code
  double low = 0, high = 0;                               // low < high: reference only holds for the first operand in this range
  draw fill = draw::mixed;                                // the operands behind the special ones
  double limit = 0;                                       // above 0: the function is defined up to this magnitude, other operands become 0.5
};

/// 64 rows of 64 for each CTA.
sample make_sample(const recipe& r, std::uint64_t seed) {
  generator g(seed);
  const std::vector<std::uint64_t>& corners = special(r.in);
  const std::size_t wanted = r.all_codes ? std::size_t{1} << (8 * width(r.in)) : r.operands == 1 ? 4096 : 8192;
  const std::size_t count = std::max<std::size_t>(4096, wanted);
  std::vector<bytes> inputs(static_cast<std::size_t>(r.operands), bytes(count * static_cast<std::size_t>(width(r.in))));
  for (std::size_t i = 0; i < count; ++i)
    for (int k = 0; k < r.operands; ++k) {
      std::uint64_t code = 0;
      const std::size_t n = corners.size();
      if (r.all_codes) code = i & (wanted - 1);
      else if (r.operands == 1 && i < n) code = corners[i];
      else if (r.operands > 1 && i < count / 2) code = g.of(corners);  // a sample of the product of all corners
      else code = draw_one(g, r.in, r.fill);
      if (r.limit > 0 && !(std::abs(decode(r.in, code)) <= r.limit)) code = encode(r.in, 0.5);
      put(inputs[static_cast<std::size_t>(k)], r.in, i, code);
    }
  const int rows = static_cast<int>(count / 64);

  sample s;
  s.name = r.name;
  s.from = r.from;
  auto k = test::new_kernel("k", population_target(), 4);
  std::vector<value> views;
  std::vector<kernel_argument> arguments;
  for (int i = 0; i < r.operands; ++i) views.push_back(test::add_parameter(*k, cat("x", i), type::view_of(r.in, 2)));
  value out = test::add_parameter(*k, "out", type::view_of(r.out, 2));
  k->grid[0] = "(ceil_div out.0 64)";
  builder b(*k, k->body);
  value row = b.mul(b.simple(opcode::cta_id, element::s32, {{"axis", std::int64_t{0}}}), 64);
  const type t = type::tile_of(r.in, 64, 64).with_layout(tile::blocked(64, 64, 4, 4));
  std::vector<value> loaded;
  for (value v : views) loaded.push_back(b.make(opcode::global_load, {v, row, b.integer(0)}, {t}, {{"tile_axes", integers{0, 1}}}).result());
  b.make(opcode::global_store, {r.make(b, loaded), out, row, b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}});
  for (int i = 0; i < r.operands; ++i) {
    s.memories.push_back({cat("x", i), inputs[static_cast<std::size_t>(i)], false, r.in});
    arguments.push_back(view_argument{{rows, 64}});
  }
  s.memories.push_back({"out", unwritten(count * static_cast<std::size_t>(width(r.out))), true, r.out, r.ulps, r.absolute, r.in == element::f64 || r.out == element::f64});
  arguments.push_back(view_argument{{rows, 64}});
  if (r.reference) {
    expectation e{.memory = s.memories.size() - 1, .relative = r.reference_relative, .absolute = r.reference_absolute};
    bool whole = true;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<double> x;
      for (const bytes& from : inputs) x.push_back(decode(r.in, get(from, r.in, i)));
      if (r.low < r.high && !(x[0] >= r.low && x[0] <= r.high)) whole = false;
      e.values.push_back(r.reference(x));
    }
    if (whole) s.expected.push_back(std::move(e));
  }
  lower_to(s, *k, arguments);
  return s;
}

void add(std::vector<entry>& to, recipe r) {
  const std::uint64_t seed = to.size() + 77;
  const std::string name = r.name;
  const quota from = r.from;
  to.push_back({name, from, [r = std::move(r), seed] { return make_sample(r, seed); }});
}

double flushed(double x) { return std::abs(x) < 0x1p-126 ? std::copysign(0.0, x) : x; }
double as_f32(double x) { return flushed(static_cast<double>(static_cast<float>(x))); }

make_value binary(opcode code) { return [code](builder& b, const std::vector<value>& x) { return b.binary(code, x[0], x[1]); }; }
make_value unary(opcode code) { return [code](builder& b, const std::vector<value>& x) { return b.unary(code, x[0]); }; }

}  // namespace

void add_elementwise(std::vector<entry>& to) {
  const auto both = [](double (*f)(double, double)) { return [f](const std::vector<double>& x) { return as_f32(f(flushed(x[0]), flushed(x[1]))); }; };
  // f32: products and quotients of two f32 are rounded to double first, which is exact for products and innocuous for quotients and sums of 24 bits.
  add(to, {.name = "f32 add", .operands = 2, .make = binary(opcode::add), .reference = both([](double a, double b) { return static_cast<double>(static_cast<float>(a) + static_cast<float>(b)); })});
  add(to, {.name = "f32 sub", .operands = 2, .make = binary(opcode::sub), .reference = both([](double a, double b) { return static_cast<double>(static_cast<float>(a) - static_cast<float>(b)); })});
  add(to, {.name = "f32 mul", .operands = 2, .make = binary(opcode::mul)});
  add(to, {.name = "f32 div", .operands = 2, .make = binary(opcode::div)});
  add(to, {.name = "f32 add, cancelling", .operands = 2, .make = binary(opcode::add), .reference = both([](double a, double b) { return static_cast<double>(static_cast<float>(a) + static_cast<float>(b)); }), .fill = draw::spread});
  add(to, {.name = "f32 mul then add", .operands = 3, .make = [](builder& b, const std::vector<value>& x) { return b.add(b.mul(x[0], x[1]), x[2]); }, .fill = draw::spread});
  add(to, {.name = "f32 approximate division", .operands = 2, .make = [](builder& b, const std::vector<value>& x) { return b.make(opcode::div, {x[0], x[1]}, {x[0]->type}, {{"approx", std::int64_t{1}}}).result(); }, .ulps = 2});
  for (const element e : {element::f32, element::f16, element::bf16, element::f64}) {
    const std::string t(tile::name(e));
    add(to, {.name = t + " fma", .in = e, .out = e, .operands = 3, .make = [](builder& b, const std::vector<value>& x) { return b.make(opcode::fma, {x[0], x[1], x[2]}, {x[0]->type}).result(); }});
    add(to, {.name = t + " fma, cancelling", .in = e, .out = e, .operands = 3, .make = [](builder& b, const std::vector<value>& x) { return b.make(opcode::fma, {x[0], x[1], x[2]}, {x[0]->type}).result(); }, .fill = draw::spread});
    add(to, {.name = t + " min", .in = e, .out = e, .operands = 2, .make = binary(opcode::min)});
    add(to, {.name = t + " max", .in = e, .out = e, .operands = 2, .make = binary(opcode::max)});
    if (e != element::f64)
      add(to, {.name = t + " max that keeps NaN", .in = e, .out = e, .operands = 2, .make = [](builder& b, const std::vector<value>& x) { return b.make(opcode::max, {x[0], x[1]}, {x[0]->type}, {{"nan", std::int64_t{1}}}).result(); }});
    add(to, {.name = t + " neg", .in = e, .out = e, .make = unary(opcode::neg), .all_codes = width(e) == 2});
    add(to, {.name = t + " abs", .in = e, .out = e, .make = unary(opcode::abs), .all_codes = width(e) == 2});
    for (const char* is : {"eq", "ne", "lt", "le", "gt", "ge"})
      add(to, {.name = cat(t, " compare ", is), .in = e, .out = element::s32, .operands = 2, .make = [is](builder& b, const std::vector<value>& x) { return b.cast(b.compare(is, x[0], x[1]), element::s32); },
               .reference = [is = std::string(is), e](const std::vector<double>& v) {
                 const double least = e == element::f32 ? 0x1p-126 : e == element::f16 ? 0x1p-14 : 0;  // below it f32 and f16 are flushed: docs/numerics.md
                 const double x = std::abs(v[0]) < least ? 0.0 : v[0], y = std::abs(v[1]) < least ? 0.0 : v[1];
                 return (is == "eq" ? x == y : is == "ne" ? !(x == y) : is == "lt" ? x < y : is == "le" ? x <= y : is == "gt" ? x > y : x >= y) ? 1.0 : 0.0;
               }});
  }
  for (const element e : {element::f16, element::bf16, element::f64})
    for (const auto& [code, name] : {std::pair{opcode::add, "add"}, {opcode::sub, "sub"}, {opcode::mul, "mul"}})
      add(to, {.name = cat(tile::name(e), " ", name), .in = e, .out = e, .operands = 2, .make = binary(code)});
  add(to, {.name = "f64 div", .in = element::f64, .out = element::f64, .operands = 2, .make = binary(opcode::div), .reference = [](const std::vector<double>& x) { return x[0] / x[1]; }});
  add(to, {.name = "f32 select", .operands = 2, .make = [](builder& b, const std::vector<value>& x) { return b.select(b.compare("lt", x[0], x[1]), b.unary(opcode::neg, x[0]), x[1]); }});

  // Functions: sqrt is exact, the others are bounded by docs/numerics.md on each side, so two machines differ by at most twice that.
  add(to, {.name = "f32 sqrt", .make = unary(opcode::sqrt), .reference = [](const std::vector<double>& x) { return as_f32(std::sqrt(flushed(x[0]))); }});
  struct function { const char* name; opcode code; double ulps, absolute, low, high; double (*exact)(double); double relative, limit = 0; };
  for (const function& f : {function{"exp2", opcode::exp2, 4, 0, -125.5, 127, [](double x) { return std::exp2(x); }, 0x1p-21}, {"log2", opcode::log2, 4, 0x1p-21, 0x1p-120, 3e38, [](double x) { return std::log2(x); }, 0x1p-21},
                            {"rcp", opcode::rcp, 2, 0, 0x1p-120, 0x1p120, [](double x) { return 1 / x; }, 0x1p-22}, {"rsqrt", opcode::rsqrt, 4, 0, 0x1p-120, 3e38, [](double x) { return 1 / std::sqrt(x); }, 0x1p-21},
                            {"tanh", opcode::tanh, 8192, 0, -100, 100, [](double x) { return std::tanh(x); }, 0x1p-10}, {"sin", opcode::sin, 0, 0x1p-19, -6, 6, [](double x) { return std::sin(x); }, 0, 6.28},
                            {"cos", opcode::cos, 0, 0x1p-19, -6, 6, [](double x) { return std::cos(x); }, 0, 6.28}, {"erf", opcode::erf, 0, 4e-7, -1e6, 1e6, [](double x) { return std::erf(x); }, 0}}) {
    add(to, {.name = cat("f32 ", f.name, " of specials"), .make = unary(f.code), .ulps = f.ulps, .absolute = f.absolute, .limit = f.limit});
    add(to, {.name = cat("f32 ", f.name, " of moderate values"), .make = [f](builder& b, const std::vector<value>& x) {
               // 0.25 + |x| / 1.5: inside the range of every one of them.
               return b.unary(f.code, b.add(b.mul(b.unary(opcode::abs, x[0]), b.number(0.625)), b.number(0.25)));
             },
             .reference = [f](const std::vector<double>& x) { return f.exact(as_f32(as_f32(std::abs(flushed(x[0])) * 0.625) + 0.25)); }, .reference_relative = f.relative, .reference_absolute = f.absolute + 1e-6, .ulps = f.ulps, .absolute = f.absolute, .low = -4, .high = 4,
             .fill = draw::moderate, .limit = f.limit});
    if (f.code != opcode::erf) {
      add(to, {.name = cat("f16 ", f.name), .in = element::f16, .out = element::f16, .make = unary(f.code), .ulps = f.code == opcode::tanh ? 2.0 : 1.0, .absolute = f.absolute, .all_codes = true, .limit = f.limit});
      add(to, {.name = cat("bf16 ", f.name), .in = element::bf16, .out = element::bf16, .make = unary(f.code), .ulps = 1, .absolute = f.absolute, .all_codes = true, .limit = f.limit});
    }
  }

  for (const element e : {element::s32, element::u32, element::s64, element::u64, element::s16, element::u16}) {
    const std::string t(tile::name(e));
    for (const auto& [code, name] : {std::pair{opcode::add, "add"}, {opcode::sub, "sub"}, {opcode::mul, "mul"}, {opcode::min, "min"}, {opcode::max, "max"}})
      add(to, {.name = cat(t, " ", name), .in = e, .out = e, .operands = 2, .make = binary(code)});
    for (const auto& [code, name] : {std::pair{opcode::div, "div"}, {opcode::rem, "rem"}})
      add(to, {.name = cat(t, " ", name), .in = e, .out = e, .operands = 2, .make = [code](builder& b, const std::vector<value>& x) {
                 value divisor = b.binary(opcode::bit_or, x[1], b.integer(1, x[1]->type.element));  // never 0
                 if (tile::is_signed(x[1]->type.element)) divisor = b.binary(opcode::bit_and, divisor, b.integer(0x7fff, x[1]->type.element));  // nor -1 under the smallest
                 return b.binary(code, x[0], divisor);
               }});
    add(to, {.name = t + " bits and shifts", .in = e, .out = e, .operands = 2, .make = [e](builder& b, const std::vector<value>& x) {
               value by = b.binary(opcode::bit_and, x[1], b.integer(8 * width(e) - 1, e));
               value shifted = b.binary(opcode::bit_xor, b.binary(opcode::shl, x[0], by), b.binary(opcode::shr, x[0], by));
               return b.binary(opcode::bit_or, b.binary(opcode::bit_and, shifted, x[1]), b.unary(opcode::bit_not, x[0]));
             }});
    if (tile::is_signed(e)) add(to, {.name = t + " neg and abs", .in = e, .out = e, .make = [](builder& b, const std::vector<value>& x) { return b.sub(b.unary(opcode::abs, x[0]), b.unary(opcode::neg, x[0])); }});
    for (const char* is : {"lt", "ge", "eq"}) add(to, {.name = cat(t, " compare ", is), .in = e, .out = element::s32, .operands = 2, .make = [is](builder& b, const std::vector<value>& x) { return b.cast(b.compare(is, x[0], x[1]), element::s32); }});
  }
}

void add_casts(std::vector<entry>& to) {
  const std::vector<element> floats = {element::f64, element::f32, element::f16, element::bf16, element::e4m3, element::e5m2};
  const std::vector<element> whole = {element::s8, element::u8, element::s16, element::u16, element::s32, element::u32, element::s64, element::u64};
  const auto cast = [&](element from, element into, bool saturate = false) {
    recipe r{.name = cat(saturate ? "saturating cast " : "cast ", tile::name(from), " to ", tile::name(into)), .from = quota::casts, .in = from, .out = into};
    r.make = [into, saturate](builder& b, const std::vector<value>& x) {
      if (saturate) return b.make(opcode::cast, {x[0]}, {x[0]->type.with_element(into)}, {{"saturate", std::int64_t{1}}}).result();
      return b.cast(x[0], into);
    };
    r.all_codes = width(from) <= 2;
    if (width(from) == 1 && from != element::boolean && (into == element::f32 || into == element::f64)) r.reference = [](const std::vector<double>& x) { return x[0]; };
    if (tile::is_float(from) && width(from) <= 2 && into == element::f32) r.reference = [](const std::vector<double>& x) { return flushed(x[0]); };
    if (from == element::f32 && (into == element::f16 || into == element::bf16) && !saturate) r.reference = [into](const std::vector<double>& x) { return decode(into, encode(into, x[0])); };
    if (from == element::f32 && into == element::s32) r.reference = [](const std::vector<double>& x) { return std::isnan(x[0]) ? 0.0 : x[0] >= 2147483647.0 ? 2147483647.0 : x[0] <= -2147483648.0 ? -2147483648.0 : std::trunc(x[0]); };
    if (tile::is_integer(from) && width(from) <= 4 && into == element::f32) r.reference = [](const std::vector<double>& x) { return static_cast<double>(static_cast<float>(x[0])); };
    add(to, std::move(r));
  };
  for (const element a : floats)
    for (const element b : floats)
      if (a != b) cast(a, b);
  for (const element a : floats)
    for (const element b : whole) {
      if (a == element::e4m3 || a == element::e5m2) {
        if (width(b) == 4) cast(a, b);
        continue;
      }
      cast(a, b);
    }
  for (const element a : whole)
    for (const element b : floats) {
      if ((b == element::e4m3 || b == element::e5m2) && width(a) != 4) continue;
      cast(a, b);
    }
  for (const element a : {element::s8, element::u16, element::s32, element::u64})
    for (const element b : whole)
      if (a != b) cast(a, b);
  for (const element a : {element::f32, element::f64})
    for (const element b : {element::f16, element::bf16}) cast(a, b, true);
  for (const element a : {element::f32, element::f16, element::s32, element::u8}) cast(a, element::boolean);
  for (const element b : {element::f32, element::s32, element::f16}) cast(element::boolean, b);
  add(to, {.name = "cast f32 to tf32", .from = quota::casts, .make = [](builder& b, const std::vector<value>& x) { return b.make(opcode::bitcast, {b.cast(x[0], element::tf32)}, {x[0]->type}).result(); }});
}

}  // namespace tlx::compare
