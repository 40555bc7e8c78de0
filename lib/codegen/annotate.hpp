// Comments of the PTX that name what its numbers stand for.
#pragma once
#include <string>

#include "tlx/ir/kernel.hpp"

namespace tlx::codegen {

/// Lines `// tlx.role name="load" warps=0..0`, one a role, after roles were split; whole lines, or nothing.
std::string notes(const ir::kernel& k);

}  // namespace tlx::codegen
