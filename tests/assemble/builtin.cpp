#include <doctest/doctest.h>

#include <cstdlib>

#include "jit/builtin_assembler.hpp"
#include "tests/runtime_gpu/kernels.hpp"
#include "tests/support/skip.hpp"
#include "tlx/support/error.hpp"

using namespace tlx::jit;

TEST_CASE("nvPTXCompiler, where it is built in, keeps setmaxnreg and reports like ptxas") {
  TLX_SKIP_UNLESS(has_builtin_assembler(), "built without TLX_WITH_NVPTXCOMPILER");
  setenv("TLX_ASSEMBLER", "builtin", 1);
  const assembly made = assemble(ptx::trade, "sm_90a");
  CHECK(made.used.assembler == builtin_assembler_version());
  CHECK(made.used.registers == 168);
  CHECK(made.used.spill_bytes == 0);
  CHECK(made.used.advisories.empty());
  CHECK(sass_opcode_counts(made.cubin, cubin_entries(made.cubin).at(0))["USETMAXREG"] == 2);
  try {
    assemble(".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { nonsense; }\n", "sm_90a");
    FAIL("refused PTX was taken");
  } catch (const tlx::user_error& e) {
    CHECK(e.id() == "assembler-rejected");
  }
  unsetenv("TLX_ASSEMBLER");
}

TEST_CASE("without nvPTXCompiler nothing pretends to be it") {
  TLX_SKIP_UNLESS(!has_builtin_assembler(), "built with TLX_WITH_NVPTXCOMPILER");
  CHECK(builtin_assembler_version().empty());
  setenv("TLX_ASSEMBLER", "builtin", 1);
  CHECK(!uses_builtin_assembler());
  unsetenv("TLX_ASSEMBLER");
}
