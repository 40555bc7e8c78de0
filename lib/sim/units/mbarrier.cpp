// PTX ISA, mbarrier: a phase completes when no arrival and no byte is outstanding, tested after an arrival, a complete-tx and an expect-tx.
#include "sim/units/mbarrier.hpp"

#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

// The word: [0,21) tx, [21,41) pending, [41,61) expected, [61,63) phase modulo 4, [63] always 1.
constexpr std::uint64_t mask20 = (1U << 20) - 1U, mask21 = (1U << 21) - 1U;

complaint wrong(std::string text) { return {misuse::barrier_misuse, std::move(text)}; }

complaint count_range(std::int64_t count) {
  if (count >= 1 && count <= barrier_count_limit) return {};
  return wrong(cat("the arrival count ", count, " is outside 1..", barrier_count_limit));
}

complaint bytes_range(const mbarrier_state& s, std::int64_t bytes, std::int64_t after) {
  if (bytes < 0 || bytes > barrier_count_limit) return wrong(cat("a transaction of ", bytes, " bytes is outside 0..", barrier_count_limit));
  if (after < -barrier_count_limit || after > barrier_count_limit)
    return wrong(cat("the transaction count would become ", after, ", outside +-", barrier_count_limit, " (", describe(s), ")"));
  return {};
}

bool finish_if_due(mbarrier_state& s) {
  if (s.pending != 0 || s.tx != 0) return false;
  ++s.phase;
  s.pending = s.expected;
  return true;
}

barrier_answer arrive(mbarrier_state& s, std::int64_t count, std::int64_t expect_bytes, bool no_complete, bool drop) {
  barrier_answer answer;
  if ((answer.fault = count_range(count))) return answer;
  const std::int64_t tx = s.tx + expect_bytes;
  if ((answer.fault = bytes_range(s, expect_bytes, tx))) return answer;
  if (count > s.pending) {
    answer.fault = wrong(cat("an arrival of ", count, " exceeds the pending count: ", describe(s)));
  } else if (drop && count > s.expected) {
    answer.fault = wrong(cat("arrive_drop of ", count, " exceeds the expected count ", s.expected));
  } else if (no_complete && count == s.pending && tx == 0) {
    answer.fault = wrong(cat("an arrival with .noComplete would complete the phase: ", describe(s)));
  }
  if (answer.fault) return answer;
  if (s.observed < s.phase)
    answer.lint = wrong(cat("an arrival in phase ", s.phase, " before any wait saw phase ", s.phase - 1, " complete"));
  answer.token = word_of(s);
  s.tx = static_cast<std::int32_t>(tx);
  if (drop) s.expected -= static_cast<std::int32_t>(count);
  s.pending -= static_cast<std::int32_t>(count);
  answer.completed = finish_if_due(s);
  return answer;
}

}  // namespace

std::uint64_t word_of(const mbarrier_state& s) {
  return std::uint64_t{1} << 63 | (s.phase & 3U) << 61 | (static_cast<std::uint64_t>(s.expected) & mask20) << 41 |
         (static_cast<std::uint64_t>(s.pending) & mask20) << 21 | (static_cast<std::uint64_t>(s.tx) & mask21);
}

bool state_of(std::uint64_t word, mbarrier_state& out) {
  if ((word >> 63) == 0) return false;
  out.phase = (word >> 61) & 3U;
  out.expected = static_cast<std::int32_t>((word >> 41) & mask20);
  out.pending = static_cast<std::int32_t>((word >> 21) & mask20);
  const std::int32_t tx = static_cast<std::int32_t>(word & mask21);
  out.tx = tx >= (1 << 20) ? tx - (1 << 21) : tx;
  out.observed = out.phase;
  return true;
}

std::string describe(const mbarrier_state& s) {
  return cat("phase ", s.phase, ", ", s.pending, " of ", s.expected, " arrivals pending, ", s.tx, " bytes outstanding");
}

complaint check_barrier_address(std::uint32_t address) {
  if (address % 8 == 0) return {};
  return {misuse::misaligned, cat("an mbarrier must be 8-byte aligned, its address is ", address)};
}

barrier_answer barrier_init(mbarrier_state& s, std::int64_t count) {
  barrier_answer answer;
  if ((answer.fault = count_range(count))) return answer;
  s = {.phase = 0, .expected = static_cast<std::int32_t>(count), .pending = static_cast<std::int32_t>(count), .tx = 0, .observed = 0};
  return answer;
}

barrier_answer barrier_arrive(mbarrier_state& s, std::int64_t count, std::int64_t expect_bytes, bool no_complete) {
  return arrive(s, count, expect_bytes, no_complete, false);
}

barrier_answer barrier_arrive_drop(mbarrier_state& s, std::int64_t count, std::int64_t expect_bytes, bool no_complete) {
  return arrive(s, count, expect_bytes, no_complete, true);
}

barrier_answer barrier_expect_tx(mbarrier_state& s, std::int64_t bytes) {
  barrier_answer answer;
  const std::int64_t tx = s.tx + bytes;
  if ((answer.fault = bytes_range(s, bytes, tx))) return answer;
  s.tx = static_cast<std::int32_t>(tx);
  answer.completed = finish_if_due(s);  // bytes that landed before their announcement and after the last arrival: seen on an H200
  return answer;
}

barrier_answer barrier_complete_tx(mbarrier_state& s, std::int64_t bytes) {
  barrier_answer answer;
  const std::int64_t tx = s.tx - bytes;
  if ((answer.fault = bytes_range(s, bytes, tx))) return answer;
  s.tx = static_cast<std::int32_t>(tx);
  answer.completed = finish_if_due(s);
  return answer;
}

barrier_answer barrier_add_pending(mbarrier_state& s) {
  barrier_answer answer;
  if (s.pending >= barrier_count_limit) {
    answer.fault = wrong(cat("cp.async.mbarrier.arrive would raise the pending count above ", barrier_count_limit, ": ", describe(s)));
  } else {
    ++s.pending;
  }
  return answer;
}

bool barrier_test_parity(mbarrier_state& s, std::uint32_t parity) {
  if ((s.phase & 1U) == (parity & 1U)) return false;
  if (s.observed < s.phase) s.observed = s.phase;
  return true;
}

barrier_answer barrier_test_token(mbarrier_state& s, std::uint64_t token, bool& done) {
  barrier_answer answer;
  mbarrier_state then;
  done = false;
  if (!state_of(token, then)) {
    answer.fault = wrong("the state given to a wait is not one that an arrive returned");
    return answer;
  }
  const std::uint64_t ahead = (s.phase - then.phase) & 3U;
  if (ahead > 1) {
    answer.fault = wrong(cat("a wait names a phase that is ", ahead, " phases back (", describe(s), "); only the current and the one before can be asked for"));
    return answer;
  }
  done = ahead == 1;
  if (done && s.observed < s.phase) s.observed = s.phase;
  return answer;
}

std::uint32_t barrier_pending_count(std::uint64_t token) { return static_cast<std::uint32_t>((token >> 21) & mask20); }

std::uint64_t meant_phase(const mbarrier_state& s, std::uint32_t parity) { return (s.phase & 1U) == (parity & 1U) ? s.phase : s.phase - 1; }

complaint check_waiter(const mbarrier_state& s, std::uint64_t meant) {
  const std::uint64_t ahead = s.phase - meant;  // phase 0 with "the one before" wraps to 1, as it should
  if (ahead <= 1) return {};
  return wrong(cat("a thread still waits for phase ", meant, " but the barrier is ", ahead, " phases ahead (", describe(s), "), so the parity it tests is garbage"));
}

}  // namespace tlx::sim
