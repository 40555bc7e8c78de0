#include "tlx/pass/pipeline.hpp"

#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/tile/limits.hpp"

namespace tlx::pass {

const std::vector<pass>& pipeline_for(const std::string& target) {
  static const std::vector<pass> table = {
      {"check-roles", check_roles, "first: everything after it divides by the number of warps"},
      {"check-rings", check_rings, "before anything changes: users should see their own words in the message"},
      {"merge-roles", merge_roles, "before anything counts warps or arrivals: the merged role is what arrives"},
      {"take-turns", take_turns, "after merging: the merged role is what is doubled; before anything asks who reads what"},
      {"halve-operands", halve_operands, "before anything measures slots; users see their own words in the message"},
      {"guard-reads", guard_reads, "while rings still show which MMA loop fills an accumulator"},
      {"chunk-reads", chunk_reads, "before layouts: chunks are tiles of their own"},
      {"defer-stores", defer_stores, "chunks are what is deferred; layouts then reach the cells that hold them"},
      {"assign-layouts", assign_layouts, "needs the roles' final warp counts"},
      {"assign-tensor-memory", assign_tensor_memory, "rings are still whole"},
      {"assign-shared-memory", assign_shared_memory, "after layouts: staging depends on which rows a warp owns"},
      {"insert-barriers", insert_barriers, "rings still whole; later passes see only mbarrier ops"},
      {"lower-moves", lower_moves, "needs the barrier a load signals"},
      {"lower-mma", lower_mma, "after moves: register operands are staged by then"},
      {"fold-rest", fold_rest, "after the lowerings that know an MMA loop by its products"},
      {"split-roles", split_roles, "last of the lowerings: it dissolves the role ops that counts are read from"},
      {"order-launches", order_launches, "after split-roles: all threads wait where they still run together"},
      {"simplify", simplify, "cleans what the lowerings left"},
  };
  if (!tile::target_limits(target))
    raise(user_error({.id = "target-unsupported", .what = "target \"" + target + "\" is not supported",
                      .because = "kernels need TMA and wgmma or tcgen05", .fix = {"use one of " + std::string(tile::supported_targets)}}));
  return table;
}

}  // namespace tlx::pass
