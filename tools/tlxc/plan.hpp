// What the compiler decided about a kernel, read off its IR: rings, who fills and drains them, barriers, shared and tensor memory.
#pragma once
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlxc {

struct user {
  std::string role, how;  // "load", "bulk copies"
};

struct barrier {
  std::int64_t offset = -1, count = 0;  // of the first stage; arrivals in each phase
};

struct ring_plan {
  std::string name, parts;  // "shared<bf16 128x64 sw128>, ..."
  int stages = 0;
  std::int64_t offset = -1, stage_bytes = 0;  // shared memory; -1: none
  std::int64_t column = -1, columns = 0;      // tensor memory, of one stage; -1: none
  std::vector<user> filled, drained;
  barrier full, empty;  // empty.offset -1: a slot that is used once
};

struct memory_piece {
  std::string what;
  std::int64_t offset = 0, bytes = 0;
};

struct role_plan {
  std::string name;
  int warps = 0, registers = 0;  // registers 0: not budgeted
};

struct kernel_plan {
  std::string name, target;
  int warps = 0;
  std::vector<role_plan> roles;
  std::vector<ring_plan> rings;
  std::vector<memory_piece> shared;  // by offset
  std::int64_t shared_bytes = 0;
  std::vector<memory_piece> tensor;  // columns
  std::int64_t tensor_allocated = 0;
};

/// Runs the passes up to barrier insertion on a copy. Raises what they raise.
kernel_plan plan_of(const tlx::ir::kernel& traced);

}  // namespace tlxc
