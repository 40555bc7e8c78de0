#include "tlx/jit/disassemble.hpp"

#include "jit/process.hpp"
#include "jit/toolkit.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::jit {

std::string disassemble(const std::string& cubin) {
  // cuobjdump starts nvdisasm itself, which it looks for in PATH: the one that needs no other comes first.
  std::vector<std::string> command{find_tool("nvdisasm")};
  if (command[0].empty()) command = {find_tool("cuobjdump"), "--dump-sass"};
  if (command[0].empty())
    raise(device_error({.id = "disassembler-missing", .what = "neither nvdisasm nor cuobjdump is in PATH, CUDA_HOME, CUDA_PATH, /usr/local/cuda* or TLX_TOOLKIT",
                        .because = "SASS is printed by NVIDIA's disassembler", .fix = {"install the CUDA toolkit, or the Python wheel nvidia-cuda-nvdisasm and set TLX_TOOLKIT to its folder"}}));
  const temporary_folder folder;
  const std::string input = folder.path() + "/kernel.cubin";
  write_file(input, cubin);
  command.push_back(input);
  const process_result ran = run_process(command, 120);
  if (!ran.started || ran.exit_code != 0)
    raise(device_error({.id = "disassembler-failed", .what = cat(command[0], ": ", ran.started ? ran.output.substr(0, 500) : ran.problem),
                        .because = "the disassembler must know the target of the cubin", .fix = {"use the disassembler of the toolkit whose ptxas made the cubin, or a newer one"}}));
  return ran.output;
}

}  // namespace tlx::jit
