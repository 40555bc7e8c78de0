// The kernels whose compilation is timed: the plain bf16 GEMM of 128 x 256 x 64 in four stages, and block attention of 64 x 128.
#pragma once
#include <memory>
#include <string>

#include "tlx/ir/kernel.hpp"

namespace tlx::bench {

std::unique_ptr<ir::kernel> traced_gemm(const std::string& target);
std::unique_ptr<ir::kernel> traced_attention(const std::string& target);

}  // namespace tlx::bench
