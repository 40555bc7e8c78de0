// Warpgroup MMA. The accumulator is a cell of one alloca per register: each wgmma loads its registers, passes them through the instruction as
// tied operands and stores the results; SROA turns that into the same registers in place, without a copy.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::element;
using ir::opcode;

void emitter::emit_wgmma(const ir::op& o) {
  switch (o.code) {
    case opcode::wgmma_fence: return ptx0("wgmma.fence.sync.aligned;", "", {}, asm_barrier);
    case opcode::wgmma_commit: return ptx0("wgmma.commit_group.sync.aligned;", "", {}, asm_barrier);
    case opcode::wgmma_wait: return emit_wgmma_wait(o);
    case opcode::wgmma_mma: return emit_wgmma_mma(o);
    default: {  // descriptor
      Value* field = b.CreateLShr(b.CreateAnd(scalar(o.operands[0]), const32(0x3ffff)), 4);
      return define(o, {b.CreateOr(b.CreateZExt(field, b.getInt64Ty()), b.getInt64(static_cast<std::uint64_t>(o.integer("bits"))))});
    }
  }
}

namespace {
element parse(const std::string& name) {
  const auto e = tile::parse_element(name);
  return e ? *e : element::bf16;
}
}  // namespace

void emitter::emit_wgmma_mma(const ir::op& o) {
  const int n = static_cast<int>(o.integer("n")), k = static_cast<int>(o.integer("k")), block = static_cast<int>(o.integer("row_block"));
  const element e = parse(o.text("element", "bf16"));
  const element second = o.has("element_b") ? parse(o.text("element_b")) : e;
  const bool may_transpose = tile::bits(e) == 16;  // the flags exist for 16-bit operands only
  const int ta = static_cast<int>(o.integer("ta")), tb = static_cast<int>(o.integer("tb"));
  if (!may_transpose && (ta != 0 || tb != 0)) fail("codegen-invalid", cat("wgmma of ", tile::name(e), " has no transposed operands"));

  const std::vector<AllocaInst*>& cell = cells_[o.operands[0]];
  const ir::type& t = o.operands[0]->type.parts.at(0);
  const tile::layout& l = layout_of(t);
  const int count = n / 2, first = block * count;
  if (first + count > static_cast<int>(cell.size())) fail("codegen-layout", cat("row block ", block, " of ", n, " columns needs registers ", first, " to ", first + count, ", the accumulator has ", cell.size()));
  // Register d of the instruction: row + 8 * bit 1 of d, columns (d & 1) + 8 * (d >> 2).
  for (int d = 0; d < count; ++d)
    if (!(l.at(first + d, 0) - l.at(first, 0) == tile::coordinate{8 * ((d >> 1) & 1), (d & 1) + 8 * (d >> 2)}))
      fail("codegen-layout", cat("register ", first + d, " of the accumulator is not where wgmma puts it"));

  const bool is_f32 = t.element == element::f32;
  if (!is_f32 && t.element != element::s32) fail("codegen-element", cat("a wgmma accumulator of ", tile::name(t.element)), "accumulators are f32 (floats) or s32 (integers)");
  Value* accumulate = scalar(o.operands[3]);
  const auto* known = dyn_cast<ConstantInt>(accumulate);
  const bool fresh = known && known->isZero();  // the old contents are not read: no inputs, so nothing has to be there

  std::vector<std::string> d_names, a_names;
  std::string constraints;
  registers inputs;
  std::vector<Type*> types(static_cast<size_t>(count), is_f32 ? b.getFloatTy() : b.getInt32Ty());
  for (int d = 0; d < count; ++d) {
    d_names.push_back(cat("$", d));
    constraints += is_f32 ? "=f," : "=r,";
  }
  if (!fresh)
    for (int d = 0; d < count; ++d) {
      AllocaInst* slot = cell[static_cast<size_t>(first + d)];
      inputs.push_back(b.CreateLoad(slot->getAllocatedType(), slot));
      constraints += cat(d, ",");
    }
  const auto add = [&](Value* v, const char* constraint) {
    inputs.push_back(v);
    constraints += cat(constraint, ",");
    return cat("$", static_cast<size_t>(count) + inputs.size() - 1);
  };

  std::string a;
  const bool a_in_registers = o.operands[1]->type.is_tile();
  if (a_in_registers) {
    const ir::type& at = o.operands[1]->type;
    const tile::layout& al = layout_of(at);
    const int bits = tile::bits(at.element), per_thread = 16 * k * 8 / 128 * 4 / 8;  // 64 x k elements over 128 threads
    const int start = static_cast<int>(o.integer("step")) * per_thread + block * at.cols / 2;
    const int step = static_cast<int>(o.integer("step"));
    if (bits != 16 || k != 16) fail("codegen-element", "a register operand of wgmma that is not 16-bit");
    registers elements;
    for (int v = 0; v < per_thread; ++v) {
      const int reg = start + v;
      if (reg >= al.register_count() || !(al.at(reg, 0) - al.at(block * at.cols / 2, 0) == tile::coordinate{8 * ((v >> 1) & 1), 16 * step + (v & 1) + 8 * (v >> 2)}))
        fail("codegen-layout", cat("element ", v, " of K step ", step, " is not in register ", reg, " of the operand"));
      elements.push_back(regs(o.operands[1])[static_cast<size_t>(reg)]);
    }
    for (Value* word : pack(elements, at.element)) a_names.push_back(add(word, "r"));
    a = "{" + join(a_names, ", ") + "}";
  } else {
    a = add(scalar(o.operands[1]), "l");
  }
  const std::string bd = add(scalar(o.operands[2]), "l");

  // scale-d must be a predicate register.
  std::string open, scale, close;
  if (known) {
    open = cat("{ .reg .pred p; setp.ne.b32 p, ", fresh ? 0 : 1, ", 0; ");
    scale = "p";
    close = " }";
  } else {
    scale = add(accumulate, "b");
  }
  constraints.pop_back();
  std::string flags = tile::is_float(e) ? ", 1, 1" : "";
  if (may_transpose) flags += a_in_registers ? cat(", ", tb) : cat(", ", ta, ", ", tb);
  const registers d = ptx(cat(open, "wgmma.mma_async.sync.aligned.m64n", n, "k", k, is_f32 ? ".f32." : ".s32.", tile::name(e), ".", tile::name(second), " {", join(d_names, ", "), "}, ", a,
                              ", ", bd, ", ", scale, flags, ";", close),
                          constraints, inputs, types, asm_barrier);
  for (int i = 0; i < count; ++i) b.CreateStore(d[static_cast<size_t>(i)], cell[static_cast<size_t>(first + i)]);
}

