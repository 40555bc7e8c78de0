// Programs of NVIDIA's toolkit, by name.
#pragma once
#include <string>

namespace tlx::jit {

/// The first program of that name in PATH, CUDA_HOME, CUDA_PATH, /usr/local/cuda* and TLX_TOOLKIT; "" when there is none or TLX_HIDE_TOOLKIT=1.
std::string find_tool(const std::string& name);

}  // namespace tlx::jit
