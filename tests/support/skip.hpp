// A test case that cannot run here says so and counts as skipped, never as passed.
#pragma once
#include <string>

namespace tlx::test {
/// Marks the running test case as skipped; the case returns right after (TLX_SKIP_UNLESS does both).
void note_skip(const std::string& why);
}  // namespace tlx::test

/// First statement of a test case that needs something: TLX_SKIP_UNLESS(has_gpu(), "no GPU").
#define TLX_SKIP_UNLESS(condition, why) \
  do {                                  \
    if (!(condition)) {                 \
      ::tlx::test::note_skip(why);      \
      return;                           \
    }                                   \
  } while (false)
