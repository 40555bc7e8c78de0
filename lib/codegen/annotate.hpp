// Comments of the PTX that name what its numbers stand for.
#pragma once
#include <string>

#include "tlx/ir/kernel.hpp"

namespace tlx::codegen {

/// Whole lines, or nothing. One a place of ir::kernel::places, `// tlx.ring name="ab" which=full offset=196608 bytes=8 stages=4` (offset of stage 0, from the
/// start of the kernel's shared memory, bytes of one stage; tensor memory: columns), and one a role, `// tlx.role name="load" warps=0..0`.
std::string notes(const ir::kernel& k);

}  // namespace tlx::codegen
