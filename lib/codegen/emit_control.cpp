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
    for (int i = 0; i < n; ++i) slots.push_back(at_entry.CreateAlloca(type_of(cell.element)));
    if (!o.operands.empty()) {
      const registers& first = regs(o.operands[0]);
      for (size_t i = 0; i < slots.size(); ++i) b.CreateStore(first[i], slots[i]);
    } else {
      // Undefined again each time it is made: nothing of an earlier iteration is carried into this one.
      for (AllocaInst* slot : slots) b.CreateStore(PoisonValue::get(slot->getAllocatedType()), slot);
    }
    return;
  }
  const std::vector<AllocaInst*>& slots = cells_[o.operands[0]];
  if (o.is(opcode::var_get)) {
    registers r;
    for (AllocaInst* slot : slots) r.push_back(b.CreateLoad(slot->getAllocatedType(), slot));
    return define(o, r);
  }
  const registers& v = regs(o.operands[1]);
  if (v.size() != slots.size()) fail("codegen-invalid", cat("a cell of ", slots.size(), " registers is set to ", v.size()));
  for (size_t i = 0; i < slots.size(); ++i) b.CreateStore(v[i], slots[i]);
}

}  // namespace tlx::codegen
