// Where divergent lanes meet again: the immediate post-dominator of each branch, from the control-flow graph.
#include <algorithm>

#include "sim/decode.hpp"
#include "sim/ops.hpp"

namespace tlx::sim {

void find_joins(program& p, std::size_t begin, std::size_t end) {
  const auto at = [&](std::size_t pc) -> const instruction& { return p.code[pc]; };
  const auto ends = [&](const instruction& i) { return (i.run == op_exit || i.run == op_function_exit || i.run == op_trap) && i.guard == no_slot; };
  // Blocks.
  std::vector<char> leader(end - begin + 1, 0);
  leader[0] = 1;
  bool any = false;
  for (std::size_t pc = begin; pc < end; ++pc) {
    const instruction& i = at(pc);
    if (i.run == op_branch) { leader[i.target - begin] = 1; leader[pc + 1 - begin] = 1; any = any || i.guard != no_slot; }
    else if (i.run == op_branch_table) { for (const std::uint32_t t : p.branch_tables[i.detail]) leader[t - begin] = 1; leader[pc + 1 - begin] = 1; any = true; }
    else if (ends(i)) leader[pc + 1 - begin] = 1;
  }
  if (!any) return;
  std::vector<int> block_of(end - begin, 0);
  std::vector<std::size_t> first;
  for (std::size_t pc = begin; pc < end; ++pc) {
    if (leader[pc - begin]) first.push_back(pc);
    block_of[pc - begin] = static_cast<int>(first.size()) - 1;
  }
  const int count = static_cast<int>(first.size()), exit = count;
  const auto last_of = [&](int b) { return (b + 1 < count ? first[static_cast<std::size_t>(b) + 1] : end) - 1; };
  std::vector<std::vector<int>> next(static_cast<std::size_t>(count) + 1), before(static_cast<std::size_t>(count) + 1);
  const auto edge = [&](int from, int to) { next[static_cast<std::size_t>(from)].push_back(to); before[static_cast<std::size_t>(to)].push_back(from); };
  for (int b = 0; b < count; ++b) {
    const std::size_t pc = last_of(b);
    const instruction& i = at(pc);
    if (i.run == op_branch) {
      edge(b, block_of[i.target - begin]);
      if (i.guard != no_slot) edge(b, pc + 1 < end ? block_of[pc + 1 - begin] : exit);
    } else if (i.run == op_branch_table) {
      for (const std::uint32_t t : p.branch_tables[i.detail]) edge(b, block_of[t - begin]);
      if (i.guard != no_slot) edge(b, pc + 1 < end ? block_of[pc + 1 - begin] : exit);
    } else if (i.run == op_trap && i.guard == no_slot) { }  // leads nowhere: other paths may still meet
    else if (ends(i)) edge(b, exit);
    else edge(b, pc + 1 < end ? block_of[pc + 1 - begin] : exit);
  }
  // Post-dominators: dominators of the reversed graph from `exit` (Cooper, Harvey, Kennedy).
  std::vector<int> order, number(static_cast<std::size_t>(count) + 1, -1), parent(static_cast<std::size_t>(count) + 1, -1);
  {
    std::vector<std::pair<int, std::size_t>> stack{{exit, 0}};
    std::vector<char> seen(static_cast<std::size_t>(count) + 1, 0);
    seen[static_cast<std::size_t>(exit)] = 1;
    while (!stack.empty()) {
      auto& [b, k] = stack.back();
      if (k < before[static_cast<std::size_t>(b)].size()) {
        const int to = before[static_cast<std::size_t>(b)][k++];
        if (!seen[static_cast<std::size_t>(to)]) { seen[static_cast<std::size_t>(to)] = 1; stack.emplace_back(to, 0); }
      } else { number[static_cast<std::size_t>(b)] = static_cast<int>(order.size()); order.push_back(b); stack.pop_back(); }
    }
  }
  std::reverse(order.begin(), order.end());
  parent[static_cast<std::size_t>(exit)] = exit;
  const auto meet = [&](int a, int b) {
    while (a != b) {
      while (number[static_cast<std::size_t>(a)] < number[static_cast<std::size_t>(b)]) a = parent[static_cast<std::size_t>(a)];
      while (number[static_cast<std::size_t>(b)] < number[static_cast<std::size_t>(a)]) b = parent[static_cast<std::size_t>(b)];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const int b : order) {
      if (b == exit) continue;
      int best = -1;
      for (const int s : next[static_cast<std::size_t>(b)]) {
        if (parent[static_cast<std::size_t>(s)] < 0) continue;
        best = best < 0 ? s : meet(best, s);
      }
      if (best >= 0 && parent[static_cast<std::size_t>(b)] != best) { parent[static_cast<std::size_t>(b)] = best; changed = true; }
    }
  }
  for (int b = 0; b < count; ++b) {
    instruction& i = p.code[last_of(b)];
    if (i.run != op_branch && i.run != op_branch_table) continue;
    const int j = parent[static_cast<std::size_t>(b)];
    i.join = j < 0 || j == exit ? no_pc : static_cast<std::uint32_t>(first[static_cast<std::size_t>(j)]);
  }
}

}  // namespace tlx::sim
