// The protocol check: runs the lowered kernel before code is generated, without its arithmetic, and looks for what would hang or race.
//
// Every warp of a CTA (of every CTA of a cluster) runs the scalar part of the IR with real numbers: stages, parities, addresses, bounds. Extents and
// arguments are chosen so that loops run 0, 1, stages-1, stages, stages+1 and 2*stages+1 rounds, persistent loops 0 to 3 tiles, and so that branches
// go both ways. mbarriers, named barriers, cluster barriers, bulk copies, wgmma, tcgen05 and their waits are modelled with vector clocks, so an order
// that is missing is found whatever order this run happens to have.
//
// It shares no code with the passes that make the barriers. A kernel that is right is never refused: what cannot be followed is said in `unchecked`.
#pragma once
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"
#include "tlx/support/error.hpp"

namespace tlx::check {

struct verdict {
  std::vector<diagnostic> findings;    // of the first scenario that has any; empty: the kernel passes
  std::vector<std::string> unchecked;  // what the check could not follow, one sentence each
  std::vector<const ir::op*> implied;  // of a kernel that passes: waits for mbarriers, and sets of cells, that ran and in no run told or changed anything
  int scenarios = 0;                   // runs made
  long steps = 0;                      // steps of all runs and warps
};

/// `lowered` is what the last pass leaves. Raises nothing.
verdict check_protocol(const ir::kernel& lowered);

/// One paragraph: passed or the findings, and what was not checked.
std::string to_string(const verdict& v);

}  // namespace tlx::check
