// mbarriers, fences, barriers of CTA, warp and cluster, register budgets, dependent launch.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::opcode;

void emitter::emit_barrier(const ir::op& o) {
  const auto address = [&] { return scalar(o.operands[0]); };
  const bool relaxed = o.integer("relaxed") != 0;
  switch (o.code) {
    case opcode::shared_base: {
      Value* base = b.CreatePtrToInt(shared_, b.getInt32Ty());
      // {opaque}: nothing derived from it can be hoisted out of the loop it stands in, which in a persistent loop would cost more registers than
      // it saves instructions; ptxas still knows that it is the same in every lane.
      if (o.integer("opaque") != 0) base = ptx1("shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", {base}, b.getInt32Ty(), asm_effect | asm_convergent);
      return define(o, {plus(base, o.integer("offset"))});
    }
    case opcode::mbarrier_init: return ptx0(cat("mbarrier.init.shared::cta.b64 [$0], ", o.integer("count", 1), ";"), "r", {address()}, asm_barrier);
    case opcode::mbarrier_expect:
      return ptx0(cat("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], ", o.integer("bytes"), ";"), "r", {address()}, asm_barrier);
    case opcode::mbarrier_arrive: {
      // Without qualifiers: release, cta. A cluster-scope release costs a fence of the whole GPU; see mbarrier.remote.
      const auto count = o.integer("count", 1);
      const std::string text = cat("mbarrier.arrive", relaxed ? ".relaxed.cta" : "", ".shared::cta.b64 _, [$0]", count == 1 ? "" : cat(", ", count), ";");
      if (o.operands.size() > 1) return ptx0("@$1 " + text, "r,b", {address(), scalar(o.operands[1])}, asm_barrier);
      return ptx0(text, "r", {address()}, asm_barrier);
    }
    case opcode::mbarrier_remote: {
      const std::string predicate = o.operands.size() > 2 ? "@$2 " : "";
      registers inputs{address(), scalar(o.operands[1])};
      if (o.operands.size() > 2) inputs.push_back(scalar(o.operands[2]));
      const char* const how = o.integer("bare") != 0 ? "" : relaxed ? ".relaxed.cluster" : ".release.cluster";
      return ptx0(cat("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, $0, $1; ", predicate, "mbarrier.arrive", how, ".shared::cluster.b64 _, [remote]; }"),
                  o.operands.size() > 2 ? "r,r,b" : "r,r", inputs, asm_barrier);
    }
    case opcode::mbarrier_wait: {
      if (limit_ns_ != 0) return emit_watched_wait(o.integer("site"), address(), scalar(o.operands[1]));
      BasicBlock* again = BasicBlock::Create(c_, "wait", f_);
      BasicBlock* after = BasicBlock::Create(c_, "waited", f_);
      Value* at = b.CreateIntToPtr(address(), PointerType::get(c_, 3));
      Value* parity = scalar(o.operands[1]);
      b.CreateBr(again);
      b.SetInsertPoint(again);
      Value* done = b.CreateIntrinsic(Intrinsic::nvvm_mbarrier_try_wait_parity_scope_cta_space_cta, {}, {at, parity});
      MDNode* likely = MDNode::get(c_, {MDString::get(c_, "branch_weights"), ConstantAsMetadata::get(b.getInt32(2000)), ConstantAsMetadata::get(b.getInt32(1))});
      b.CreateCondBr(done, after, again, likely);
      b.SetInsertPoint(after);
      return;
    }
    case opcode::fence_async: return ptx0("fence.proxy.async.shared::cta;", "", {}, asm_effect | asm_memory);
    case opcode::fence_init: return ptx0("fence.mbarrier_init.release.cluster;", "", {}, asm_effect | asm_memory);
    case opcode::barrier_cta: {
      if (o.has("timed")) return emit_timed_meet(o);
      const auto id = o.integer("id"), threads = o.integer("threads");
      return ptx0(threads == 0 ? cat("bar.sync ", id, ";") : cat("bar.sync ", id, ", ", threads, ";"), "", {}, asm_barrier);
    }
    case opcode::barrier_warp: return ptx0("bar.warp.sync -1;", "", {}, asm_barrier);
    case opcode::cluster_sync:
      ptx0(relaxed ? "barrier.cluster.arrive.relaxed.aligned;" : "barrier.cluster.arrive.release.aligned;", "", {}, asm_barrier);
      return ptx0("barrier.cluster.wait.acquire.aligned;", "", {}, asm_barrier);
    case opcode::set_registers:
      return ptx0(cat("setmaxnreg.", o.integer("increase") != 0 ? "inc" : "dec", ".sync.aligned.u32 ", o.integer("count"), ";"), "", {}, asm_barrier);
    case opcode::depend_wait: return ptx0("griddepcontrol.wait;", "", {}, asm_effect | asm_memory);
    default: return ptx0("griddepcontrol.launch_dependents;", "", {}, asm_effect | asm_memory);
  }
}

}  // namespace tlx::codegen
