// What users of other compilers met in LLVM's back end for these chips (the number of the report in the name), as kernels of ours.
#include <doctest/doctest.h>

#include "tests/codegen/kernels.hpp"
#include "tests/codegen/look.hpp"
#include "tests/support/skip.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/layout_ops.hpp"

using namespace tlx;
using namespace ::test;
using ir::builder;
using ir::opcode;
using ir::type;
using ir::value;
using tile::element;

namespace {

using integers = std::vector<std::int64_t>;

void is_accepted(const std::string& ptx, const std::string& target) {
  if (ptxas().empty()) return tlx::test::note_skip("no ptxas");
  const assembled a = assemble(ptx, target);
  CAPTURE(ptx);
  CAPTURE(a.log);
  CHECK(a.ok);
}

/// A 16 x 32 tile of each type, worked on by everything that has a meaning for it, flushed to zero as all our code is.
std::string every_operation(const std::string& target, element e) {
  return compile_body(target, 4, [&](ir::kernel& k, builder& b) {
    value in = add_parameter(k, "x", type::view_of(e, 2)), out = add_parameter(k, "y", type::view_of(e, 2));
    const type t = type::tile_of(e, 16, 32).with_layout(tile::blocked(16, 32, 4, 4));
    const auto load = [&](int row) { return b.make(opcode::global_load, {in, b.integer(row), b.integer(0)}, {t}, {{"tile_axes", integers{0, 1}}}).result(); };
    int row = 0;
    const auto keep = [&](value v) { b.make(opcode::global_store, {v, out, b.integer(16 * row++), b.integer(0)}, {}, {{"tile_axes", integers{0, 1}}}); };
    value x = load(0), y = load(16);
    const value zero = b.splat(0, t);
    keep(b.binary(opcode::max, x, zero));  // relu
    keep(b.binary(opcode::min, x, y));
    keep(b.unary(opcode::neg, x));
    keep(b.unary(opcode::abs, x));
    keep(b.add(x, y));
    keep(b.sub(x, y));
    keep(b.mul(x, y));
    keep(b.make(opcode::fma, {x, y, x}, {t}).result());
    for (const char* is : {"eq", "ne", "lt", "le", "gt", "ge"}) keep(b.select(b.compare(is, x, y), x, b.unary(opcode::neg, y)));
    for (const opcode nan : {opcode::max, opcode::min}) keep(b.make(nan, {x, y}, {t}, {{"nan", std::int64_t{1}}}).result());
  });
}

}  // namespace

TEST_CASE("C41: a barrier of one warp behind a branch on the thread stays one, and so does an exchange of lanes") {
  for (const char* target : targets) {
    CAPTURE(target);
    const std::string ptx = compile_body(target, 1, [](ir::kernel& k, builder& b) {
      value in = add_parameter(k, "x", type::view_of(element::s32, 1)), out = add_parameter(k, "y", type::view_of(element::s32, 1));
      value lane = b.simple(opcode::lane_id, element::s32);
      value cell = b.var(type::scalar(element::s32), b.integer(0), "v");
      b.when(
          b.compare("lt", lane, b.integer(7)), [&](builder& t) { t.set(cell, t.make(opcode::global_load, {in, lane}, {type::scalar(element::s32)}).result()); },
          [&](builder& e) { e.set(cell, e.make(opcode::global_load, {in, e.add(lane, 100)}, {type::scalar(element::s32)}).result()); });
      b.make(opcode::barrier_cta, {}, {}, {{"id", std::int64_t{14}}, {"threads", std::int64_t{32}}});
      const tile::layout row = tile::blocked(1, 32, 1);
      value index = b.make(opcode::iota, {}, {type::tile_of(element::s32, 1, 32).with_layout(row)}, {{"axis", std::int64_t{1}}}).result();
      value sum = b.make(opcode::reduce, {index}, {type::tile_of(element::s32, 1, 1).with_layout(tile::reduced(row, tile::axis::cols))}, {{"op", std::string("add")}, {"axis", std::int64_t{1}}}).result();
      b.make(opcode::global_store, {b.get(cell), out, lane});
      b.make(opcode::barrier_warp);
      b.make(opcode::global_store, {sum, out, b.integer(32)}, {}, {{"tile_axes", integers{-1, 0}}});
    });
    CHECK(count(ptx, " 14, 32;") == 1);
    CHECK(count(ptx, "bar.warp.sync") == 1);
    CHECK(count(ptx, "shfl.sync") == 5);
    is_accepted(ptx, target);
  }
}

TEST_CASE("C42: maximum, minimum, comparison, sign and sums of every float type assemble for every target") {
  for (const char* target : targets)
    for (const element e : {element::bf16, element::f16, element::f32, element::f64}) {
      CAPTURE(target);
      const std::string ptx = every_operation(target, e);
      if (e == element::bf16)
        for (const char* wrong : {"max.ftz.bf16", "min.ftz.bf16", "neg.ftz.bf16", "abs.ftz.bf16", "setp.gt.ftz.bf16"}) CHECK(!contains(ptx, wrong));
      is_accepted(ptx, target);
    }
}

TEST_CASE("C45: what only one architecture has is selected on all of its members and refused by name on the others") {
  const auto fence = [](const std::string& target) {
    return compile_body(target, 4, [](ir::kernel&, builder& b) { b.make(opcode::tmem_fence, {}, {}, {{"before", std::int64_t{1}}}); });
  };
  for (const char* target : {"sm_100a", "sm_103a"}) {
    const std::string ptx = fence(target);
    CHECK(contains(ptx, "tcgen05.fence::before_thread_sync"));
    is_accepted(ptx, target);
  }
  const auto wgmma = [](const std::string& target) { return compile_body(target, 4, [](ir::kernel&, builder& b) { b.make(opcode::wgmma_fence); }); };
  is_accepted(wgmma("sm_90a"), "sm_90a");
  CHECK(error_id([&] { fence("sm_90a"); }) == "codegen-target");
  CHECK(error_id([&] { wgmma("sm_100a"); }) == "codegen-target");
  CHECK(error_id([&] { fence("sm_80"); }) == "target-unknown");
}
