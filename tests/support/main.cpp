// main() of every test binary: doctest's, plus a count of cases that a script can read and an exit code for "all skipped".
//
//   exit 0   at least one case ran and none failed
//   exit 77  every selected case was skipped (ctest shows "Skipped")
//   exit 1   a case failed, or no case was selected: a filter with a slip in it must not look like success
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tests/support/skip.hpp"

namespace {

struct count {
  int passed = 0, failed = 0, skipped = 0;
  bool skip_current = false;
} cases;

struct counter : doctest::IReporter {
  explicit counter(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData&) override { cases.skip_current = false; }
  void test_case_end(const doctest::CurrentTestCaseStats& ended) override {
    // A check that failed before the skip still counts as a failure.
    if (!ended.testCaseSuccess) ++cases.failed;
    else if (cases.skip_current) ++cases.skipped;
    else ++cases.passed;
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("tlx-counter", 0, counter);

// A test that calls exit(0) would end green with its checks unseen; this runs on the way out and makes it red.
bool run_ended = false;
void refuse_early_exit() {
  if (run_ended) return;
  std::fputs("the program ended in the middle of a test case\n", stderr);
  std::_Exit(1);
}

}  // namespace

namespace tlx::test {
void note_skip(const std::string& why) {
  cases.skip_current = true;
  std::cout << "skipped: " << why << '\n';
}
}  // namespace tlx::test

int main(int argc, char** argv) {
  setenv("TLX_CACHE", "off", 0);  // a test sees what this build compiles, not what an earlier one did
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--device=", 9) == 0) setenv("TLX_DEVICE", argv[i] + 9, 1);  // for tests that run on machines by name, see machines.hpp
  doctest::Context context(argc, argv);
  std::atexit(refuse_early_exit);
  const int result = context.run();
  run_ended = true;
  if (context.shouldExit()) return result;  // --help, --list-test-cases, ...
  std::printf("cases: %d passed, %d failed, %d skipped\n", cases.passed, cases.failed, cases.skipped);
  if (result != 0 || cases.failed > 0) return 1;
  if (cases.passed > 0) return 0;
  if (cases.skipped > 0) return 77;
  std::printf("no test case was selected\n");
  return 1;
}
