// Elementwise operations, casts and control flow against plain C++.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/codegen/kernels.hpp"
#include "tests/codegen/runs.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"

namespace test {

using namespace tlx;
using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using tile::element;
using integers = std::vector<std::int64_t>;

namespace {

/// out[i] = f(x[i], y[i]) over 32 x 32 values of one type.
template <class T, class R>
run_case elementwise(const std::string& name, element in, element result, const std::vector<T>& x, const std::vector<T>& y, const std::function<value(builder&, value, value)>& traced,
                     const std::function<R(T, T)>& plain, double tolerance = 0) {
  run_case c = new_run(name, 4, "sm_100a");
  value a = add_parameter(*c.kernel, "x", type::view_of(in, 2)), b2 = add_parameter(*c.kernel, "y", type::view_of(in, 2)), out = add_parameter(*c.kernel, "out", type::view_of(result, 2));
  builder b(*c.kernel, c.kernel->body);
  const type t = type::tile_of(in, 32, 32).with_layout(tile::blocked(32, 32, 4, 2));
  const auto load = [&](value view) { return b.make(opcode::global_load, {view, b.integer(0), b.integer(0)}, {t}, {{"tile_axes", integers{0, 1}}}).result(); };
  value u = load(a), v = load(b2);
  b.make(opcode::global_store, {traced(b, u, v), out, b.integer(0), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}});
  std::vector<R> expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) expected[i] = plain(x[i], y[i]);
  c.inputs = {buffer_of({32, 32}, x), buffer_of({32, 32}, y)};
  c.expected = bytes_of(expected);
  c.output = {{32, 32}, std::vector<std::byte>(c.expected.size(), std::byte{0xee})};
  c.tolerance = tolerance;
  return c;
}

std::vector<float> floats(float low, float high, unsigned seed) {
  std::vector<float> v(1024);
  for (float& f : v) {
    seed = seed * 1664525U + 1013904223U;
    f = low + (high - low) * static_cast<float>(seed >> 8) / 16777216.0F;
  }
  return v;
}
std::vector<int> ints(unsigned seed) {
  std::vector<int> v(1024);
  for (int& i : v) {
    seed = seed * 1664525U + 1013904223U;
    i = static_cast<int>(seed ^ (seed >> 15));
  }
  v[0] = 0;
  v[1] = -1;
  return v;
}

}  // namespace

