// The 8-byte mbarrier object as a state machine (layout v0): phases, arrivals, transaction bytes.
#pragma once
#include <cstdint>
#include <string>

#include "sim/units/complaint.hpp"

namespace tlx::sim {

inline constexpr std::int32_t barrier_count_limit = (1 << 20) - 1;

/// `phase` is the full number, so that a waiter can tell "two phases behind" from "current". Keep these in a table by shared offset: ordinary memory
/// shows `word_of(state)`, which holds the phase modulo 4 only.
struct mbarrier_state {
  std::uint64_t phase = 0;
  std::int32_t expected = 0;
  std::int32_t pending = 0;
  std::int32_t tx = 0;
  std::uint64_t observed = 0;  // phases [0, observed) have had a successful wait
};

std::uint64_t word_of(const mbarrier_state& s);
/// False when the word is not one that word_of makes. `phase` comes back modulo 4.
bool state_of(std::uint64_t word, mbarrier_state& out);
std::string describe(const mbarrier_state& s);  // "phase 3, 1 of 2 arrivals pending, 16384 bytes outstanding"

struct barrier_answer {
  complaint fault = {};      // the operation did not happen
  complaint lint = {};       // it did, and the ISA asks for more
  bool completed = false;    // the operation completed the phase: wake the waiters
  std::uint64_t token = 0;   // arrive forms: the state before the arrival
};

/// Checks the address only: 8-aligned.
complaint check_barrier_address(std::uint32_t address);

barrier_answer barrier_init(mbarrier_state& s, std::int64_t count);
/// arrive(count), with expect_tx first when `expect_bytes` is not 0; `no_complete` faults when the arrival would complete the phase.
barrier_answer barrier_arrive(mbarrier_state& s, std::int64_t count = 1, std::int64_t expect_bytes = 0, bool no_complete = false);
barrier_answer barrier_arrive_drop(mbarrier_state& s, std::int64_t count = 1, std::int64_t expect_bytes = 0, bool no_complete = false);
barrier_answer barrier_expect_tx(mbarrier_state& s, std::int64_t bytes);
barrier_answer barrier_complete_tx(mbarrier_state& s, std::int64_t bytes);
/// cp.async.mbarrier.arrive: at issue (pending + 1 unless noinc); the arrival itself is barrier_arrive(s) when the copies finish.
barrier_answer barrier_add_pending(mbarrier_state& s);

/// test_wait / try_wait. True also records that the phase was observed.
bool barrier_test_parity(mbarrier_state& s, std::uint32_t parity);
barrier_answer barrier_test_token(mbarrier_state& s, std::uint64_t token, bool& done);
std::uint32_t barrier_pending_count(std::uint64_t token);

/// For a waiter that started waiting for phase number `meant`: complains when the barrier is two or more phases ahead of it.
complaint check_waiter(const mbarrier_state& s, std::uint64_t meant);
/// The phase number a wait on `parity` means when it starts: the current phase if its parity is the same, else the one before (no complaint for phase 0).
std::uint64_t meant_phase(const mbarrier_state& s, std::uint32_t parity);

}  // namespace tlx::sim
