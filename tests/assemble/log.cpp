#include <doctest/doctest.h>

#include "jit/assembler_log.hpp"

using namespace tlx::jit;

TEST_CASE("numbers of each entry and the largest of all are read") {
  const assembler_log log = read_assembler_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'trade' for 'sm_90a'\n"
      "ptxas info    : Function properties for trade\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 0 barriers, 1024 bytes smem\n"
      "ptxas info    : Compiling entry function 'sp' for 'sm_90a'\n"
      "ptxas info    : Function properties for sp\n"
      "    408 bytes stack frame, 340 bytes spill stores, 344 bytes spill loads\n"
      "ptxas info    : Function properties for helper\n"
      "    9999 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 24 registers, used 0 barriers, 408 bytes cumulative stack size\n");
  REQUIRE(log.entries.size() == 2);
  CHECK(log.entries.at("trade").registers == 168);
  CHECK(log.entries.at("trade").static_shared_bytes == 1024);
  CHECK(log.entries.at("trade").spill_bytes == 0);
  CHECK(log.entries.at("sp").registers == 24);
  CHECK(log.entries.at("sp").spill_bytes == 684);
  CHECK(log.entries.at("sp").stack_bytes == 408);
  CHECK(log.all.registers == 168);
  CHECK(log.all.spill_bytes == 684);
  CHECK(log.errors.empty());
}

TEST_CASE("advisories are kept verbatim: codes of the C7 family, warnings, spills") {
  const std::string code = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.";
  const std::string spill = "    8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads";
  const std::string warning = "ptxas warning : something";
  const assembler_log log = read_assembler_log(code + "\n" + spill + "\n" + warning + "\nptxas info    : Used 5 registers\n");
  CHECK(log.all.advisories == std::vector<std::string>{code, spill, warning});
  CHECK(read_assembler_log("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n").all.advisories.empty());
}

TEST_CASE("messages keep their lines, and kernels called error are no errors") {
  const assembler_log log = read_assembler_log(
      "ptxas bad.ptx, line 8; error   : Not a name of any known instruction: 'frob'\nptxas bad.ptx, line 9; error   : x\nptxas bad.ptx, line 9; error   : y\n"
      "ptxas fatal   : Ptx assembly aborted due to errors\nptxas info    : Compiling entry function 'error' for 'sm_90a'\n");
  CHECK(log.errors.size() == 4);
  CHECK(lines_named(log.errors) == std::vector<int>{8, 9});
}
