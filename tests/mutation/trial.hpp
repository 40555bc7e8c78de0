// A kernel on the simulator with inputs made from its parameters alone: what it gives, and whether a changed kernel gives the same.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::mutation {

class trial {
 public:
  /// Runs `lowered` once: its results are the expected ones.
  explicit trial(const ir::kernel& lowered);
  ~trial();

  struct difference {
    std::string text;    // with the seed
    bool fault = false;  // reported by the simulator; else another result, or code that cannot be generated
  };
  /// The first fault or difference of `changed` in schedules 1..`schedules`; nothing when all agree.
  std::optional<difference> first_difference(const ir::kernel& changed, int schedules) const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tlx::mutation
