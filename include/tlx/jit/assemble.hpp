// PTX to cubin by the ptxas program, with what it says about each kernel; and a look into cubins without a disassembler.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::jit {

struct assemble_options {
  int optimization = 3;            // -O
  std::vector<std::string> extra;  // further arguments of ptxas, as they are
  double timeout_seconds = 300;
};

struct assembly {
  std::string cubin;
  device::resources used;  // over all entries: the largest of each number; every advisory. spill_bytes counts stores and loads
  std::map<std::string, device::resources> entries;  // numbers of each entry
  std::string log;         // what ptxas printed, verbatim
};

/// True when `assemble` can work: a ptxas is found, or NVIDIA's nvPTXCompiler was built in (CMake option TLX_WITH_NVPTXCOMPILER).
bool has_assembler();

/// Assembles for `target` ("sm_90a") by the ptxas program; without one, by nvPTXCompiler where it was built in (TLX_ASSEMBLER=builtin prefers it). Raises device_error [assembler-missing], [assembler-timeout] or [assembler-crashed];
/// user_error [assembler-too-old] (PTX version against assembler version) or [assembler-rejected] with the first messages and their PTX lines.
assembly assemble(const std::string& ptx, const std::string& target, const assemble_options& how = {});

/// The ptxas that `assemble` runs. Looked for in: TLX_PTXAS (a file; nothing else is tried when it is set), PATH, CUDA_HOME, CUDA_PATH,
/// /usr/local/cuda*, and the folder TLX_TOOLKIT (a toolkit, or a virtual environment or folder with NVIDIA's Python wheels).
/// TLX_HIDE_TOOLKIT=1 hides them all. Raises device_error [assembler-missing].
std::string assembler_path();

/// "ptxas 13.0.88" or "nvPTXCompiler 13.0". Part of cache keys. Raises device_error [assembler-missing].
std::string assembler_version();

struct ptx_version {
  int major = 0, minor = 0;
};

/// The newest PTX version that an assembler ("ptxas 12.8.93") takes: from a table, where an unknown release counts as the newest known before it.
ptx_version newest_ptx(const std::string& version_of_assembler);

/// Instructions of a kernel in a cubin by mnemonic without suffixes ("HGMMA", "UTMALDG", "R2UR", ...); one without a name counts as "0x1ab", its
/// opcode bits. Raises user_error [cubin-malformed] or [cubin-entry-missing].
std::map<std::string, int> sass_opcode_counts(const std::string& cubin, const std::string& entry);

/// Names of the kernels in a cubin. Raises user_error [cubin-malformed].
std::vector<std::string> cubin_entries(const std::string& cubin);

}  // namespace tlx::jit
