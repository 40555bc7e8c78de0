// The LLVM side of the back end: target machine, pass list, text.
#include "tlx/codegen/to_ptx.hpp"

#include <mutex>

#include "codegen/annotate.hpp"
#include "codegen/emitter.hpp"
#include "tlx/ir/builder.hpp"

namespace tlx::codegen {

using namespace llvm;

namespace {

const Target& nvptx() {
  static const Target* target = nullptr;
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    // 32-bit pointers to shared, local and constant memory: shorter code, and addresses from u32 cost nothing. There is no other way to ask for it
    // than this option, which belongs to the process.
    auto& all = cl::getRegisteredOptions();
    if (auto it = all.find("nvptx-short-ptr"); it != all.end()) it->second->addOccurrence(0, "nvptx-short-ptr", "true");
    std::string message;
    target = TargetRegistry::lookupTarget(Triple("nvptx64-nvidia-cuda"), message);
  });
  if (!target) raise(internal_error({.id = "codegen-invalid", .what = "LLVM was built without its NVPTX target"}));
  return *target;
}

struct compilation {
  LLVMContext context;
  std::unique_ptr<TargetMachine> machine;
  std::unique_ptr<Module> module;

  compilation(const ir::kernel& k, const options& how, bool named) {
    static constexpr std::string_view known[] = {"sm_90a", "sm_100a", "sm_103a", "sm_100f"};
    if (std::find(std::begin(known), std::end(known), k.target) == std::end(known))
      raise(user_error({.id = "target-unknown", .what = cat("target \"", k.target, "\""), .where = k.where, .because = "code is generated for sm_90a, sm_100a, sm_103a and sm_100f",
                        .fix = {"compile for one of them"}, .context = cat("kernel \"", k.name, "\"")}));
    const Triple triple("nvptx64-nvidia-cuda");
    machine.reset(nvptx().createTargetMachine(triple, k.target, "+ptx90", TargetOptions(), Reloc::PIC_, std::nullopt,
                                              how.optimise ? CodeGenOptLevel::Aggressive : CodeGenOptLevel::Less));
    context.setDiscardValueNames(!named);
    module = std::make_unique<Module>(k.name, context);
    module->setTargetTriple(triple);
    module->setDataLayout(machine->createDataLayout());
    if (how.line_info) module->addModuleFlag(Module::Warning, "Debug Info Version", DEBUG_METADATA_VERSION);
    emitter(k, how, context, *module).emit();
    optimise(how);
  }

  void optimise(const options& how) {
    // Picked by hand: a fifth of the time of the default pipeline, and none of its passes that unroll or vectorise. On Hopper no loop-invariant code
    // motion: it makes addresses and descriptors of whole loop bodies live beside the accumulators (the backward pass of attention with shared heads
    // spilled 200 bytes), and ptxas moves what it has registers for. Blackwell's accumulators lie in tensor memory, and ordinary stores spill without it.
    const bool accumulators_in_registers = machine->getTargetCPU().starts_with("sm_90");
    legacy::PassManager passes;
    passes.add(createSROAPass());
    if (how.optimise) {
      passes.add(createEarlyCSEPass(true));
      passes.add(createInstructionCombiningPass());
      passes.add(createCFGSimplificationPass());
      if (!accumulators_in_registers) passes.add(createLICMPass());
      passes.add(createGVNPass());
      passes.add(createStraightLineStrengthReducePass());
      passes.add(createInstructionCombiningPass());
      passes.add(createDeadCodeEliminationPass());
    }
    passes.run(*module);
  }
};

}  // namespace

std::string to_llvm(const ir::kernel& k, const options& how) {
  compilation c(k, how, true);
  std::string text;
  raw_string_ostream out(text);
  c.module->print(out, nullptr);
  return text;
}

std::string to_ptx(const ir::kernel& k, const options& how) {
  compilation c(k, how, false);
  SmallString<0> text;
  raw_svector_ostream out(text);
  legacy::PassManager passes;
  if (c.machine->addPassesToEmitFile(passes, out, nullptr, CodeGenFileType::AssemblyFile))
    raise(internal_error({.id = "codegen-invalid", .what = "LLVM's NVPTX target cannot print assembly"}));
  passes.run(*c.module);
  std::string ptx = text.str().str();
  // An empty section that line directives leave behind: nobody reads it.
  static constexpr std::string_view empty = "\t.section\t.debug_macinfo\t{\t}\n";
  if (const size_t at = ptx.find(empty); at != std::string::npos) ptx.erase(at, empty.size());
  static constexpr std::string_view before = ".address_size 64\n";
  if (const size_t at = ptx.find(before); at != std::string::npos) ptx.insert(at + before.size(), notes(k));
  return ptx;
}

void warm_up(const std::string& target) {
  static std::once_flag once;
  std::call_once(once, [&] {
    ir::kernel k;
    k.name = "warm_up";
    k.target = target;
    k.warps = 1;
    ir::builder b(k, k.body);
    const ir::value sum = b.var(ir::type::scalar(tile::element::s32), b.integer(0), "sum");
    b.for_each(b.integer(0), b.simple(ir::opcode::cta_id, tile::element::s32, {{"axis", std::int64_t{0}}}), b.integer(1), [&](ir::builder& in, ir::value i) { in.set(sum, in.add(in.get(sum), in.mul(i, i))); });
    to_ptx(k);
  });
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

}  // namespace tlx::codegen
