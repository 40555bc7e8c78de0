// Programmatic dependent launch: barriers are set up, tensor maps and code are fetched while the kernel before still runs; its end is awaited by all
// threads before the first access to global memory, read or written. The successor may come as soon as this kernel stands (PTX ISA, griddepcontrol).
#include "agents.hpp"
#include "passes.hpp"

namespace tlx::pass {

void order_launches(ir::kernel& k) {
  if (!find_all(k.body, ir::opcode::depend_wait).empty() || k.body.ops.empty()) return;  // the author did
  ir::op* after = nullptr;
  for (const auto& o : k.body.ops)
    if (o->is(ir::opcode::barrier_cta) && !after) after = o.get();  // the set-up's
  ir::builder b = after ? ir::builder::after(k, *after) : ir::builder::before(k, *k.body.ops.front());
  b.locate(k.where);
  b.make(ir::opcode::depend_launch);
  b.make(ir::opcode::depend_wait);
}

}  // namespace tlx::pass
