// Block-scaled tcgen05: copies of scales to tensor memory, and the products that read them. Inline PTX, as in emit_tcgen05.cpp.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::opcode;

void emitter::emit_scaled(const ir::op& o) {
  if (o.is(opcode::tcgen05_copy)) return ptx0("tcgen05.cp.cta_group::1.32x128b.warpx4 [$0], $1;", "r,l", {scalar(o.operands[0]), scalar(o.operands[1])}, asm_effect | asm_memory);
  // .blockNN, not .scale_vec::NX: the latter is a spelling of sm_100a alone.
  const std::string instruction = cat("tcgen05.mma.cta_group::1.kind::", o.text("kind"), ".block_scale.block", o.integer("block"), " [$0], $1, $2, $3, [$4], [$5], ");
  registers inputs{scalar(o.operands[0]), scalar(o.operands[1]), scalar(o.operands[2]), const32(o.integer("idesc")), scalar(o.operands[3]), scalar(o.operands[4])};
  Value* accumulate = scalar(o.operands[5]);
  if (const auto* known = dyn_cast<ConstantInt>(accumulate))
    return ptx0(cat("{ .reg .pred p; setp.ne.b32 p, ", known->isZero() ? 0 : 1, ", 0; ", instruction, "p; }"), "r,l,l,r,r,r", inputs, asm_effect | asm_memory);
  inputs.push_back(accumulate);
  ptx0(instruction + "$6;", "r,l,l,r,r,r,b", inputs, asm_effect | asm_memory);
}

}  // namespace tlx::codegen
