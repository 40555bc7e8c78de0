// The part of a kernel that decides its protocol, flat: every op that touches barriers, shared or tensor memory, and the scalars that their
// operands, conditions and loop bounds are computed from. Tile arithmetic is left out.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::check {

/// A number that the kernel gets from outside: extents, arguments, its place in the grid, contents of global memory.
struct leaf {
  enum class kind : unsigned char { extent, stride, argument, cta, grid, rank, load_scale, opaque };
  kind what = kind::extent;
  int parameter = 0, axis = 0;
  bool operator<(const leaf& o) const { return std::tie(what, parameter, axis) < std::tie(o.what, o.parameter, o.axis); }
};

enum class doing : unsigned char {
  compute,       // a scalar from scalars: `detail` is the comparison
  constant,      // imm[0]
  from_leaf,     // leaf imm[0]
  lane, warp,    // this thread's numbers
  load_global,   // last operand: the innermost coordinate
  opaque,        // not followed
  sum_lanes,     // redux.sync.add
  cell_new, cell_get, cell_set,
  branch, otherwise, join,     // if: jump = first step of else, jump2 = the join
  loop, next,                  // for: jump = behind the loop / first step of the body; imm[0..1]: slots of high and step
  test, again,                 // while: jump = behind / start of the test
  act                          // everything that the machine knows: see `code`
};

/// Bytes that each warp of a role touches, from an address.
struct footprint {
  bool exact = true;                                              // false: within these bytes, but not all of them
  std::vector<std::pair<std::int64_t, std::int64_t>> by_warp = {};  // [low, high) for each warp of the role
};

struct step {
  doing what = doing::act;
  ir::opcode code{};
  tile::element element{};
  int detail = 0, out = -1, jump = -1, jump2 = -1;
  std::vector<int> in = {};           // slots of the operands that matter
  std::int64_t imm[4] = {0, 0, 0, 0};
  int touches = -1;                   // index of a footprint
  int place = 0;                      // index of a name
  const ir::op* from = nullptr;
};

struct program {
  const ir::kernel* kernel = nullptr;
  std::vector<step> steps;
  std::vector<footprint> footprints;
  std::vector<leaf> leaves;
  std::vector<std::string> roles;      // of step::place: "load", or "cta"
  std::vector<int> first_warps;        // of step::place
  int slots = 0;
  std::vector<std::string> unchecked;  // what was met and is not followed
  std::vector<const ir::op*> loops, branches;  // those in the program, outermost first
};

program flatten(const ir::kernel& k);

/// Index of a leaf in program::leaves, added when new.
int leaf_of(program& p, leaf l);

}  // namespace tlx::check
