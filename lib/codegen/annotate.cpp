// Names for whoever explains a fault of the PTX: comments that the simulator reads, and ptxas does not.
#include "codegen/annotate.hpp"

#include "tlx/support/text.hpp"

namespace tlx::codegen {

std::string notes(const ir::kernel& k) {
  std::string text;
  ir::walk(k.body, [&](const ir::op& o) {
    if (!o.has("role") || !o.has("warps")) return;
    const auto first = o.integer("first_warp");
    text += cat("// tlx.role name=\"", o.text("role"), "\" warps=", first, "..", first + o.integer("warps") - 1, "\n");
  });
  return text;
}

}  // namespace tlx::codegen
