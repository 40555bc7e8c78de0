// A kernel: parameters, launch shape and a body.
#pragma once
#include <string>
#include <vector>

#include "tlx/ir/op.hpp"

namespace tlx::ir {

/// A tensor map the kernel takes: made at launch from a view parameter.
struct tensor_map_use {
  int parameter = 0;
  std::vector<std::int64_t> box;  // innermost first
  int swizzle_bytes = 128;
  int l2_promotion_bytes = 256;
  bool operator==(const tensor_map_use&) const = default;
};

/// What stands at an offset of the CTA's dynamic shared memory (or at a column of its tensor memory), in the user's words: a name for checks and
/// messages, nothing that code generation needs. Part:
///   full empty     the mbarriers of a ring, 8 bytes a stage      product        the mbarrier of an accumulator outside of rings
///   slots          the slots of a ring, `bytes` a stage          operand        the mbarrier that frees a staged register operand
///   columns        tensor memory: `offset` and `bytes` count columns of a ring's or accumulator's stages
struct place {
  std::string ring;  // its name; of an accumulator outside of rings the name of its value, or "accumulator"
  std::string part;
  std::int64_t offset = 0, bytes = 0;  // of stage 0; of one stage
  int stages = 1;
  location where;
  bool is_barrier() const { return part != "slots" && part != "columns"; }
};

struct kernel {
  std::string name;
  std::string target;              // "sm_90a"
  location where;
  int warps = 0;                   // of a CTA; 0 until known
  int cluster[3] = {1, 1, 1};
  int blocks_per_processor = 1;
  int shared_bytes = 0;            // dynamic; after assign-shared-memory
  std::string grid[3] = {"1", "1", "1"};  // formulas, see tlx/device/kernel.hpp
  std::vector<tensor_map_use> maps;
  std::vector<place> places;       // after insert-barriers
  region body;                     // its arguments are the parameters, in order, with their names

  kernel() = default;
  kernel(const kernel&) = delete;  // values are addresses: use clone()
  kernel& operator=(const kernel&) = delete;
  const std::vector<std::unique_ptr<value_def>>& parameters() const { return body.arguments; }
  int find_map(const tensor_map_use& m);  // index, added when new
  const place* barrier_at(std::int64_t offset) const;  // the place of the mbarrier at that byte; null: nobody named it
};

std::unique_ptr<kernel> clone(const kernel& k);

/// Calls `visit(op&)` for every op below `r`, parents before children, in program order. `visit` must not change the region lists.
template <class Visit>
void walk(const region& r, Visit&& visit) {
  for (const auto& o : r.ops) {
    visit(*o);
    for (const auto& inner : o->regions) walk(*inner, visit);
  }
}

}  // namespace tlx::ir
