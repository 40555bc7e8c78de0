#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::pass {

void assign_tensor_memory(ir::kernel& k) {
  if (!has_tensor_memory(k)) return;
  constexpr int limit = 512;
  int used = 0;
  std::vector<std::string> list;
  auto place = [&](ir::op& o, const ir::type& acc, int stages, const std::string& name) {
    o.set("tensor_column", std::int64_t{used});
    used += acc.cols * stages;
    list.push_back(cat(name, ": ", stages, " x ", acc.cols, " columns"));
  };
  for (ir::op* ring : find_all(k.body, ir::opcode::ring_make))
    for (const ir::type& part : ring->result()->type.parts)
      if (part.is(ir::type::kind::acc)) place(*ring, part, ring->result()->type.stages, "ring \"" + ring->text("name") + "\"");
  for (ir::op* acc : find_all(k.body, ir::opcode::acc_make)) place(*acc, acc->result()->type, 1, "accumulator");
  if (used > limit)
    raise(user_error({.id = "tensor-memory-exceeded", .what = cat("the accumulators need ", used, " columns of tensor memory, there are ", limit, " (", join(list, ", "), ")"),
                      .where = k.where, .because = "tensor memory has 512 columns of 128 lanes", .fix = {"use fewer stages or narrower accumulators"},
                      .context = cat("kernel \"", k.name, "\"")}));
}

}  // namespace tlx::pass
