#include "tlx/ir/builder.hpp"

#include <doctest/doctest.h>

#include <set>

#include "tlx/ir/text.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using ir::opcode;

namespace {

template <class Call>
diagnostic refusal(Call&& call) {
  try {
    call();
  } catch (const user_error& e) {
    return e.parts();
  }
  return {};
}

ir::value tile_of(ir::builder& b, tile::element e, int rows, int cols) { return b.splat(0, ir::type::tile_of(e, rows, cols)); }

}  // namespace

TEST_CASE("elementwise operations refuse what does not fit, at the place of the call") {
  ir::kernel k;
  ir::builder b(k, k.body);
  b.locate({"user.cpp", 12});
  ir::value wide = tile_of(b, tile::element::f32, 8, 16), narrow = tile_of(b, tile::element::f32, 8, 8), half = tile_of(b, tile::element::f16, 8, 16);
  ir::value cell = b.var(ir::type::scalar(tile::element::s32));
  const diagnostic shapes = refusal([&] { b.add(wide, narrow); });
  CHECK(shapes.id == "shape-mismatch");
  CHECK(shapes.what == "elementwise operation on tiles of 8x16 and 8x8");
  CHECK(shapes.where.line == 12);
  const diagnostic elements = refusal([&] { b.add(wide, half); });
  CHECK(elements.id == "element-mismatch");
  CHECK(elements.what == "operands are tile<f32 8x16> and tile<f16 8x16>");
  CHECK(refusal([&] { b.compare("lt", wide, half); }).id == "element-mismatch");
  CHECK(refusal([&] { b.select(b.boolean(true), wide, half); }).id == "element-mismatch");
  CHECK(refusal([&] { b.select(b.boolean(true), wide, narrow); }).id == "shape-mismatch");
  CHECK(refusal([&] { b.unary(opcode::neg, cell); }).id == "not-arithmetic");
}

TEST_CASE("results get the type of their operands, scalars spread over tiles") {
  ir::kernel k;
  ir::builder b(k, k.body);
  ir::value t = tile_of(b, tile::element::f32, 8, 16), x = b.number(2);
  CHECK(b.mul(t, x)->type == t->type);
  CHECK(b.mul(x, t)->type == t->type);
  CHECK(b.compare("lt", t, x)->type == ir::type::tile_of(tile::element::boolean, 8, 16));
  CHECK(b.cast(t, tile::element::bf16)->type == ir::type::tile_of(tile::element::bf16, 8, 16));
  CHECK(b.cast(t, tile::element::f32) == t);
  CHECK(b.add(x, std::int64_t{0}) == x);
}

TEST_CASE("ops land before, after and inside as told, with the location of the builder") {
  ir::kernel k;
  ir::builder b(k, k.body);
  b.locate({"user.cpp", 3});
  ir::value one = b.integer(1);
  ir::builder before = ir::builder::before(k, *one->owner);
  ir::value zero = before.integer(0), half = before.integer(5);
  ir::value two = ir::builder::after(k, *one->owner).integer(2);
  std::vector<ir::op*> order{zero->owner, half->owner, one->owner, two->owner};
  REQUIRE(k.body.ops.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(k.body.ops[i].get() == order[i]);
    CHECK(order[i]->where.line == 3);
  }
  ir::op& loop = b.for_each(zero, two, one, [&](ir::builder& inner, ir::value i) { inner.add(i, one); });
  CHECK(loop.regions[0]->parent == &loop);
  CHECK(loop.regions[0]->ops[0]->parent == loop.regions[0].get());
}

TEST_CASE("a clone is the same kernel at other addresses") {
  ir::kernel k;
  k.name = "k";
  k.blocks_per_processor = 2;
  k.grid[0] = "7";
  ir::builder b(k, k.body);
  ir::value n = b.integer(4), cell = b.var(ir::type::scalar(tile::element::s32), n, "sum");
  b.for_each(b.integer(0), n, b.integer(1), [&](ir::builder& in, ir::value i) { in.set(cell, in.add(in.get(cell), i)); });
  const auto copy = ir::clone(k);
  CHECK(ir::print(*copy) == ir::print(k));
  std::set<const ir::op*> ours;
  ir::walk(k.body, [&](const ir::op& o) { ours.insert(&o); });
  ir::walk(copy->body, [&](const ir::op& o) {
    for (ir::value v : o.operands)
      if (v->owner) CHECK(ours.count(v->owner) == 0);
  });
}

TEST_CASE("uses are found and replaced in regions too") {
  ir::kernel k;
  ir::builder b(k, k.body);
  ir::value a = b.integer(1), c = b.integer(2), cell = b.var(ir::type::scalar(tile::element::s32), a);
  b.when(b.boolean(true), [&](ir::builder& in) { in.set(cell, a); });
  CHECK(ir::is_used(k.body, a));
  CHECK_FALSE(ir::is_used(k.body, c));
  ir::replace_uses(k.body, a, c);
  CHECK_FALSE(ir::is_used(k.body, a));
  CHECK(ir::is_used(k.body, c));
}
