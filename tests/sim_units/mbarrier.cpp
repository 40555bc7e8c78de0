// Scenarios of the mbarrier rules: phases, bytes, parity, drops, misuse.
#include "sim/units/mbarrier.hpp"

#include <doctest/doctest.h>

using namespace tlx::sim;

namespace {
mbarrier_state fresh(std::int64_t count) {
  mbarrier_state s;
  REQUIRE_FALSE(barrier_init(s, count).fault);
  return s;
}
}  // namespace

TEST_CASE("a fresh barrier lets parity 1 pass and blocks parity 0") {
  mbarrier_state s = fresh(1);
  CHECK(barrier_test_parity(s, 1));
  CHECK_FALSE(barrier_test_parity(s, 0));
}

TEST_CASE("the phase ends with the last arrival and the counts come back") {
  mbarrier_state s = fresh(3);
  CHECK_FALSE(barrier_arrive(s, 2).completed);
  CHECK(s.pending == 1);
  CHECK(barrier_arrive(s).completed);
  CHECK(s.phase == 1);
  CHECK(s.pending == 3);
  CHECK(barrier_test_parity(s, 0));
  CHECK_FALSE(barrier_test_parity(s, 1));
}

TEST_CASE("a ring stage completes only when the arrival and all its bytes are there") {
  mbarrier_state s = fresh(1);
  CHECK_FALSE(barrier_arrive(s, 1, 16384).completed);
  CHECK_FALSE(barrier_complete_tx(s, 8192).completed);
  CHECK_FALSE(barrier_test_parity(s, 0));
  CHECK(barrier_complete_tx(s, 8192).completed);
  CHECK(barrier_test_parity(s, 0));
  CHECK(s.tx == 0);
}

TEST_CASE("bytes may complete before they are expected while an arrival is pending") {
  mbarrier_state s = fresh(1);
  CHECK_FALSE(barrier_complete_tx(s, 512).completed);
  CHECK(s.tx == -512);
  CHECK(barrier_arrive(s, 1, 512).completed);
  CHECK(s.phase == 1);
}

TEST_CASE("complete_tx of 0 bytes with nothing outstanding does not end a phase that still has arrivals") {
  mbarrier_state s = fresh(1);
  CHECK_FALSE(barrier_complete_tx(s, 0).completed);
  CHECK(s.phase == 0);
}

TEST_CASE("arriving too often, dropping too much and bad counts are faults that change nothing") {
  mbarrier_state s = fresh(2);
  const std::uint64_t before = word_of(s);
  CHECK(barrier_arrive(s, 3).fault.kind == misuse::barrier_misuse);
  CHECK(barrier_arrive(s, 0).fault);
  CHECK(barrier_arrive_drop(s, 3).fault);
  CHECK(barrier_arrive(s, 2, 0, true).fault);  // .noComplete
  CHECK(barrier_arrive(s, 1, 1 << 20).fault);
  CHECK(barrier_complete_tx(s, 1 << 20).fault);
  CHECK(word_of(s) == before);
  mbarrier_state t;
  CHECK(barrier_init(t, 0).fault);
  CHECK(barrier_init(t, 1 << 20).fault);
  CHECK_FALSE(barrier_init(t, (1 << 20) - 1).fault);
}

TEST_CASE("arrive_drop lowers the count of later phases") {
  mbarrier_state s = fresh(2);
  CHECK_FALSE(barrier_arrive_drop(s).completed);
  CHECK(barrier_arrive(s).completed);
  CHECK(s.expected == 1);
  CHECK(s.pending == 1);
  barrier_test_parity(s, 0);
  CHECK(barrier_arrive(s).completed);
}

TEST_CASE("a token tells whether its phase is over, and holds the pending count") {
  mbarrier_state s = fresh(2);
  const std::uint64_t token = barrier_arrive(s).token;
  CHECK(barrier_pending_count(token) == 2);
  bool done = true;
  CHECK_FALSE(barrier_test_token(s, token, done).fault);
  CHECK_FALSE(done);
  barrier_arrive(s);
  CHECK_FALSE(barrier_test_token(s, token, done).fault);
  CHECK(done);
  barrier_arrive(s, 2);
  CHECK(barrier_test_token(s, token, done).fault.kind == misuse::barrier_misuse);
  CHECK(barrier_test_token(s, 0, done).fault);
}

TEST_CASE("a waiter two phases behind is found") {
  mbarrier_state s = fresh(1);
  const std::uint64_t meant = meant_phase(s, 0);
  CHECK(meant == 0);
  CHECK_FALSE(check_waiter(s, meant));
  barrier_arrive(s);
  CHECK_FALSE(check_waiter(s, meant));
  barrier_arrive(s);
  CHECK(check_waiter(s, meant).kind == misuse::barrier_misuse);
  mbarrier_state young = fresh(1);
  CHECK_FALSE(check_waiter(young, meant_phase(young, 1)));  // the phase before phase 0
}

TEST_CASE("an arrival in a phase whose predecessor nobody saw is a lint") {
  mbarrier_state s = fresh(1);
  CHECK_FALSE(barrier_arrive(s).lint);
  CHECK(barrier_arrive(s).lint);
  mbarrier_state seen = fresh(1);
  barrier_arrive(seen);
  CHECK(barrier_test_parity(seen, 0));
  CHECK_FALSE(barrier_arrive(seen).lint);
}

TEST_CASE("expect_tx ends a phase when its bytes and all arrivals came before it") {  // as on an H200
  mbarrier_state s = fresh(2);
  barrier_complete_tx(s, 64);
  barrier_arrive(s, 2);
  CHECK(s.phase == 0);
  const barrier_answer a = barrier_expect_tx(s, 64);
  CHECK(a.completed);
  CHECK(s.phase == 1);
  CHECK(s.pending == 2);
  mbarrier_state early = fresh(1);
  barrier_complete_tx(early, 64);
  CHECK_FALSE(barrier_expect_tx(early, 64).completed);  // an arrival is missing
}

TEST_CASE("the word keeps the state") {
  mbarrier_state s = fresh(77);
  barrier_arrive(s, 5, 1000);
  barrier_complete_tx(s, 3000);
  mbarrier_state back;
  REQUIRE(state_of(word_of(s), back));
  CHECK(back.expected == 77);
  CHECK(back.pending == 72);
  CHECK(back.tx == -2000);
  CHECK_FALSE(state_of(0, back));
}

TEST_CASE("cp.async arrivals are net zero") {
  mbarrier_state s = fresh(1);
  CHECK_FALSE(barrier_add_pending(s).fault);
  CHECK_FALSE(barrier_arrive(s).completed);
  CHECK(barrier_arrive(s).completed);
  mbarrier_state full = fresh((1 << 20) - 1);
  CHECK(barrier_add_pending(full).fault);
  CHECK(check_barrier_address(12).kind == misuse::misaligned);
}
