// The names behind the records of a watched kernel, and the error made of both.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tlx/support/watch_record.hpp"

namespace tlx::device {

/// A place in the code where a thread can give up. Its index is what the record holds.
struct watch_site {
  enum class kind { wait, meet, require };
  kind what = kind::wait;
  std::string role = {};  // empty: the kernel has none
  std::string text = {};  // require: the message; meet: "named barrier 1"
  std::string file = {};  // empty where not known
  int line = 0;
};

/// Barriers of a ring (or of something like it): `stages` of 8 bytes each from `offset` on, in dynamic shared memory.
struct watch_ring {
  std::string name = {};
  std::string side = {};  // "full", "empty", ...
  int offset = 0, stages = 1;
};

struct watch_table {
  double seconds = 0;  // how long a wait may take; 0: not watched
  std::vector<watch_site> sites = {};
  std::vector<watch_ring> rings = {};
  bool on() const { return seconds > 0; }
};

/// Raises device_error [kernel-gave-up] or [requirement-failed]: the first record is the error, the others of its CTA are listed.
/// `launches`: how many launches since the last report have no results; 0: not known.
[[noreturn]] void raise_gave_up(const std::string& kernel, const watch_table& names, const watch_records& records, std::uint64_t launches);

}  // namespace tlx::device
