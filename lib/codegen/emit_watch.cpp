// Watched kernels: waits with a time limit, and the way out.
//
// Ways out are jumps. A thread that gives up goes through one block that makes its record, then to watch.exit, or to the end of the branch that only
// some lanes of its warp run. All lanes of a warp decide together where all of them wait: half a warp must not go on to instructions that want it whole.
#include "codegen/emitter.hpp"
#include "tlx/support/watch_record.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::opcode;

namespace {
// A CTA stays this long after it gave up: copies and products in flight land in its own shared memory, within microseconds.
constexpr std::uint64_t settle_ns = 1000000;
}  // namespace

void emitter::start_watch() {
  ir::walk(k_.body, [&](const ir::op& o) {
    if (o.is(opcode::watch_exit)) limit_ns_ = static_cast<std::uint64_t>(o.integer("limit_ns"));
    uses_wgmma_ = uses_wgmma_ || o.is(opcode::wgmma_mma);
    uses_bulk_stores_ = uses_bulk_stores_ || o.is(opcode::tma_store);
  });
  if (limit_ns_ == 0) return;
  const auto variable = [&](Type* t, const char* name) {
    auto* v = new GlobalVariable(m_, t, false, GlobalValue::ExternalLinkage, Constant::getNullValue(t), name, nullptr, GlobalValue::NotThreadLocal, 1);
    v->setAlignment(Align(8));
    return b.CreatePtrToInt(v, b.getInt64Ty());
  };
  watch_state_ = variable(ArrayType::get(b.getInt32Ty(), 2), watch_state_name);
  watch_records_ = variable(b.getInt64Ty(), watch_records_name);
  IRBuilder<> entry(allocas_end_);
  gave_up_ = entry.CreateAlloca(b.getInt1Ty());
  entry.CreateStore(b.getFalse(), gave_up_);
  ways_out_.emplace_back();
  ways_out_[0].to = BasicBlock::Create(c_, "watch.exit", f_);
}

Value* emitter::vote(const char* mode, Value* p) { return ptx1(cat("vote.sync.", mode, ".pred $0, $1, -1;"), "=b,b", {p}, b.getInt1Ty(), asm_barrier); }
Value* emitter::now() { return ptx1("mov.u64 $0, %globaltimer;", "=l", {}, b.getInt64Ty(), asm_effect | asm_memory); }
Value* emitter::abort_flag() { return ptx1("ld.relaxed.gpu.global.u32 $0, [$1];", "=r,l", {watch_state_}, b.getInt32Ty(), asm_effect | asm_memory); }

// From where the builder stands to the way out that holds here, if not `go_on`; goes on otherwise.
void emitter::leave_unless(Value* go_on, std::int64_t site, Value* place, Value* value, Value* why, Value* lane) {
  way_out& out = ways_out_[inside_.empty() ? 0 : inside_.back()];
  if (!out.give_up) {
    out.give_up = BasicBlock::Create(c_, "give_up", f_);
    IRBuilder<> at(out.give_up);
    for (PHINode*& p : out.what) p = at.CreatePHI(b.getInt32Ty(), 4);
  }
  BasicBlock* after = BasicBlock::Create(c_, "go_on", f_);
  Value* const told[] = {const32(site), place, value, why, lane};
  for (size_t i = 0; i < 5; ++i) out.what[i]->addIncoming(told[i], b.GetInsertBlock());
  MDNode* likely = MDNode::get(c_, {MDString::get(c_, "branch_weights"), ConstantAsMetadata::get(b.getInt32(2000)), ConstantAsMetadata::get(b.getInt32(1))});
  b.CreateCondBr(go_on, after, out.give_up, likely);
  b.SetInsertPoint(after);
}

