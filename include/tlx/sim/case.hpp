// Runs a case folder (a PTX kernel, its inputs, what is expected) on the simulator.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tlx/sim/machine.hpp"

namespace tlx::sim {

struct case_options {
  std::uint64_t seed = 1;
  int schedules = 1;         // seeds seed, seed + 1, ...; results that differ between them, bit for bit, are wrong (unless the kernel adds floats atomically)
  std::string dump;          // folder for NAME.bin of every buffer; empty: none
  int threads = 1;
  bool strict = false;
};

struct buffer_result {
  std::string buffer;
  double rel_l2 = 0, max_abs = 0;
  std::uint64_t worst_index = 0;
  bool ok = false;
};

struct case_result {
  int exit = 0;  // 0 as expected, 1 wrong result, 2 a fault nobody expected, 3 unsupported or malformed input
  std::optional<fault_report> fault;
  std::string message;            // why 1 or 3
  std::uint64_t seed = 1;         // of the last schedule that ran
  int schedules = 0;              // how many ran
  std::vector<buffer_result> results;
  std::uint64_t warp_instructions = 0;
  double seconds = 0;
  std::vector<std::string> lints, printed;
};

/// Never throws for what the case holds: bad JSON, missing files and refused PTX become exit 3.
case_result run_case(const std::string& folder, const case_options& how = {});

/// The one JSON object of `--json`.
std::string to_json(const case_result& r);
/// The same for people, several lines.
std::string to_text(const case_result& r);

}  // namespace tlx::sim