std::vector<run_case> arithmetic_runs() {
  std::vector<run_case> all;
  const auto x = floats(-6, 6, 1), y = floats(0.5F, 3, 2);
  using F = std::function<float(float, float)>;
  const auto f32 = [&](const std::string& name, const std::function<value(builder&, value, value)>& traced, const F& plain, double tolerance = 0) {
    all.push_back(elementwise<float, float>(name, element::f32, element::f32, x, y, traced, plain, tolerance));
  };
  const auto unary = [&](const std::string& name, opcode code, const std::vector<float>& from, double (*plain)(double), double tolerance) {
    all.push_back(elementwise<float, float>(name, element::f32, element::f32, from, y, [=](builder& b, value u, value) { return b.unary(code, u); },
                                            [=](float u, float) { return static_cast<float>(plain(static_cast<double>(u))); }, tolerance));
  };
  f32("f32 add", [](builder& b, value u, value v) { return b.add(u, v); }, [](float u, float v) { return u + v; });
  f32("f32 mul sub", [](builder& b, value u, value v) { return b.sub(b.mul(u, v), v); }, [](float u, float v) { volatile float p = u * v; return p - v; });
  f32("f32 fma", [](builder& b, value u, value v) { return b.make(opcode::fma, {u, v, v}, {u->type}).result(); }, [](float u, float v) { return std::fma(u, v, v); });
  f32("f32 div", [](builder& b, value u, value v) { return b.div(u, v); }, [](float u, float v) { return u / v; });
  f32("f32 max of a scalar", [](builder& b, value u, value) { return b.binary(opcode::max, u, b.number(0.25)); }, [](float u, float) { return std::max(u, 0.25F); });
  f32("f32 select", [](builder& b, value u, value v) { return b.select(b.compare("lt", u, v), b.unary(opcode::neg, u), v); }, [](float u, float v) { return u < v ? -u : v; });
  f32("f32 abs", [](builder& b, value u, value) { return b.unary(opcode::abs, u); }, [](float u, float) { return std::fabs(u); });
  unary("erf", opcode::erf, x, std::erf, 2e-7);
  unary("erf of small values", opcode::erf, floats(-1.2F, 1.2F, 3), std::erf, 2e-7);
  unary("erf of large values", opcode::erf, floats(-1e6F, 1e6F, 4), std::erf, 2e-7);
  unary("exp2", opcode::exp2, floats(-8, 4, 5), std::exp2, 4e-6);
  unary("log2", opcode::log2, y, std::log2, 1e-6);
  unary("rsqrt", opcode::rsqrt, y, [](double v) { return 1 / std::sqrt(v); }, 1e-6);
  unary("rcp", opcode::rcp, y, [](double v) { return 1 / v; }, 1e-6);
  unary("sqrt", opcode::sqrt, y, std::sqrt, 0);
  unary("tanh", opcode::tanh, x, std::tanh, 1e-3);
  unary("sin", opcode::sin, floats(-3, 3, 6), std::sin, 1e-5);
  unary("cos", opcode::cos, floats(-3, 3, 7), std::cos, 1e-5);

  const auto a = ints(11), c = ints(12);
  using I = std::function<int(int, int)>;
  const auto s32 = [&](const std::string& name, const std::function<value(builder&, value, value)>& traced, const I& plain) {
    all.push_back(elementwise<int, int>(name, element::s32, element::s32, a, c, traced, plain));
  };
  const auto unsigned_of = [](int v) { return static_cast<unsigned>(v); };
  s32("s32 add mul", [](builder& b, value u, value v) { return b.mul(b.add(u, v), v); }, [=](int u, int v) { return static_cast<int>((unsigned_of(u) + unsigned_of(v)) * unsigned_of(v)); });
  s32("s32 div", [](builder& b, value u, value v) { return b.div(u, b.binary(opcode::bit_or, b.binary(opcode::shr, v, b.integer(20)), b.integer(1))); }, [](int u, int v) { return u / ((v >> 20) | 1); });
  s32("s32 rem", [](builder& b, value u, value v) { return b.rem(u, b.binary(opcode::bit_or, b.binary(opcode::shr, v, b.integer(20)), b.integer(1))); }, [](int u, int v) { return u % ((v >> 20) | 1); });
  s32("s32 min max", [](builder& b, value u, value v) { return b.sub(b.binary(opcode::shr, b.binary(opcode::max, u, v), b.integer(2)), b.binary(opcode::shr, b.binary(opcode::min, u, v), b.integer(2))); },
      [](int u, int v) { return (std::max(u, v) >> 2) - (std::min(u, v) >> 2); });
  s32("s32 bits", [](builder& b, value u, value v) { return b.binary(opcode::bit_xor, b.unary(opcode::bit_not, u), b.binary(opcode::shl, v, b.integer(3))); },
      [=](int u, int v) { return ~u ^ static_cast<int>(unsigned_of(v) << 3); });
  s32("u32 compare", [](builder& b, value u, value v) { return b.cast(b.compare("lt", b.cast(u, element::u32), b.cast(v, element::u32)), element::s32); },
      [=](int u, int v) { return unsigned_of(u) < unsigned_of(v) ? 1 : 0; });

  // Casts.
  all.push_back(elementwise<float, std::uint16_t>("f32 to bf16", element::f32, element::bf16, x, y, [](builder& b, value u, value) { return b.cast(u, element::bf16); },
                                                  [](float u, float) { return bf16(u).code; }));
  all.push_back(elementwise<float, std::uint16_t>("f32 to f16", element::f32, element::f16, x, y, [](builder& b, value u, value) { return b.cast(u, element::f16); },
                                                  [](float u, float) { return f16(u).code; }));
  all.push_back(elementwise<float, std::uint16_t>("f32 to f16, saturated", element::f32, element::f16, floats(-2e5F, 2e5F, 8), y,
                                                  [](builder& b, value u, value) { return b.make(opcode::cast, {u}, {u->type.with_element(element::f16)}, {{"saturate", std::int64_t{1}}}).result(); },
                                                  [](float u, float) { return f16(std::clamp(u, -65504.0F, 65504.0F)).code; }));
  all.push_back(elementwise<float, std::uint8_t>("f32 to e4m3", element::f32, element::e4m3, floats(-600, 600, 9), y, [](builder& b, value u, value) { return b.cast(u, element::e4m3); },
                                                 [](float u, float) { return e4m3(u).code; }));
  all.push_back(elementwise<float, std::uint8_t>("f32 to e5m2", element::f32, element::e5m2, x, y, [](builder& b, value u, value) { return b.cast(u, element::e5m2); },
                                                 [](float u, float) { return e5m2(u).code; }));
  all.push_back(elementwise<float, float>("f32 to e4m3 and back", element::f32, element::f32, x, y, [](builder& b, value u, value) { return b.cast(b.cast(u, element::e4m3), element::f32); },
                                          [](float u, float) { return static_cast<float>(e4m3(u)); }));
  all.push_back(elementwise<float, float>("f32 to bf16 and back", element::f32, element::f32, x, y, [](builder& b, value u, value) { return b.cast(b.cast(u, element::bf16), element::f32); },
                                          [](float u, float) { return static_cast<float>(bf16(u)); }));
  all.push_back(elementwise<float, float>("f32 to tf32", element::f32, element::f32, x, y,
                                          [](builder& b, value u, value) { return b.make(opcode::bitcast, {b.cast(u, element::tf32)}, {u->type}).result(); },
                                          [](float u, float) { return static_cast<float>(tf32(u)); }));
  all.push_back(elementwise<float, int>("f32 to s32", element::f32, element::s32, floats(-1000, 1000, 10), y, [](builder& b, value u, value) { return b.cast(u, element::s32); },
                                        [](float u, float) { return static_cast<int>(u); }));
  all.push_back(elementwise<int, float>("s32 to f32", element::s32, element::f32, a, c, [](builder& b, value u, value) { return b.cast(u, element::f32); },
                                        [](int u, int) { return static_cast<float>(u); }));
  all.push_back(elementwise<float, int>("f32 bits", element::f32, element::s32, x, y, [](builder& b, value u, value) { return b.make(opcode::bitcast, {u}, {u->type.with_element(element::s32)}).result(); },
                                        [](float u, float) { return std::bit_cast<int>(u); }));

  {
    std::vector<std::int8_t> every(1024);
    for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::int8_t>(i);
    all.push_back(elementwise<std::int8_t, std::uint16_t>("C44: every s8 to bf16", element::s8, element::bf16, every, every, [](builder& b, value u, value) { return b.cast(u, element::bf16); },
                                                          [](std::int8_t u, std::int8_t) { return bf16(static_cast<float>(u)).code; }));
    all.push_back(elementwise<std::int8_t, std::uint16_t>("C44: the sign of an s8 as -1 to bf16", element::s8, element::bf16, every, every,
                                                          [](builder& b, value u, value) { return b.cast(b.binary(opcode::shr, u, b.integer(7, element::s8)), element::bf16); },
                                                          [](std::int8_t u, std::int8_t) { return bf16(u < 0 ? -1.0F : 0.0F).code; }));
    all.push_back(elementwise<std::int8_t, std::uint16_t>("C44: a condition to bf16", element::s8, element::bf16, every, every,
                                                          [](builder& b, value u, value) { return b.cast(b.compare("lt", u, b.integer(0, element::s8)), element::bf16); },
                                                          [](std::int8_t u, std::int8_t) { return bf16(u < 0 ? 1.0F : 0.0F).code; }));
  }

  {  // control flow: the Collatz length of each thread's index, in a while with an if inside, plus a triangular sum
    run_case r = new_run("while, if, for and cells", 2);
    value out = add_parameter(*r.kernel, "out", type::view_of(element::s32, 1));
    builder b(*r.kernel, r.kernel->body);
    value me = thread_index(b);
    value n = b.var(type::scalar(element::s32), b.add(me, 1), "n"), steps = b.var(type::scalar(element::s32), b.integer(0), "steps");
    ir::op& loop = b.make(opcode::while_loop);
    builder test = b.inside(builder::add_region(loop));
    test.make(opcode::yield, {test.compare("ne", test.get(n), test.integer(1))});
    builder body = b.inside(builder::add_region(loop));
    value now = body.get(n);
    body.when(
        body.compare("eq", body.binary(opcode::bit_and, now, body.integer(1)), body.integer(0)), [&](builder& even) { even.set(n, even.div(now, even.integer(2))); },
        [&](builder& odd) { odd.set(n, odd.add(odd.mul(now, 3), 1)); });
    body.set(steps, body.add(body.get(steps), 1));
    b.for_each(b.integer(3), me, b.integer(4), [&](builder& in, value i) { in.set(steps, in.add(in.get(steps), in.mul(i, 1000))); });
    b.make(opcode::global_store, {b.get(steps), out, me});
    std::vector<int> expected;
    for (int i = 0; i < 64; ++i) {
      int k = i + 1, s = 0;
      for (; k != 1; ++s) k = k % 2 == 0 ? k / 2 : 3 * k + 1;
      for (int j = 3; j < i; j += 4) s += 1000 * j;
      expected.push_back(s);
    }
    r.expected = bytes_of(expected);
    r.output = {{64}, std::vector<std::byte>(r.expected.size(), std::byte{0xee})};
    all.push_back(std::move(r));
  }
  return all;
}

}  // namespace test