void emitter::emit_watched_wait(std::int64_t site, Value* address, Value* parity) {
  const bool together = inside_.empty();
  const auto all = [&](Value* p) { return together ? vote("all", p) : p; };
  const auto any = [&](Value* p) { return together ? vote("any", p) : p; };
  Value* at = b.CreateIntToPtr(address, PointerType::get(c_, 3));
  const auto done = [&] { return all(b.CreateIntrinsic(Intrinsic::nvvm_mbarrier_try_wait_parity_scope_cta_space_cta, {}, {at, parity})); };
  BasicBlock* slow = BasicBlock::Create(c_, "wait.slow", f_);
  BasicBlock* again = BasicBlock::Create(c_, "wait", f_);
  BasicBlock* look = BasicBlock::Create(c_, "wait.look", f_);
  BasicBlock* last = BasicBlock::Create(c_, "wait.last", f_);
  BasicBlock* after = BasicBlock::Create(c_, "waited", f_);
  MDNode* likely = MDNode::get(c_, {MDString::get(c_, "branch_weights"), ConstantAsMetadata::get(b.getInt32(2000)), ConstantAsMetadata::get(b.getInt32(1))});
  b.CreateCondBr(done(), after, slow, likely);
  b.SetInsertPoint(slow);
  Value* start = now();
  b.CreateBr(again);
  b.SetInsertPoint(again);
  b.CreateCondBr(done(), after, look, likely);
  b.SetInsertPoint(look);
  Value* followed = b.CreateICmpNE(abort_flag(), const32(0));
  Value* late = b.CreateICmpUGT(b.CreateSub(now(), start), b.getInt64(limit_ns_));
  b.CreateCondBr(any(b.CreateOr(followed, late)), last, again);
  b.SetInsertPoint(last);
  // What is complete by now was not waited for in vain: nobody gives up beside a lane that goes on.
  Value* complete = all(ptx1("mbarrier.test_wait.parity.shared::cta.b64 $0, [$1], $2;", "=b,r,r", {address, parity}, b.getInt1Ty(), asm_barrier));
  Value* place = b.CreateSub(address, b.CreatePtrToInt(shared_, b.getInt32Ty()));
  Value* why = b.CreateSelect(followed, const32(static_cast<int>(watch_record::cause::followed)), const32(static_cast<int>(watch_record::cause::time)));
  leave_unless(complete, site, place, parity, why, together ? const32(0) : lane_);
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

// bar.sync of some warps that all may fail to come to: one arrival a warp, then a wait like any other.
void emitter::emit_timed_meet(const ir::op& o) {
  const auto offset = o.integer("timed");
  AllocaInst*& parity = meet_parities_[offset];
  if (!parity) {
    IRBuilder<> entry(allocas_end_);
    parity = entry.CreateAlloca(b.getInt32Ty());
    entry.CreateStore(const32(0), parity);
  }
  Value* address = plus(b.CreatePtrToInt(shared_, b.getInt32Ty()), offset);
  ptx0("bar.warp.sync -1;", "", {}, asm_barrier);
  ptx0("@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b", {address, b.CreateICmpEQ(lane_, const32(0))}, asm_barrier);
  Value* phase = b.CreateLoad(b.getInt32Ty(), parity);
  emit_watched_wait(o.integer("site"), address, phase);
  b.CreateStore(b.CreateXor(phase, const32(1)), parity);
}

void emitter::emit_require(const ir::op& o) {
  if (limit_ns_ == 0) fail("codegen-unlowered", "a requirement in a kernel that is not watched", "drop-requirements removes it");
  const auto shown = [&](size_t i) { return o.operands.size() > i ? scalar(o.operands[i]) : const32(watch_no_value); };
  Value* holds = scalar(o.operands[0]);
  Value *value = shown(1), *bound = shown(2), *lane = lane_;
  if (inside_.empty()) {
    Value* failing = ptx1("vote.sync.ballot.b32 $0, $1, -1;", "=r,b", {b.CreateNot(holds)}, b.getInt32Ty(), asm_barrier);
    lane = b.CreateBinaryIntrinsic(Intrinsic::cttz, failing, b.getFalse());
    holds = b.CreateICmpEQ(failing, const32(0));
  }
  leave_unless(holds, o.integer("site"), bound, value, const32(static_cast<int>(watch_record::cause::requirement)), lane);
}

void emitter::emit_with_way_out(const ir::op& o) {
  way_out out;
  out.to = BasicBlock::Create(c_, "way_out", f_);
  BasicBlock* end = out.to;
  ways_out_.push_back(out);
  inside_.push_back(ways_out_.size() - 1);
  emit_op(o);
  inside_.pop_back();
  b.CreateBr(end);
  b.SetInsertPoint(end);
}

void emitter::emit_watch(const ir::op& o) {
  if (o.is(opcode::watch_leave)) {
    BasicBlock* after = BasicBlock::Create(c_, "stay", f_);
    b.CreateCondBr(vote("any", b.CreateLoad(b.getInt1Ty(), gave_up_)), ways_out_[0].to, after);
    b.SetInsertPoint(after);
    return;
  }
  b.CreateBr(ways_out_[0].to);
  b.SetInsertPoint(ways_out_[0].to);
  ptx0("bar.warp.sync -1;", "", {}, asm_barrier);
  when(b.CreateICmpNE(abort_flag(), const32(0)), [&] {
    if (uses_bulk_stores_) ptx0("cp.async.bulk.wait_group 0;", "", {}, asm_effect | asm_memory);
    Value* start = now();
    BasicBlock* again = BasicBlock::Create(c_, "settle", f_);
    BasicBlock* after = BasicBlock::Create(c_, "settled", f_);
    b.CreateBr(again);
    b.SetInsertPoint(again);
    b.CreateCondBr(b.CreateICmpUGT(b.CreateSub(now(), start), b.getInt64(settle_ns)), after, again);
    b.SetInsertPoint(after);
  });
}

// After everything else: the blocks that make the records.
void emitter::finish_watch() {
  for (size_t i = 0; i < ways_out_.size(); ++i) {
    const way_out& out = ways_out_[i];
    if (!out.give_up) continue;
    const auto [site, place, value, why, lane] = out.what;
    b.SetInsertPoint(out.give_up);
    const auto sreg = [&](Intrinsic::ID id) { return b.CreateIntrinsic(b.getInt32Ty(), id, {}); };
    Value* x = sreg(Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
    Value* y = sreg(Intrinsic::nvvm_read_ptx_sreg_ctaid_y);
    Value* z = sreg(Intrinsic::nvvm_read_ptx_sreg_ctaid_z);
    Value* wide = sreg(Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
    Value* high = sreg(Intrinsic::nvvm_read_ptx_sreg_nctaid_y);
    Value* me = b.CreateAdd(b.CreateAdd(x, b.CreateMul(wide, b.CreateAdd(y, b.CreateMul(high, z)))), const32(1));
    when(b.CreateICmpEQ(lane_, lane), [&] {
      Value* first = ptx1("atom.relaxed.gpu.global.cas.b32 $0, [$1], 0, $2;", "=r,l,r", {watch_state_, me}, b.getInt32Ty(), asm_effect | asm_memory);
      Value* won = b.CreateICmpEQ(first, const32(0));
      when(b.CreateOr(won, b.CreateICmpEQ(first, me)), [&] {
        // The first has record 0; the others of its CTA take the next ones.
        Value* counted = ptx1("atom.relaxed.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r", {plus(watch_state_, 4), b.CreateSelect(won, const32(0), const32(1))}, b.getInt32Ty(), asm_effect | asm_memory);
        Value* index = b.CreateSelect(won, const32(0), b.CreateAdd(counted, const32(1)));
        Value* records = ptx1("ld.global.u64 $0, [$1];", "=l,l", {watch_records_}, b.getInt64Ty(), asm_effect | asm_memory);
        when(b.CreateAnd(b.CreateICmpULT(index, const32(watch_capacity)), b.CreateICmpNE(records, b.getInt64(0))), [&] {
          Value* at = b.CreateAdd(records, b.CreateMul(b.CreateZExt(index, b.getInt64Ty()), b.getInt64(sizeof(watch_record))));
          Value* mixed = b.CreateOr(b.CreateOr(warp_, b.CreateShl(lane_, 8)), b.CreateShl(why, 16));
          ptx0("st.global.v4.b32 [$0+16], {$1, $2, $3, $4};", "l,r,r,r,r", {at, z, place, value, const32(0)}, asm_effect | asm_memory);
          ptx0("st.global.v4.b32 [$0], {$1, $2, $3, $4};", "l,r,r,r,r", {at, plus(site, 1), mixed, x, y}, asm_effect | asm_memory);
          ptx0("membar.sys;", "", {}, asm_effect | asm_memory);
        });
      });
    });
    b.CreateStore(b.getTrue(), gave_up_);
    // Registers of a product in flight must not be used for anything else; only its own warp can wait for it.
    if (i == 0 && uses_wgmma_) ptx0("wgmma.wait_group.sync.aligned 0;", "", {}, asm_barrier);
    b.CreateBr(out.to);
  }
}

}  // namespace tlx::codegen
