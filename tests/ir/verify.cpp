// One broken kernel for each rule of the verifier: it must be found, at its op, with its words.
#include "tlx/ir/verify.hpp"

#include <doctest/doctest.h>

#include "tlx/ir/builder.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;

namespace {

const std::string head = R"IR(tlx.ir 1
kernel @k target("sm_90a") warps(4) cluster(1, 1, 1) blocks(1) shared(0) grid("1", "1", "1") [
  (%x : view<bf16 2>)
  (%n : s32)
  (%f : f32)
  %yes = const {value = 1} : bool
  %t = iota {axis = 0} : tile<s32 8x16>
  %cell = var.new %n : var<s32>
  %s = ring.make {name = "r"} : ring<2: shared<bf16 64x64 sw128>>
  %d = acc.make : acc<f32 64x32>
)IR";

// "OP: what" of each problem of the kernel that consists of the head and `body`.
std::vector<std::string> problems(const std::string& body) {
  const auto k = ir::parse(head + body + "]\n");
  std::vector<std::string> found;
  for (const ir::problem& p : ir::verify(*k)) found.push_back(cat(ir::row(p.at->code).text, ": ", p.what));
  return found;
}
using list = std::vector<std::string>;

}  // namespace

TEST_CASE("the head alone is a valid kernel") { CHECK(problems("") == list{}); }

TEST_CASE("values are used where they are visible") {
  // The parser knows names only; that a region's values end with it is the verifier's rule.
  CHECK(problems("if %yes [\n%a = const {value = 1} : s32\n] [\n]\n%b = neg %a : s32\n") == list{"neg: uses a value that is not defined before it in this region or an enclosing one"});
  auto k = ir::parse(head + "%a = neg %n : s32\n%b = neg %a : s32\n]\n");
  auto& ops = k->body.ops;
  std::swap(ops[ops.size() - 1], ops[ops.size() - 2]);
  CHECK(ir::verify(*k).size() == 1);
  const auto other = ir::parse(head + "]\n");
  auto mixed = ir::parse(head + "%a = neg %n : s32\n]\n");
  mixed->body.ops.back()->operands[0] = other->body.arguments[1].get();
  REQUIRE(ir::verify(*mixed).size() == 1);
  CHECK(ir::verify(*mixed)[0].at == mixed->body.ops.back().get());
}

TEST_CASE("counts of operands, results and regions are those of ops.def") {
  CHECK(problems("%a = add %n : s32\n") == list{"add: expects 2 operands, has 1"});
  CHECK(problems("add %n, %n\n") == list{"add: expects 1 results, has 0"});
  CHECK(problems("barrier.warp [\n]\n") == list{"barrier.warp: expects 0 regions, has 1"});
  CHECK(problems("if %yes [\n]\n") == list{"if: expects 2 regions, has 1"});
  CHECK(problems("var.get\n") == list{"var.get: expects 1 operands, has 0", "var.get: expects 1 results, has 0"});
}

TEST_CASE("elementwise operations have one shape, one element type and, once given, one layout") {
  CHECK(problems("%a = neg %x : view<bf16 2>\n") == list{"neg: operand of type view<bf16 2> in arithmetic"});
  CHECK(problems("%a = neg %t : tile<s32 8x8>\n") == list{"neg: operand is tile<s32 8x16>, result tile<s32 8x8>"});
  CHECK(problems("%a = add %n, %f : s32\n") == list{"add: operand 1 is f32, result s32"});
  CHECK(problems("%a = cmp %n, %n {is = \"lt\"} : s32\n") == list{"cmp: a comparison gives bool"});
  CHECK(problems("%a = select %n, %n, %n : s32\n") == list{"select: the condition of select must be bool"});
  CHECK(problems("%a = select %yes, %n, %f : s32\n") == list{"select: operand 2 is f32, result s32"});
  const std::string one = "tile<s32 8x64 layout<8x64 reg[(0,1),(1,0),(2,0),(4,0)] lane[(0,2),(0,4),(0,8),(0,16),(0,32)]>>";
  const std::string two = "tile<s32 8x64 layout<8x64 reg[(0,32),(1,0),(2,0),(4,0)] lane[(0,1),(0,2),(0,4),(0,8),(0,16)]>>";
  CHECK(problems("%a = iota {axis = 0} : " + one + "\n%b = neg %a : " + two + "\n") == list{"neg: operand and result have different layouts"});
  CHECK(problems("%a = iota {axis = 0} : " + one + "\n%b = neg %a : " + one + "\n") == list{});
}

