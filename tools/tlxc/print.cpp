// A kernel as it looks after a stage of the compiler.
#include <cstdio>

#include "source.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/jit/disassemble.hpp"
#include "tlx/pass/pipeline.hpp"
#include "tlx/support/text.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

void show(const std::string& text) { std::fputs(text.c_str(), stdout); }

void check_stage(const std::string& stage, const std::string& target) {
  std::vector<std::string> known{"trace"};
  for (const auto& step : tlx::pass::pipeline_for(target)) known.push_back(step.name);
  if (tlx::jit::watch_from_environment().on()) known.push_back("watch");
  for (const char* late : {"protocol", "llvm", "ptx", "sass"}) known.push_back(late);
  for (const std::string& k : known)
    if (k == stage) return;
  throw usage_error(tlx::cat("there is no stage \"", stage, "\"; there are ", tlx::join(known, ", ")));
}

struct found {};  // ends a compilation whose wanted stage was shown

int run(const arguments& given) {
  const auto k = kernel_named(given.words()[0], given.text("--target"), given);
  const std::string stage = given.text("--after", "trace");
  check_stage(stage, k->target);
  const bool locations = !given.has("--no-locations");
  tlx::jit::observer seen;
  seen.after = [&](const std::string& at, const tlx::ir::kernel& now) {
    if (at != stage) return;
    show(tlx::ir::print(now, {.locations = locations}));
    throw found();
  };
  if (stage == "protocol") seen.protocol = [](const std::string& text) { show(text), throw found(); };
  if (stage == "llvm") seen.llvm = [](const std::string& text) { show(text), throw found(); };
  if (stage == "ptx") seen.ptx = [](const std::string& text) { show(text), throw found(); };
  if (stage == "sass") seen.cubin = [](const std::string& bytes) { show(tlx::jit::disassemble(bytes)), throw found(); };
  try {
    tlx::jit::compile(*k, {.assemble = stage == "sass", .line_info = locations, .use_cache = false}, seen);
  } catch (const found&) {
  }
  return 0;
}

}  // namespace

verb print_verb() {
  return {"print",
          "KERNEL|FILE.tlx",
          1,
          1,
          "prints a kernel after a stage of the compiler: IR, what the protocol check says, LLVM IR, PTX or SASS",
          "Stages: trace, the passes in their order, protocol, llvm, ptx, sass (needs ptxas and nvdisasm or cuobjdump). A file holds IR as `tlxc print` writes it.\n"
          "In a program of your own, TLX_PRINT=after:PASS|protocol|llvm|ptx|sass prints the same to standard error.",
          {{"--target", "T", "sm_90a (default), sm_100a, sm_103a, sm_100f; a file has its own"},
           {"--after", "STAGE", "which stage (trace); \"watch\" where TLX_WATCH is set"},
           {"--from", "LIB.so", "kernels of this shared library instead of tlxc's own; may be repeated"},
           {"--no-locations", nullptr, "without source lines"}},
          run};
}

}  // namespace tlxc
