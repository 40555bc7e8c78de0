// Operations that know where a tile's elements lie: indices, reductions along an axis, broadcasts, some of the columns.
#include "codegen/emitter.hpp"
#include "tlx/tile/layout_ops.hpp"

namespace tlx::codegen {

using namespace llvm;

namespace {
int part(tile::coordinate c, int axis) { return axis == 0 ? c.row : c.col; }
}  // namespace

void emitter::emit_iota(const ir::op& o) {
  const tile::layout& l = layout_of(o.result()->type);
  const placement where(*this, l);
  registers out;
  for (int r = 0; r < l.register_count(); ++r) {
    const spot s = o.integer("axis") == 0 ? where.row(r) : where.col(r);
    out.push_back(plus(s.base, s.offset));
  }
  define(o, std::move(out));
}

/// One 32-bit shuffle, or two for 64-bit values.
Value* emitter::shuffle(const char* mode, Value* v, Value* operand) {
  Type* type = v->getType();
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue() == 0 ? 64U : static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  Value* word = b.CreateBitCast(v, b.getIntNTy(bits));
  const auto move = [&](Value* w) { return ptx1(cat("shfl.sync.", mode, ".b32 $0, $1, $2, 31, -1;"), "=r,r,r", {w, operand}, b.getInt32Ty(), asm_convergent); };
  if (bits <= 32) return b.CreateBitCast(b.CreateTrunc(move(b.CreateZExt(word, b.getInt32Ty())), b.getIntNTy(bits)), type);
  Value* low = b.CreateZExt(move(b.CreateTrunc(word, b.getInt32Ty())), b.getInt64Ty());
  Value* high = b.CreateZExt(move(b.CreateTrunc(b.CreateLShr(word, 32), b.getInt32Ty())), b.getInt64Ty());
  return b.CreateBitCast(b.CreateOr(low, b.CreateShl(high, 32)), type);
}

void emitter::emit_reduce(const ir::op& o) {
  const ir::type& t = o.operands[0]->type;
  const tile::layout& l = layout_of(t);
  const tile::layout& to = layout_of(o.result()->type);
  const int gone = static_cast<int>(o.integer("axis")), kept = 1 - gone;
  const std::string how = o.text("op");
  const registers& in = regs(o.operands[0]);

  for (int w = 1; w < l.warp_count(); ++w)
    if (part(l.at(0, 0, w), gone) != part(l.at(0, 0, 0), gone))
      fail("codegen-reduce-across-warps", "the reduced axis is spread over warps", "a reduction stays inside each warp: choose a layout whose warps follow the other axis");

  // Registers of one kept coordinate. Duplicates of an element within a thread count once.
  std::map<int, std::map<int, Value*>> groups;
  for (int r = 0; r < l.register_count(); ++r) {
    const tile::coordinate c = l.at(r, 0);
    groups[part(c, kept)].emplace(part(c, gone), in[static_cast<size_t>(r)]);
  }
  std::map<int, Value*> done;
  for (const auto& [at, elements] : groups) {
    registers level;
    for (const auto& [position, v] : elements) level.push_back(v);
    while (level.size() > 1) {  // a tree: short dependency chains
      registers next;
      for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(combine(how, t.element, level[i], level[i + 1]));
      if (level.size() % 2 != 0) next.push_back(level.back());
      level = std::move(next);
    }
    Value* v = level[0];
    for (int bit = 0; bit < 5; ++bit) {
      const tile::coordinate step = l.at(0, 1 << bit) - l.at(0, 0);
      if (part(step, gone) == 0) continue;
      if (part(step, kept) != 0) fail("codegen-layout", "a lane bit of the reduced tile moves along both axes");
      v = combine(how, t.element, v, shuffle("bfly", v, const32(1 << bit)));
    }
    done[at] = v;
  }

  registers out;
  for (int r = 0; r < to.register_count(); ++r) {
    const int at = part(to.at(r, 0), kept);
    auto it = done.find(at);
    if (it == done.end()) fail("codegen-layout", cat("the result wants coordinate ", at, " in lane 0, which does not own it in the operand"));
    for (int w = 0; w < to.warp_count(); ++w)
      for (int lane = 0; lane < tile::warp_lanes; ++lane) {
        const int moved = part(l.at(0, lane, w % l.warp_count()), kept) - part(l.at(0, 0), kept);
        if (part(to.at(r, lane, w), kept) != (at ^ moved) && part(to.at(r, lane, w), kept) != at + moved)
          fail("codegen-layout", "the result of the reduction is laid out over lanes or warps in another way than its operand");
      }
    out.push_back(it->second);
  }
  define(o, std::move(out));
}

void emitter::emit_broadcast(const ir::op& o) {
  const ir::type& from = o.operands[0]->type;
  const tile::layout& l = layout_of(from);
  const tile::layout& to = layout_of(o.result()->type);
  const registers& in = regs(o.operands[0]);
  const bool down = from.rows == 1 && o.result()->type.rows != 1, across = from.cols == 1 && o.result()->type.cols != 1;
  const auto source = [&](tile::coordinate c) { return tile::coordinate{down ? 0 : c.row, across ? 0 : c.col}; };
  registers out;
  for (int r = 0; r < to.register_count(); ++r) {
    const int found = tile::find_register(l, source(to.at(r, 0)), 0);
    bool same = found >= 0;
    for (int w = 0; same && w < to.warp_count(); ++w)
      for (int lane = 0; same && lane < tile::warp_lanes; ++lane) same = l.at(found, lane, w % l.warp_count()) == source(to.at(r, lane, w));
    if (!same)
      fail("codegen-layout", cat("register ", r, " of the result finds its element in different registers of the operand, or in another thread"),
           "a broadcast moves nothing between threads: the operand's layout follows from the result's");
    out.push_back(in[static_cast<size_t>(found)]);
  }
  define(o, std::move(out));
}

// Columns taken from tiles, each left in the thread where it is: other names for registers.
void emitter::emit_slice(const ir::op& o) {
  const tile::layout& l = layout_of(o.operands[0]->type);
  const ir::type& t = o.result()->type;
  const registers& in = regs(o.operands[0]);
  registers out;
  if (o.is(ir::opcode::every_other)) {
    if (!tile::pairs_columns(l) || !(tile::halved_columns(l) == layout_of(t))) fail("codegen-layout", "every other column of the operand is not the result's registers of the same thread");
    for (auto i = static_cast<size_t>(o.integer("first")); i < in.size(); i += 2) out.push_back(in[i]);
    return define(o, std::move(out));
  }
  if (o.is(ir::opcode::interleave)) {
    if (!(l == layout_of(o.operands[1]->type)) || !(tile::doubled_columns(l) == layout_of(t))) fail("codegen-layout", "the operands' columns are not the result's registers of the same thread");
    for (size_t i = 0; i < in.size(); ++i) {
      out.push_back(in[i]);
      out.push_back(regs(o.operands[1])[i]);
    }
    return define(o, std::move(out));
  }
  const tile::column_slice s = tile::slice_columns(l, static_cast<int>(o.integer("column")), t.cols);
  if (!s.ok || s.count != register_count(t) || !(s.part == layout_of(t)))
    fail("codegen-layout", cat("columns ", o.integer("column"), " to ", o.integer("column") + t.cols, " are not the registers of the result's layout"));
  for (int i = 0; i < s.count; ++i) out.push_back(in[static_cast<size_t>(s.source[static_cast<size_t>(i)])]);
  define(o, std::move(out));
}

}  // namespace tlx::codegen