TEST_CASE("conditions are bool and bounds are integers of one type") {
  CHECK(problems("if %n [\n] [\n]\n") == list{"if: the condition must be a bool scalar"});
  CHECK(problems("for %f, %f, %f [\n(%i : f32)\n]\n") == list{"for: loop bounds must be integer scalars", "for: loop bounds must be integer scalars", "for: loop bounds must be integer scalars"});
  CHECK(problems("for %n, %n, %n [\n]\n") == list{"for: a loop has one index"});
  CHECK(problems("for %n, %n, %n [\n(%i : s64)\n]\n") == list{"for: the index has another type than the bounds"});
  CHECK(problems("%w = cast %n : s64\nfor %n, %w, %n [\n(%i : s32)\n]\n") == list{"for: loop bounds must have one type"});
  CHECK(problems("while [\n] [\n]\n") == list{"while: the first region must end with yield"});
  CHECK(problems("while [\nyield %n\n] [\n]\n") == list{"yield: the condition must be a bool scalar"});
}

TEST_CASE("constants have values and cells hold what they were made for") {
  CHECK(problems("%a = const : s32\n") == list{"const: a constant needs a value"});
  CHECK(problems("%a = var.get %cell : f32\n") == list{"var.get: the cell holds s32"});
  CHECK(problems("var.set %cell, %f\n") == list{"var.set: the cell holds s32"});
  CHECK(problems("var.set %n, %n\n") == list{"var.set: needs a cell"});
  CHECK(problems("%a = var.new %f : var<s32>\n") == list{"var.new: the cell holds s32"});
  CHECK(problems("%a = var.new %n, %n : var<s32>\n") == list{"var.new: a cell has one first value"});
  CHECK(problems("%a = var.new %n : s32\n") == list{"var.new: the result must be a cell"});
}

TEST_CASE("slots have the parts of their ring") {
  CHECK(problems("%a = ring.fill %n : shared<bf16 64x64 sw128>\n") == list{"ring.fill: needs a ring"});
  CHECK(problems("%a, %b = ring.drain %s : shared<bf16 64x64 sw128>, f32\n") == list{"ring.drain: the ring has 1 parts, the slot 2"});
  CHECK(problems("%a = ring.fill %s : shared<bf16 64x32 sw64>\n") == list{"ring.fill: part 0 is shared<bf16 64x64 sw128>"});
}

TEST_CASE("loads and stores name a view, a tile of its element and a coordinate for each axis") {
  const std::string slot = "%a = ring.fill %s : shared<bf16 64x64 sw128>\n", tile = "%v = cast %t : tile<bf16 8x16>\n";
  CHECK(problems(slot + "tile.load %a, %x, %n, %n\n") == list{});
  CHECK(problems(slot + "tile.load %a, %n, %n\n") == list{"tile.load: the second operand must be a view"});
  CHECK(problems(slot + "tile.load %a, %x, %n\n") == list{"tile.load: a view of rank 2 needs as many coordinates, has 1"});
  CHECK(problems(slot + "tile.load %a, %x, %n, %n {jagged = 1}\n") == list{"tile.load: a view of rank 2 needs as many coordinates, has 1"});
  CHECK(problems("tile.load %t, %x, %n, %n\n") == list{"tile.load: the first operand must be a shared tile"});
  CHECK(problems(slot + "tile.store %a, %x, %n, %n\n") == list{"tile.store: the first operand must be a tile"});
  CHECK(problems("tile.store %t, %x, %n, %n\n") == list{"tile.store: the tile is tile<s32 8x16>, the view view<bf16 2>"});
  CHECK(problems(tile + "tile.store %v, %x, %n, %n\n") == list{});
  CHECK(problems("%l = global.load %x, %n : tile<bf16 1x8>\n") == list{"global.load: a view of rank 2 needs as many coordinates, has 1"});
  CHECK(problems("%l = global.load %n : bf16\n") == list{"global.load: the first operand must be a view"});
  CHECK(problems("%l = tile.read %t : tile<s32 8x16>\n") == list{"tile.read: needs a shared tile and a register tile"});
  CHECK(problems(slot + "%l = tile.read %a : tile<bf16 64x32>\n") == list{"tile.read: shared<bf16 64x64 sw128> and tile<bf16 64x32> differ"});
  CHECK(problems(slot + tile + "tile.write %v, %a\n") == list{"tile.write: shared<bf16 64x64 sw128> and tile<bf16 8x16> differ"});
}

