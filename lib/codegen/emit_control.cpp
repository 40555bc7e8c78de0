// Structured control flow and cells.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::opcode;

void emitter::when(Value* condition, const std::function<void()>& body) {
  BasicBlock* then = BasicBlock::Create(c_, "then", f_);
  BasicBlock* join = BasicBlock::Create(c_, "join", f_);
  b.CreateCondBr(condition, then, join);
  b.SetInsertPoint(then);
  body();
  b.CreateBr(join);
  b.SetInsertPoint(join);
}

void emitter::loop(Value* first, Value* last, Value* step, bool sign, bool unroll, const std::function<void(Value*)>& body) {
  // The test stands at the end, behind a guard: one branch per iteration.
  const auto less = [&](Value* i) { return sign ? b.CreateICmpSLT(i, last) : b.CreateICmpULT(i, last); };
  BasicBlock* before = BasicBlock::Create(c_, "loop.enter", f_);
  BasicBlock* inside = BasicBlock::Create(c_, "loop", f_);
  BasicBlock* after = BasicBlock::Create(c_, "loop.end", f_);
  b.CreateCondBr(less(first), before, after);
  b.SetInsertPoint(before);
  b.CreateBr(inside);
  b.SetInsertPoint(inside);
  PHINode* i = b.CreatePHI(first->getType(), 2);
  i->addIncoming(first, before);
  body(i);
  Value* next = b.CreateAdd(i, step);
  i->addIncoming(next, b.GetInsertBlock());
  BranchInst* back = b.CreateCondBr(less(next), inside, after);
  if (!unroll) {
    // Otherwise LLVM or ptxas multiplies the MMAs of a loop, and with them the registers and the code.
    MDNode* off = MDNode::get(c_, {MDString::get(c_, "llvm.loop.unroll.disable")});
    MDNode* id = MDNode::getDistinct(c_, {nullptr, off});
    id->replaceOperandWith(0, id);
    back->setMetadata(LLVMContext::MD_loop, id);
  }
  b.SetInsertPoint(after);
}

void emitter::emit_for(const ir::op& o) {
  const ir::region& r = *o.regions[0];
  loop(scalar(o.operands[0]), scalar(o.operands[1]), scalar(o.operands[2]), tile::is_signed(o.operands[0]->type.element), o.integer("unroll") > 1, [&](Value* i) {
    values_[r.arguments[0].get()] = {i};
    emit_region(r);
  });
}

void emitter::emit_if(const ir::op& o) {
  const bool has_else = !o.regions[1]->ops.empty();
  BasicBlock* then = BasicBlock::Create(c_, "then", f_);
  BasicBlock* otherwise = has_else ? BasicBlock::Create(c_, "else", f_) : nullptr;
  BasicBlock* join = BasicBlock::Create(c_, "join", f_);
  b.CreateCondBr(scalar(o.operands[0]), then, has_else ? otherwise : join);
  b.SetInsertPoint(then);
  emit_region(*o.regions[0]);
  b.CreateBr(join);
  if (has_else) {
    b.SetInsertPoint(otherwise);
    emit_region(*o.regions[1]);
    b.CreateBr(join);
  }
  b.SetInsertPoint(join);
}

void emitter::emit_while(const ir::op& o) {
  BasicBlock* test = BasicBlock::Create(c_, "while", f_);
  BasicBlock* body = BasicBlock::Create(c_, "while.body", f_);
  BasicBlock* after = BasicBlock::Create(c_, "while.end", f_);
  b.CreateBr(test);
  b.SetInsertPoint(test);
  emit_region(*o.regions[0]);
  const ir::op& last = *o.regions[0]->ops.back();
  if (!last.is(opcode::yield)) fail("codegen-invalid", "the condition of a while must end with yield");
  b.CreateCondBr(scalar(last.operands[0]), body, after);
  b.SetInsertPoint(body);
  emit_region(*o.regions[1]);
  MDNode* off = MDNode::get(c_, {MDString::get(c_, "llvm.loop.unroll.disable")});
  MDNode* id = MDNode::getDistinct(c_, {nullptr, off});
  id->replaceOperandWith(0, id);
  b.CreateBr(test)->setMetadata(LLVMContext::MD_loop, id);
  b.SetInsertPoint(after);
}

void emitter::emit_var(const ir::op& o) {
  if (o.is(opcode::var_new)) {
    const ir::type& cell = o.result()->type.parts[0];
    std::vector<AllocaInst*>& slots = cells_[o.result()];
    const int n = register_count(cell);
    IRBuilder<> at_entry(allocas_end_);
    const int elements = elements_per_slot(cell);
    for (int i = 0; i < n; i += elements) slots.push_back(at_entry.CreateAlloca(elements > 1 ? b.getInt32Ty() : type_of(cell.element)));
    if (!o.operands.empty()) {
      set_cell(o.result(), regs(o.operands[0]));
    } else {
      // Undefined again each time it is made: nothing of an earlier iteration is carried into this one.
      for (AllocaInst* slot : slots) b.CreateStore(PoisonValue::get(slot->getAllocatedType()), slot);
    }
    return;
  }
  if (o.is(opcode::var_set)) {
    registers values = regs(o.operands[1]);
    // The same in all lanes, and said so: what an ordinary instruction made (a division) would otherwise keep descriptors that follow from it out of uniform registers.
    if (o.integer("uniform")) values[0] = ptx1("shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", {values[0]}, b.getInt32Ty(), asm_effect | asm_convergent);
    return set_cell(o.operands[0], values, o.integer("now"));
  }
  const ir::type& cell = o.operands[0]->type.parts[0];
  registers r;
  for (AllocaInst* slot : cells_[o.operands[0]]) r.push_back(b.CreateLoad(slot->getAllocatedType(), slot));
  define(o, elements_per_slot(cell) > 1 ? unpack(r, cell.element, register_count(cell)) : r);
}

// Narrow elements that live on lie in whole words: a register holds 32 bits, whatever the type in it.
int emitter::elements_per_slot(const ir::type& cell) {
  const int bits = cell.is_tile() && cell.element != ir::element::boolean ? stored_bits(cell.element) : 32;
  return bits < 32 && register_count(cell) % (32 / bits) == 0 ? 32 / bits : 1;
}

void emitter::set_cell(ir::value cell, const registers& v, bool now) {
  const std::vector<AllocaInst*>& slots = cells_[cell];
  const ir::type& type = cell->type.parts[0];
  if (static_cast<int>(v.size()) != register_count(type)) fail("codegen-invalid", cat("a cell of ", register_count(type), " registers is set to ", v.size()));
  registers words = elements_per_slot(type) > 1 ? pack(v, type.element) : v;
  if (now) words = tie("", words);  // LLVM would sink the arithmetic to its use, and keep what it reads instead
  for (size_t i = 0; i < slots.size(); ++i) b.CreateStore(words[i], slots[i]);
}

}  // namespace tlx::codegen
