// One run of a flat program: all warps of a CTA, or of every CTA of a cluster, each as far as it gets, until all have ended or nobody can go on.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "check/program.hpp"
#include "check/shadow.hpp"
#include "tlx/support/error.hpp"

namespace tlx::check {

/// A value for every leaf of the program.
using scenario = std::vector<std::int64_t>;

struct outcome {
  std::optional<diagnostic> finding;
  std::vector<const ir::op*> guessed;  // conditions and bounds that came from values the check does not follow
  std::vector<unsigned char> did;      // of waits for mbarriers and sets of cells, by step: 0 never ran, 1 told or changed nothing, 2 did
  bool too_long = false;
  long steps = 0;
};

outcome run(const program& p, const scenario& values);

}  // namespace tlx::check
