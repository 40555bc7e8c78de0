// Cubin to SASS text, by NVIDIA's tools where they are installed.
#pragma once
#include <string>

namespace tlx::jit {

/// What nvdisasm or cuobjdump prints for a cubin. Raises device_error [disassembler-missing] or [disassembler-failed].
std::string disassemble(const std::string& cubin);

}  // namespace tlx::jit
