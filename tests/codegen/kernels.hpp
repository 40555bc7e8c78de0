// Complete lowered kernels: inputs of the tests here, and of the runs on a machine.
#pragma once
#include <memory>
#include <string>

#include "tlx/ir/builder.hpp"

namespace test {

std::unique_ptr<tlx::ir::kernel> new_kernel(const std::string& name, const std::string& target, int warps);
tlx::ir::value add_parameter(tlx::ir::kernel& k, const std::string& name, tlx::ir::type t);

/// c = a + b on rank-2 f32 views, CTA (x, y) does the 32 x 64 tile at (32 y, 64 x). `vector`: elements of an access.
std::unique_ptr<tlx::ir::kernel> add_views(const std::string& target, int vector);

/// out[64 x 64] = in[64 x 64] at (row, col) of the parameters, bf16, in by TMA through 128-byte swizzled shared memory.
std::unique_ptr<tlx::ir::kernel> copy_by_tma(const std::string& target);

/// d[64 x 64] f32 = a[64 x 64] * b[64 x 64]^T, bf16, one warpgroup; sm_90a.
std::unique_ptr<tlx::ir::kernel> wgmma_tile();

/// d[128 x 64] f32 = a[128 x 64] * b[64 x 64]^T, bf16, read by `warps` warps; sm_100a and sm_103a.
std::unique_ptr<tlx::ir::kernel> tcgen05_tile(const std::string& target, int warps = 4);

}  // namespace test