registers emitter::tie(const std::string& text, const registers& values) {
  std::string outputs, inputs;
  std::vector<Type*> types;
  registers words;
  std::vector<Type*> original;
  for (size_t i = 0; i < values.size(); ++i) {
    Type* t = values[i]->getType();
    original.push_back(t);
    const bool f = t->isFloatTy();
    Value* v = values[i];
    if (!f && !t->isIntegerTy(32)) fail("codegen-element", "only 32-bit values are tied to a wait");
    outputs += f ? "=f," : "=r,";
    inputs += cat(i, ",");
    types.push_back(t);
    words.push_back(v);
  }
  std::string constraints = outputs + inputs;
  if (!constraints.empty()) constraints.pop_back();
  return ptx(text, constraints, words, types, asm_barrier);
}

void emitter::emit_wgmma_wait(const ir::op& o) {
  const std::string text = cat("wgmma.wait_group.sync.aligned ", o.integer("pending"), ";");
  if (o.operands.empty()) return ptx0(text, "", {}, asm_barrier);
  for (ir::value v : o.operands) {
    const std::vector<AllocaInst*>& cell = cells_[v];
    for (size_t from = 0; from < cell.size(); from += 128) {
      const size_t to = std::min(cell.size(), from + 128);
      registers in;
      for (size_t i = from; i < to; ++i) in.push_back(b.CreateLoad(cell[i]->getAllocatedType(), cell[i]));
      const registers out = tie(text, in);
      for (size_t i = from; i < to; ++i) b.CreateStore(out[i - from], cell[i]);
    }
  }
}

}  // namespace tlx::codegen
