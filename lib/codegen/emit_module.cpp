// The kernel's signature, attributes and entry; dispatch of ops to their subjects.
#include "codegen/emitter.hpp"
#include "tlx/ir/text.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::opcode;

emitter::emitter(const ir::kernel& k, const options& how, LLVMContext& context, Module& module) : b(context), k_(k), how_(how), c_(context), m_(module) {}

void emitter::fail(const char* id, const std::string& what, const std::string& because) {
  raise(internal_error({.id = id, .what = at_ ? cat(what, " in: ", ir::print(*at_)) : what, .where = at_ ? at_->where : k_.where, .because = because,
                        .fix = {"report this with the output of `tlxc print`"}, .context = cat("kernel \"", k_.name, "\"")}));
}

Type* emitter::type_of(ir::element e) {
  using ir::element;
  switch (e) {
    case element::f64: return b.getDoubleTy();
    case element::f32:
    case element::tf32: return b.getFloatTy();
    case element::f16: return b.getHalfTy();
    case element::bf16: return b.getBFloatTy();
    case element::boolean: return b.getInt1Ty();
    default: return b.getIntNTy(static_cast<unsigned>(stored_bits(e)));
  }
}

Value* emitter::plus(Value* a, std::int64_t n) { return n == 0 ? a : b.CreateAdd(a, ConstantInt::get(a->getType(), static_cast<std::uint64_t>(n))); }

registers emitter::ptx(const std::string& text, const std::string& constraints, const registers& inputs, const std::vector<Type*>& results, unsigned flags) {
  std::vector<Type*> types;
  for (Value* v : inputs) types.push_back(v->getType());
  Type* result = results.empty() ? b.getVoidTy() : results.size() == 1 ? results[0] : StructType::get(c_, results);
  const std::string all = (flags & asm_memory) == 0 ? constraints : constraints.empty() ? "~{memory}" : constraints + ",~{memory}";
  CallInst* call = b.CreateCall(InlineAsm::get(FunctionType::get(result, types, false), text, all, (flags & asm_effect) != 0), inputs);
  if ((flags & asm_convergent) != 0) call->setConvergent();
  call->setDoesNotThrow();
  if ((flags & asm_memory) == 0) call->setDoesNotAccessMemory();
  if (results.empty()) return {};
  if (results.size() == 1) return {call};
  registers out;
  for (unsigned i = 0; i < results.size(); ++i) out.push_back(b.CreateExtractValue(call, i));
  return out;
}

const tile::layout& emitter::layout_of(const ir::type& t) {
  if (!t.layout) fail("codegen-layout", cat("a tile of type ", ir::to_string(t), " has no layout"), "layouts are assigned before code is generated");
  return *t.layout;
}

const registers& emitter::regs(ir::value v) {
  auto it = values_.find(v);
  if (it == values_.end()) fail("codegen-invalid", cat("a value of type ", ir::to_string(v->type), " is used but has no code"));
  return it->second;
}

Value* emitter::scalar(ir::value v) {
  const registers& r = regs(v);
  if (r.size() != 1) fail("codegen-invalid", cat("a scalar is expected where ", ir::to_string(v->type), " is given"));
  return r[0];
}

void emitter::define(const ir::op& o, registers r, size_t result) { values_[o.result(result)] = std::move(r); }

namespace {
std::string three(int x, int y, int z) { return cat(x, ",", y, ",", z); }
}  // namespace

