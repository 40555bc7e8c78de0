#include "check/budgets.hpp"

#include <algorithm>

#include "tlx/support/text.hpp"
#include "tlx/tile/limits.hpp"

namespace tlx::check {

std::optional<diagnostic> broken_budget(const ir::kernel& k) {
  const auto found = tile::target_limits(k.target);
  if (!found) return std::nullopt;
  const tile::limits& l = *found;
  const auto say = [&](const std::string& what, const std::string& because, const std::string& fix) {
    return diagnostic{.id = "protocol-budget", .what = what, .where = k.where, .because = because, .fix = {fix}, .context = cat("kernel \"", k.name, "\"")};
  };
  if (k.shared_bytes > l.shared_bytes_per_cta)
    return say(cat("the kernel needs ", k.shared_bytes, " bytes of shared memory, a CTA has ", l.shared_bytes_per_cta), cat(k.target, " offers 227 KB per CTA"), "use fewer stages or smaller tiles");
  const std::int64_t ctas = std::int64_t{k.cluster[0]} * k.cluster[1] * k.cluster[2];
  if (ctas < 1 || ctas > l.ctas_per_cluster_opt_in || std::max({k.cluster[0], k.cluster[1], k.cluster[2]}) > l.ctas_per_cluster_opt_in)
    return say(cat("a cluster of ", k.cluster[0], " x ", k.cluster[1], " x ", k.cluster[2], " CTAs"), cat("a cluster has 1 to ", l.ctas_per_cluster_opt_in), "use a smaller cluster");
  if (k.warps > l.threads_per_cta / 32) return say(cat(std::int64_t{k.warps} * 32, " threads, a CTA has ", l.threads_per_cta), "a CTA is at most 32 warps", "use fewer warps");
  const std::int64_t threads = std::int64_t{k.warps} * 32 * k.blocks_per_processor;
  if (k.blocks_per_processor > 1 && threads > l.threads_per_sm)
    return say(cat(threads, " threads on an SM, which has ", l.threads_per_sm), "CTAs that shall fit on one SM share its threads", "ask for fewer CTAs per SM");
  std::int64_t columns = 0;
  ir::walk(k.body, [&](const ir::op& o) {
    if (o.is(ir::opcode::tmem_alloc)) columns += o.integer("columns");
  });
  if (columns * k.blocks_per_processor > l.tensor_memory_columns && columns > 0)
    return say(cat(k.blocks_per_processor, " CTAs of ", columns, " columns of tensor memory, an SM has ", l.tensor_memory_columns), "a CTA that finds no free columns waits for another to end", "ask for fewer CTAs per SM, or allocate fewer columns");
  if (!l.has_tensor_memory()) {
    bool uses = false;
    ir::walk(k.body, [&](const ir::op& o) { uses = uses || o.is(ir::opcode::tmem_alloc) || o.is(ir::opcode::tcgen05_mma) || o.is(ir::opcode::tcgen05_scaled); });
    if (uses) return say(cat(k.target, " has no tensor memory"), "tcgen05 needs sm_100a or later", "compile for such a target");
  }
  return std::nullopt;
}

}  // namespace tlx::check
