// NVIDIA's nvPTXCompiler in process, where the build found it (TLX_WITH_NVPTXCOMPILER). It keeps setmaxnreg, as ptxas does.
#pragma once
#include <string>

#include "tlx/jit/assemble.hpp"

namespace tlx::jit {

bool has_builtin_assembler();
std::string builtin_assembler_version();  // "nvPTXCompiler 13.0"; empty when not built in

/// Where there is no ptxas, or where TLX_ASSEMBLER=builtin asks for it.
bool uses_builtin_assembler();

struct builtin_result {
  bool ok = false;
  std::string cubin, log;  // the log reads as that of ptxas
};
builtin_result run_builtin_assembler(const std::string& ptx, const std::string& target, const assemble_options& how);

}  // namespace tlx::jit
