// The PTX simulator as a device::machine: runs PTX text, checks every access, explores legal orders from a seed.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tlx/device/device.hpp"

namespace tlx::sim {

struct options {
  std::uint64_t seed = 1;
  bool strict = false;              // what is legal only by custom (lints) becomes a fault
  double seconds_without_progress = 60;
  int processor_count = 0;          // clusters resident at once; 0: as the real chip
  bool detect_races = true;
  bool trace = false;      // fill statistics::barrier_lines, barrier_phases, lines_run and lines_guarded
  /// Clusters that run at the same time, each on a thread of its own. Results, faults and lints are those of one thread: a launch whose clusters turn out to meet in
  /// global memory, or that ends in a fault, is taken back and run on one.
  int threads = 1;
};

/// What a fault says, as data. `kind` is one of: race deadlock missing_proxy_fence out_of_bounds misaligned uninitialized tmem_misuse barrier_misuse
/// descriptor_misuse illegal_shape peer_exited trap.
struct fault_report {
  std::string kind, message;
  int ptx_line = 0;
  std::string opcode;
  std::string source_file;
  int source_line = 0;
  std::string threads;
};

struct statistics {
  std::uint64_t warp_instructions = 0;
  std::uint64_t lane_instructions = 0;
  double seconds = 0;
  std::vector<std::string> lints;    // distinct, in order of first appearance
  std::vector<std::string> printed;  // vprintf, one entry a call and lane
  std::set<std::pair<int, std::uint32_t>> barrier_lines;  // with options::trace: which instruction (line of the PTX) used the mbarrier at which shared offset
  std::map<std::uint32_t, std::uint64_t> barrier_phases;  // with options::trace: how many phases the mbarrier at a shared offset has completed, in the CTA where it got furthest
  std::map<int, std::uint64_t> lines_run;                 // with options::trace: lines of the PTX that some lane executed, and which warps of a CTA did (a bit each)
  std::set<int> lines_guarded;                            // lines that a false predicate kept some lane from executing
};

class machine : public device::machine {
 public:
  virtual const statistics& last_run() const = 0;
  virtual const std::optional<fault_report>& last_fault() const = 0;
  virtual void set_seed(std::uint64_t seed) = 0;
  virtual void set_strict(bool strict) = 0;
  virtual void set_trace(bool trace) = 0;
  /// A number made of every byte of global memory: equal memory gives equal numbers.
  virtual std::uint64_t digest() const = 0;
  /// Names an allocation for messages.
  virtual void name(device::address where, const std::string& what) = 0;
};

/// `target`: sm_90a, sm_100a or sm_103a, with or without the "sim:" of a machine's name. Raises user_error [target-unknown]. A fault is a sim_error whose id is the kind with dashes; PTX that is
/// malformed or uses what is not modelled is a user_error [ptx-malformed] or [ptx-unsupported].
std::unique_ptr<machine> open(const std::string& target, const options& how = {});

}  // namespace tlx::sim
