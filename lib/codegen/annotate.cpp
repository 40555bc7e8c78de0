// Names for whoever explains a fault of the PTX: comments that the simulator reads, and ptxas does not.
#include "codegen/annotate.hpp"

#include "tlx/support/text.hpp"

namespace tlx::codegen {

namespace {

// A name is what its author wrote: nothing of it may end the comment or the quotes.
std::string plain(std::string name) {
  for (char& c : name) if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 32) c = '_';
  return name;
}

}  // namespace

std::string notes(const ir::kernel& k) {
  std::string text;
  for (const ir::place& p : k.places)
    text += cat("// tlx.ring name=\"", plain(p.ring), "\" which=", plain(p.part), " offset=", p.offset, " bytes=", p.bytes, " stages=", p.stages, "\n");
  ir::walk(k.body, [&](const ir::op& o) {
    if (!o.has("role") || !o.has("warps")) return;
    const auto first = o.integer("first_warp");
    text += cat("// tlx.role name=\"", plain(o.text("role")), "\" warps=", first, "..", first + o.integer("warps") - 1, "\n");
  });
  return text;
}

}  // namespace tlx::codegen
