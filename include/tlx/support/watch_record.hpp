// The contract between a watched kernel's code and the machine that runs it: two variables of the module and the form of a record.
//
// `tlx_watch_state` is two words in the machine's memory: who gave up first (0: nobody; else the CTA's linear index + 1), and how many further records
// that CTA has made. `tlx_watch_records` is a word that holds the address of room for `watch_capacity` records, which the host can read while the kernel
// runs; the machine writes the address when it loads the module. Record 0 is that of the first thread that gave up, the others are of its CTA.
#pragma once
#include <array>
#include <cstdint>

namespace tlx {

inline constexpr const char* watch_state_name = "tlx_watch_state";
inline constexpr const char* watch_records_name = "tlx_watch_records";
inline constexpr int watch_capacity = 32;
inline constexpr std::uint32_t watch_no_value = 0x80000000;  // a requirement without a value to show

/// 32 bytes, as the kernel writes them. A record whose site is 0 was not made.
struct watch_record {
  enum class cause : std::uint8_t { time = 0, followed = 1, requirement = 2 };
  std::uint32_t site = 0;    // index + 1
  std::uint8_t warp = 0;     // of the CTA
  std::uint8_t lane = 0;
  cause why = cause::time;
  std::uint8_t unused = 0;
  std::array<std::uint32_t, 3> cta{};
  std::uint32_t place = 0;   // wait, meet: offset of the barrier in dynamic shared memory; require: the bound
  std::uint32_t value = 0;   // wait, meet: the parity waited for; require: the value
  std::uint32_t reserved = 0;
};
static_assert(sizeof(watch_record) == 32);
using watch_records = std::array<watch_record, watch_capacity>;

inline bool gave_up(const watch_records& r) { return r[0].site != 0; }

}  // namespace tlx
