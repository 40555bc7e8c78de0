// Small sm_100a kernels that each ask the hardware one question about a rule that this project reads from documents and other code, and has not seen.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tlx/device/device.hpp"

namespace tlx::bench {

inline constexpr std::int64_t anything = -1;  // a word that the reading says nothing of

/// What one reading of the rule makes of the output, a word each (or `anything`).
struct reading {
  std::string name;
  std::vector<std::int64_t> words;
};

/// One question. The first reading is ours: what code generation and the simulator rest on.
struct probe {
  std::string id, question;
  std::string ptx;                       // entry "k", parameters: input address, output address
  unsigned ctas = 1;                     // one cluster
  std::vector<std::uint32_t> input;
  std::size_t output_words = 0;          // filled with 0xFFFFFFFF before the run
  std::vector<reading> readings;
  std::string otherwise = {};            // what it means when another reading holds
  std::optional<device::tensor_map> map = {};  // over the input: the first parameter
};

std::vector<probe> probes();

/// Rules that no program can settle, or none of these does, with the reason.
struct unprobed { std::string rule, why; };
const std::vector<unprobed>& unprobed_rules();

}  // namespace tlx::bench
