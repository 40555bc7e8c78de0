#include "check/pending_loads.hpp"

#include <set>

#include "tlx/support/text.hpp"

namespace tlx::check {

std::optional<diagnostic> used_before_loaded(const ir::kernel& k) {
  std::set<const ir::value_def*> loading;
  std::optional<diagnostic> found;
  ir::walk(k.body, [&](const ir::op& o) {
    if (o.is(ir::opcode::tmem_load)) loading.insert(o.result());
    if (found || o.is(ir::opcode::tmem_wait_load)) return;
    for (const ir::value v : o.operands) {
      if (!loading.count(v)) continue;
      std::string user = "cta";
      for (const ir::op* at = &o; at; at = at->parent ? at->parent->parent : nullptr)
        if (at->has("role")) {
          user = at->text("role");
          break;
        }
      found = diagnostic{.id = "protocol-read-early",
                         .what = cat("role \"", user, "\": ", ir::row(o.code).text, " uses the registers of a tmem.load before tmem.wait_load"),
                         .where = v->owner->where,
                         .because = "tcgen05.ld fills its registers asynchronously until tcgen05.wait::ld",
                         .fix = {"use what tmem.wait_load gives"},
                         .context = cat("kernel \"", k.name, "\"")};
    }
  });
  return found;
}

}  // namespace tlx::check
