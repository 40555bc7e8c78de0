// Warpgroup MMA. The accumulator is a cell of one alloca per register: each chain of wgmma loads its registers, passes them through the instructions as
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

// Products of one accumulator tile, one after the other, are one piece of inline PTX: LLVM then handles the accumulator's registers once, not once a product.
// They end before the first op that does more than compute an operand of theirs.
emitter::op_iterator emitter::emit_products(op_iterator at, op_iterator end) {
  const ir::op& head = **at;
  only_on(head, "sm_90", "wgmma");
  std::vector<const ir::op*> products;
  for (; at != end; ++at) {
    const ir::op& o = **at;
    if (o.is(opcode::wgmma_mma) && o.operands[0] == head.operands[0] && o.integer("row_block") == head.integer("row_block") && o.integer("n") == head.integer("n")) {
      products.push_back(&o);
    } else if (ir::row(o.code).effects == ir::effect::pure && o.regions.empty()) {
      at_ = &o;
      emit_op(o);
    } else {
      break;
    }
  }
  at_ = &head;
  locate(head);
  emit_chain(products);
  return at;
}

// Hardware facts of one product, checked.
void emitter::check_product(const ir::op& o) {
  const int n = static_cast<int>(o.integer("n")), block = static_cast<int>(o.integer("row_block"));
  const element e = parse(o.text("element", "bf16"));
  if (tile::bits(e) != 16 && (o.integer("ta") != 0 || o.integer("tb") != 0)) fail("codegen-invalid", cat("wgmma of ", tile::name(e), " has no transposed operands"));  // the flags exist for 16-bit operands only
  const ir::type& t = o.operands[0]->type.parts.at(0);
  const tile::layout& l = layout_of(t);
  const size_t registers_held = cells_[o.operands[0]].size();
  const int count = n / 2, first = block * count;
  if (first + count > static_cast<int>(registers_held)) fail("codegen-layout", cat("row block ", block, " of ", n, " columns needs registers ", first, " to ", first + count, ", the accumulator has ", registers_held));
  // Register d of the instruction: row + 8 * bit 1 of d, columns (d & 1) + 8 * (d >> 2).
  for (int d = 0; d < count; ++d)
    if (!(l.at(first + d, 0) - l.at(first, 0) == tile::coordinate{8 * ((d >> 1) & 1), (d & 1) + 8 * (d >> 2)}))
      fail("codegen-layout", cat("register ", first + d, " of the accumulator is not where wgmma puts it"));
  if (t.element != element::f32 && t.element != element::s32) fail("codegen-element", cat("a wgmma accumulator of ", tile::name(t.element)), "accumulators are f32 (floats) or s32 (integers)");
}

// The words of a product's A operand that this thread holds.
registers emitter::register_operand(const ir::op& o) {
  const ir::type& at = o.operands[1]->type;
  const tile::layout& al = layout_of(at);
  const int k = static_cast<int>(o.integer("k")), block = static_cast<int>(o.integer("row_block")), step = static_cast<int>(o.integer("step"));
  if (tile::bits(at.element) != 16 || k != 16) fail("codegen-element", "a register operand of wgmma that is not 16-bit");
  const int per_thread = 8, start = step * per_thread + block * at.cols / 2;  // 64 x 16 elements over 128 threads
  registers elements;
  for (int v = 0; v < per_thread; ++v) {
    const int reg = start + v;
    if (reg >= al.register_count() || !(al.at(reg, 0) - al.at(block * at.cols / 2, 0) == tile::coordinate{8 * ((v >> 1) & 1), 16 * step + (v & 1) + 8 * (v >> 2)}))
      fail("codegen-layout", cat("element ", v, " of K step ", step, " is not in register ", reg, " of the operand"));
    elements.push_back(regs(o.operands[1])[static_cast<size_t>(reg)]);
  }
  return pack(elements, at.element);
}

void emitter::emit_chain(const std::vector<const ir::op*>& products) {
  const ir::op& head = *products.front();
  for (const ir::op* o : products) check_product(*o);
  const std::vector<AllocaInst*>& cell = cells_[head.operands[0]];
  const bool is_f32 = head.operands[0]->type.parts.at(0).element == element::f32;
  const int count = static_cast<int>(head.integer("n")) / 2, first = static_cast<int>(head.integer("row_block")) * count;
  const auto known = [&](const ir::op& o) { return dyn_cast<ConstantInt>(scalar(o.operands[3])); };  // whether it adds to what is there
  const bool fresh = known(head) && known(head)->isZero();  // the old contents are not read: no inputs, so nothing has to be there

  std::vector<std::string> d_names;
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

  std::string text;
  for (const ir::op* o : products) {
    const element e = parse(o->text("element", "bf16")), second = o->has("element_b") ? parse(o->text("element_b")) : e;
    const bool a_in_registers = o->operands[1]->type.is_tile();
    std::string a;
    if (a_in_registers) {
      std::vector<std::string> words;
      for (Value* word : register_operand(*o)) words.push_back(add(word, "r"));
      a = "{" + join(words, ", ") + "}";
    } else {
      a = add(scalar(o->operands[1]), "l");
    }
    const std::string bd = add(scalar(o->operands[2]), "l");
    // scale-d must be a predicate register.
    std::string open, scale, close;
    if (const ConstantInt* adds = known(*o)) {
      open = cat("{ .reg .pred p; setp.ne.b32 p, ", adds->isZero() ? 0 : 1, ", 0; ");
      scale = "p";
      close = " }";
    } else {
      scale = add(scalar(o->operands[3]), "b");
    }
    std::string flags = tile::is_float(e) ? ", 1, 1" : "";
    if (tile::bits(e) == 16) flags += a_in_registers ? cat(", ", o->integer("tb")) : cat(", ", o->integer("ta"), ", ", o->integer("tb"));
    text += cat(text.empty() ? "" : "\n\t", open, "wgmma.mma_async.sync.aligned.m64n", o->integer("n"), "k", o->integer("k"), is_f32 ? ".f32." : ".s32.", tile::name(e), ".", tile::name(second), " {",
                join(d_names, ", "), "}, ", a, ", ", bd, ", ", scale, flags, ";", close);
  }
  constraints.pop_back();
  const registers d = ptx(text, constraints, inputs, types, asm_barrier);
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
