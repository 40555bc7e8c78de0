// printf from device code, and the user's own PTX.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::element;

void emitter::emit_print(const ir::op& o) {
  // vprintf takes the format and a block of arguments, each aligned to its size; floats travel as doubles.
  std::vector<Type*> types;
  registers values;
  for (ir::value v : o.operands) {
    const element e = v->type.element;
    Value* x = scalar(v);
    if (tile::is_float(e))
      x = e == element::f64 ? x : b.CreateFPExt(to_f32(x, e), b.getDoubleTy());
    else if (tile::bits(e) < 32 || e == element::boolean)
      x = e != element::boolean && tile::is_signed(e) ? b.CreateSExt(x, b.getInt32Ty()) : b.CreateZExt(x, b.getInt32Ty());
    types.push_back(x->getType());
    values.push_back(x);
  }
  Type* pointer = PointerType::get(c_, 0);
  Value* block = ConstantPointerNull::get(llvm::cast<PointerType>(pointer));
  if (!types.empty()) {
    StructType* arguments = StructType::get(c_, types);
    Value* slot = IRBuilder<>(allocas_end_).CreateAlloca(arguments);
    for (unsigned i = 0; i < values.size(); ++i) b.CreateStore(values[i], b.CreateStructGEP(arguments, slot, i));
    block = slot;
  }
  Constant* text = ConstantDataArray::getString(c_, o.text("format"));
  auto* global = new GlobalVariable(m_, text->getType(), true, GlobalValue::InternalLinkage, text, "tlx_format", nullptr, GlobalValue::NotThreadLocal, 1);
  global->setAlignment(Align(1));
  b.CreateCall(m_.getOrInsertFunction("vprintf", FunctionType::get(b.getInt32Ty(), {pointer, pointer}, false)), {ConstantExpr::getAddrSpaceCast(global, pointer), block});
}

void emitter::emit_inline_ptx(const ir::op& o) {
  registers inputs;
  for (ir::value v : o.operands)
    for (Value* x : regs(v)) inputs.push_back(x);
  std::vector<Type*> types;
  for (const auto& r : o.results) types.insert(types.end(), static_cast<size_t>(register_count(r->type)), type_of(r->type.element));
  const registers out = ptx(o.text("text"), o.text("constraints"), inputs, types, asm_barrier);
  size_t at = 0;
  for (size_t i = 0; i < o.results.size(); ++i) {
    const auto n = static_cast<size_t>(register_count(o.results[i]->type));
    define(o, registers(out.begin() + static_cast<std::ptrdiff_t>(at), out.begin() + static_cast<std::ptrdiff_t>(at + n)), i);
    at += n;
  }
}

}  // namespace tlx::codegen
