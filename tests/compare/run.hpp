// Runs a sample on a machine between guard bands, and compares what two runs left behind.
#pragma once
#include <string>
#include <vector>

#include "tests/compare/sample.hpp"

namespace tlx::compare {

struct outcome {
  std::string error;                 // the id and text of what was raised; empty: it ran
  std::vector<bytes> after;          // every memory, in order; empty when it did not run
  bool guards_kept = true;           // nothing wrote outside of the memories
};

/// `cubin` may be empty: the machine assembles the PTX. Raises nothing of the run itself.
outcome run(device::machine& on, const sample& s, const std::string& cubin = {});

struct difference {
  std::size_t elements = 0;     // compared
  std::size_t differing = 0;    // other bits
  std::size_t beyond = 0;       // outside of the bound
  double largest_ulps = 0;      // of bounded outputs; of f64 in units of the last place of the upper word, which is all that its bounded functions give
  std::string first;            // memory, index and both values of the first element beyond its bound
};

/// Outputs of two runs, `bounds` by the sample. A missing or failed run differs everywhere.
difference differences(const sample& s, const outcome& a, const outcome& b);

/// "" when the outcome is what plain C++ says, else what is not.
std::string check(const sample& s, const outcome& got);

/// A digest of everything that goes in but the code: launch, arguments, memories before.
std::string digest_of_inputs(const sample& s);
/// A digest of the outputs after.
std::string digest_of_outputs(const sample& s, const outcome& o);

}  // namespace tlx::compare