void emitter::make_function() {
  std::vector<Type*> types;
  for (size_t i = 0; i < k_.maps.size(); ++i) types.push_back(PointerType::get(c_, 0));
  for (const auto& p : k_.parameters()) {
    if (p->type.is(ir::type::kind::view)) {
      types.push_back(PointerType::get(c_, 1));
      types.insert(types.end(), static_cast<size_t>(p->type.rank), b.getInt32Ty());
      types.insert(types.end(), static_cast<size_t>(std::max(p->type.rank - 1, 0)), b.getInt64Ty());
    } else if (p->type.is_scalar()) {
      // A half as a parameter would become an array of two bytes: 16 bits are passed as an integer.
      types.push_back(p->type.element == ir::element::boolean ? b.getInt8Ty() : stored_bits(p->type.element) == 16 ? b.getInt16Ty() : type_of(p->type.element));
    } else {
      fail("codegen-invalid", cat("a kernel parameter of type ", ir::to_string(p->type)));
    }
  }
  f_ = Function::Create(FunctionType::get(b.getVoidTy(), types, false), Function::ExternalLinkage, k_.name, m_);
  f_->setCallingConv(CallingConv::PTX_Kernel);
  f_->addFnAttr(Attribute::NoUnwind);
  f_->addFnAttr("nvvm.reqntid", three(k_.warps * tile::warp_lanes, 1, 1));
  f_->addFnAttr("nvvm.minctasm", std::to_string(k_.blocks_per_processor));
  if (k_.cluster[0] * k_.cluster[1] * k_.cluster[2] != 1) f_->addFnAttr("nvvm.cluster_dim", three(k_.cluster[0], k_.cluster[1], k_.cluster[2]));
  f_->addFnAttr("denormal-fp-math-f32", "preserve-sign");

  shared_ = new GlobalVariable(m_, ArrayType::get(b.getInt8Ty(), 0), false, GlobalValue::ExternalLinkage, nullptr, "tlx_shared", nullptr, GlobalValue::NotThreadLocal, 3, true);
  shared_->setAlignment(Align(1024));

  // Entry: cells first, then everything else behind a jump that is only there to keep them together.
  BasicBlock* entry = BasicBlock::Create(c_, "entry", f_);
  BasicBlock* body = BasicBlock::Create(c_, "body", f_);
  b.SetInsertPoint(entry);
  allocas_end_ = b.CreateBr(body);
  b.SetInsertPoint(body);

  unsigned n = 0;
  for (size_t i = 0; i < k_.maps.size(); ++i, ++n) {
    // Without byval and nvvm.grid_constant the map is copied to local memory, where the TMA unit cannot read it.
    f_->addParamAttr(n, Attribute::getWithByValType(c_, ArrayType::get(b.getInt8Ty(), 128)));
    f_->addParamAttr(n, Attribute::getWithAlignment(c_, Align(128)));
    f_->addParamAttr(n, Attribute::get(c_, "nvvm.grid_constant"));
    maps_.push_back(f_->getArg(n));
  }
  for (const auto& p : k_.parameters()) {
    if (p->type.is_scalar()) {
      Value* v = f_->getArg(n++);
      if (p->type.element == ir::element::boolean) v = b.CreateICmpNE(v, b.getInt8(0));
      else if (v->getType() != type_of(p->type.element)) v = b.CreateBitCast(v, type_of(p->type.element));
      values_[p.get()] = {v};
      continue;
    }
    view_value view;
    view.element = p->type.element;
    // No noalias: another CTA or the previous kernel may write what this pointer shows.
    f_->addParamAttr(n, Attribute::getWithAlignment(c_, Align(static_cast<std::uint64_t>(stored_bits(view.element)) / 8)));
    view.base = b.CreatePtrToInt(f_->getArg(n++), b.getInt64Ty());
    for (int i = 0; i < p->type.rank; ++i) view.extents.push_back(f_->getArg(n++));
    for (int i = 0; i + 1 < p->type.rank; ++i) view.strides.push_back(f_->getArg(n++));
    views_[p.get()] = view;
  }

  if (how_.line_info) {
    di_ = std::make_unique<DIBuilder>(m_);
    const std::string file = k_.where.known() ? k_.where.file : "kernel";
    DIFile* unit_file = di_->createFile(file, ".");
    DICompileUnit* unit = di_->createCompileUnit(DISourceLanguageName(dwarf::DW_LANG_C_plus_plus_14), unit_file, "tlx", true, "", 0, "", DICompileUnit::DebugDirectivesOnly);
    const unsigned line = static_cast<unsigned>(std::max(k_.where.line, 1));
    subprogram_ = di_->createFunction(unit, k_.name, k_.name, unit_file, line, di_->createSubroutineType(di_->getOrCreateTypeArray({})), line, DINode::FlagZero,
                                      DISubprogram::SPFlagDefinition);
    f_->setSubprogram(subprogram_);
    scopes_[file] = subprogram_;
    b.SetCurrentDebugLocation(DILocation::get(c_, line, 0, subprogram_));
  }

  thread_ = b.CreateIntrinsic(b.getInt32Ty(), Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  lane_ = b.CreateAnd(thread_, const32(31));
  // A broadcast makes the warp's index uniform for ptxas too: branches on it and addresses from it use uniform registers.
  warp_ = ptx1("shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", {b.CreateLShr(thread_, 5)}, b.getInt32Ty(), asm_convergent);
}

void emitter::locate(const ir::op& o) {
  if (!how_.line_info || !o.where.known()) return;
  DIScope*& scope = scopes_[o.where.file];
  if (!scope) scope = di_->createLexicalBlockFile(subprogram_, di_->createFile(o.where.file, "."), 0);
  b.SetCurrentDebugLocation(DILocation::get(c_, static_cast<unsigned>(o.where.line), 0, scope));
}

Value* emitter::layout_warp() {
  for (const ir::op* o = at_; o; o = o->parent ? o->parent->parent : nullptr)
    if (o->has("first_warp")) {
      const auto first = o->integer("first_warp");
      return first == 0 ? warp_ : b.CreateSub(warp_, const32(first));
    }
  return warp_;
}

void emitter::emit() {
  make_function();
  start_watch();
  emit_region(k_.body);
  at_ = nullptr;
  b.CreateRetVoid();
  finish_watch();
  if (di_) di_->finalize();
  std::string message;
  raw_string_ostream out(message);
  if (verifyModule(m_, &out)) fail("codegen-invalid", cat("LLVM refuses the module: ", message));
}

void emitter::emit_region(const ir::region& r) {
  for (auto at = r.ops.begin(); at != r.ops.end();) {
    if ((*at)->is(opcode::wgmma_mma)) {
      at = emit_products(at, r.ops.end());
      continue;
    }
    const ir::op& o = **at++;
    at_ = &o;
    locate(o);
    if (o.has("way_out")) emit_with_way_out(o);
    else emit_op(o);
  }
}

void emitter::only_on(const ir::op& o, const char* family, const char* what) {
  if (k_.target.rfind(family, 0) != 0) fail("codegen-target", cat("\"", ir::row(o.code).text, "\" in a kernel for ", k_.target), cat(k_.target, " has no ", what));
}

void emitter::emit_op(const ir::op& o) {
  const auto sreg = [&](Intrinsic::ID x, Intrinsic::ID y, Intrinsic::ID z) {
    const auto axis = o.integer("axis");
    return define(o, {b.CreateIntrinsic(b.getInt32Ty(), axis == 0 ? x : axis == 1 ? y : z, {})});
  };
  switch (o.code) {
    case opcode::constant: return emit_constant(o);
    case opcode::cast: return emit_cast(o);
    case opcode::bitcast: return emit_bitcast(o);
    case opcode::iota: return emit_iota(o);
    case opcode::reduce: return emit_reduce(o);
    case opcode::broadcast: return emit_broadcast(o);
    case opcode::slice:
    case opcode::every_other:
    case opcode::interleave: return emit_slice(o);
    case opcode::convert: return emit_convert(o);

    case opcode::var_new:
    case opcode::var_get:
    case opcode::var_set: return emit_var(o);
    case opcode::for_loop: return emit_for(o);
    case opcode::if_then: return emit_if(o);
    case opcode::while_loop: return emit_while(o);
    case opcode::yield: return;  // read by emit_while

    case opcode::lane_id: return define(o, {lane_});
    case opcode::warp_id: return define(o, {warp_});
    case opcode::cta_id: return sreg(Intrinsic::nvvm_read_ptx_sreg_ctaid_x, Intrinsic::nvvm_read_ptx_sreg_ctaid_y, Intrinsic::nvvm_read_ptx_sreg_ctaid_z);
    case opcode::grid_size: return sreg(Intrinsic::nvvm_read_ptx_sreg_nctaid_x, Intrinsic::nvvm_read_ptx_sreg_nctaid_y, Intrinsic::nvvm_read_ptx_sreg_nctaid_z);
    case opcode::cluster_rank: return define(o, {b.CreateIntrinsic(b.getInt32Ty(), Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {})});
    case opcode::elect:
      return define(o, {b.CreateExtractValue(b.CreateIntrinsic(Intrinsic::nvvm_elect_sync, {}, {b.getInt32(~0U)}), 1)});
    case opcode::extent:
    case opcode::stride: return emit_view_query(o);

    case opcode::global_load:
    case opcode::global_store: return emit_global(o);
    case opcode::shared_read: return emit_shared_read(o);
    case opcode::shared_write: return emit_shared_write(o);
    case opcode::shared_zero: return emit_shared_zero(o);
    case opcode::shared_load:
    case opcode::shared_store: return emit_shared_scalar(o);

    case opcode::shared_base:
    case opcode::mbarrier_init:
    case opcode::mbarrier_arrive:
    case opcode::mbarrier_expect:
    case opcode::mbarrier_wait:
    case opcode::mbarrier_remote:
    case opcode::fence_async:
    case opcode::fence_init:
    case opcode::barrier_cta:
    case opcode::barrier_warp:
    case opcode::cluster_sync:
    case opcode::set_registers:
    case opcode::depend_wait:
    case opcode::depend_launch: return emit_barrier(o);

    case opcode::tma_load:
    case opcode::tma_store:
    case opcode::tma_commit:
    case opcode::tma_wait:
    case opcode::tma_prefetch: return emit_tma(o);

    case opcode::wgmma_fence:
    case opcode::wgmma_commit:
    case opcode::wgmma_wait: only_on(o, "sm_90", "wgmma"); return emit_wgmma(o);
    case opcode::descriptor: return emit_wgmma(o);

    case opcode::tmem_alloc:
    case opcode::tmem_free:
    case opcode::tmem_relinquish:
    case opcode::tmem_load:
    case opcode::tmem_store:
    case opcode::tmem_wait_load:
    case opcode::tmem_wait_store:
    case opcode::tmem_fence:
    case opcode::tcgen05_mma:
    case opcode::tcgen05_commit: only_on(o, "sm_10", "tensor memory"); return emit_tcgen05(o);
    case opcode::tcgen05_copy:
    case opcode::tcgen05_scaled: only_on(o, "sm_10", "tensor memory"); return emit_scaled(o);

    case opcode::print: return emit_print(o);
    case opcode::require: return emit_require(o);
    case opcode::watch_leave:
    case opcode::watch_exit: return emit_watch(o);
    case opcode::trap: return ptx0("trap;", "", {}, asm_barrier);
    case opcode::inline_ptx: return emit_inline_ptx(o);

    case opcode::shared_view:
    case opcode::acc_view: return;  // their uses are gone

    case opcode::role_warp:
    case opcode::role:
    case opcode::ring_make:
    case opcode::ring_fill:
    case opcode::ring_drain:
    case opcode::ring_close:
    case opcode::tile_load:
    case opcode::tile_store:
    case opcode::mma:
    case opcode::acc_make:
    case opcode::acc_read:
      fail("codegen-unlowered", cat("\"", ir::row(o.code).text, "\" has no machine code"), "a lowering pass replaces it before code is generated");

    default: return emit_elementwise(o);
  }
}

}  // namespace tlx::codegen