TEST_CASE("products fit: M x K times K x N into M x N") {
  const std::string slot = "%a = ring.fill %s : shared<bf16 64x64 sw128>\n";
  CHECK(problems(slot + "mma %d, %a, %a\n") == list{"mma: 64x64 times 64x64 into 64x32"});
  CHECK(problems(slot + "%e = acc.make : acc<f32 64x64>\nmma %e, %a, %a {tb = 1}\n") == list{});
  CHECK(problems(slot + "%e = acc.make : acc<f32 64x64>\nmma %e, %a, %a, %n\n") == list{"mma: the condition must be a bool scalar"});
  CHECK(problems(slot + "mma %a, %a, %a\n") == list{"mma: the first operand must be an accumulator"});
  CHECK(problems(slot + "mma %d, %a\n") == list{"mma: acc, a, b and optionally accumulate"});
  CHECK(problems(slot + "mma %d, %n, %a\n") == list{"mma: a must be a shared tile or a tile"});
  CHECK(problems(slot + "mma %d, %a, %t\n") == list{"mma: b must be a shared tile"});
  CHECK(problems("%r = acc.read %n : tile<f32 64x32>\n").size() == 1);
  CHECK(problems("%r = acc.read %d {column = 16} : tile<f32 64x32>\n") == list{"acc.read: reads tile<f32 64x32> from column 16 of acc<f32 64x32>"});
  CHECK(problems("%r = acc.read %d {column = 16} : tile<f32 64x16>\n") == list{});
}

TEST_CASE("reductions and broadcasts keep the other axis") {
  CHECK(problems("%a = reduce %t {op = \"add\", axis = 1} : tile<s32 1x16>\n") == list{"reduce: the result must be one vector of the other axis"});
  CHECK(problems("%a = reduce %t {op = \"add\", axis = 1} : tile<s32 8x1>\n%b = broadcast %a : tile<s32 8x64>\n") == list{});
  CHECK(problems("%a = broadcast %t : tile<s32 16x16>\n") == list{"broadcast: tile<s32 8x16> cannot be repeated to tile<s32 16x16>"});
}

TEST_CASE("what a pass has removed does not come back") {
  auto id = [](const std::string& body, const std::string& after) -> std::string {
    const auto k = ir::parse(head.substr(0, head.find("  %s = ")) + body + "]\n");
    try {
      ir::verify_or_raise(*k, after);
    } catch (const internal_error& e) {
      return e.id();
    }
    return "";
  };
  const std::string ring = "%s = ring.make {name = \"r\"} : ring<2: shared<bf16 64x64 sw128>>\n", role = "role {name = \"a\", warps = 1} [\n]\n";
  CHECK(id(ring, "merge-roles") == "");
  for (const char* after : {"insert-barriers", "lower-moves", "lower-mma", "split-roles", "simplify"}) CHECK(id(ring, after) == "ir-invalid");
  CHECK(id(role, "lower-mma") == "");
  CHECK(id(role, "split-roles") == "ir-invalid");
  CHECK(id(role, "simplify") == "ir-invalid");
}

TEST_CASE("the report names the pass and shows the op") {
  const auto k = ir::parse(head + "%a = add %n, %f : s32 @\"user.cpp\":7\n]\n");
  try {
    ir::verify_or_raise(*k, "my-pass");
    FAIL("accepted");
  } catch (const internal_error& e) {
    const std::string text = e.what();
    CHECK(text.find("after my-pass") != std::string::npos);
    CHECK(text.find("= add ") != std::string::npos);
    CHECK(text.find("\"user.cpp\":7") != std::string::npos);
    CHECK(text.find("^ operand 1 is f32, result s32") != std::string::npos);
  }
}
