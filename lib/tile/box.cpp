// The text of a broken TMA rule.
#include "tlx/tile/box.hpp"

#include <string>

#include "tlx/support/text.hpp"

namespace tlx::tile {

std::string to_text(const box_problem& p) {
  if (!p) return {};
  const std::string where = p.dimension < 0 ? std::string("the map") : cat("dimension ", p.dimension);
  return cat(p.rule, "; ", where, " has ", p.value, ", the nearest legal value is ", p.nearest);
}

}  // namespace tlx::tile
