// What each target offers a kernel, and compile-time checks against it that show both numbers.
// Sources: CUDA programming guide, table of compute capabilities; PTX ISA for barriers and tensor memory.
#pragma once
#include <optional>
#include <string_view>

namespace tlx::tile {

struct limits {
  std::string_view target = {};        // "sm_90a"
  int shared_bytes_per_cta = 232448;   // 227 KB, dynamic, opt-in
  int shared_bytes_per_sm = 233472;    // 228 KB
  int shared_bytes_reserved = 1024;    // taken by the system from each CTA's share
  int registers_per_sm = 65536;        // 32-bit
  int registers_per_cta = 65536;
  int registers_per_thread = 255;
  int register_unit_per_warp = 256;    // registers are handed out to a warp in this many
  int tensor_memory_columns = 0;       // 128 lanes of 32 bits each
  int named_barriers = 16;             // bar.sync ids 0..15
  int threads_per_cta = 1024;
  int threads_per_sm = 2048;
  int ctas_per_sm = 32;
  int ctas_per_cluster = 8;            // portable; 16 on request
  int ctas_per_cluster_opt_in = 16;
  int parameter_bytes = 32764;         // kernel parameters, PTX ISA 8.1 and later
  constexpr bool has_tensor_memory() const { return tensor_memory_columns > 0; }
};

inline constexpr std::string_view supported_targets = "sm_90a, sm_100a, sm_103a, sm_100f";

/// Of a supported target; nothing for any other name.
constexpr std::optional<limits> target_limits(std::string_view target) {
  limits l;
  l.target = target;
  if (target == "sm_90a") return l;
  if (target == "sm_100a" || target == "sm_103a" || target == "sm_100f") {
    l.tensor_memory_columns = 512;
    return l;
  }
  return std::nullopt;
}

/// CTAs of one kernel that fit on an SM by shared memory alone.
constexpr int ctas_by_shared_memory(const limits& l, int bytes) { return l.shared_bytes_per_sm / (bytes + l.shared_bytes_reserved); }

/// CTAs that fit by registers alone; a warp's registers are rounded up to the unit in which they are handed out.
constexpr int ctas_by_registers(const limits& l, int registers_per_thread, int warps) {
  const int per_warp = (registers_per_thread * 32 + l.register_unit_per_warp - 1) / l.register_unit_per_warp * l.register_unit_per_warp;
  return per_warp == 0 || warps == 0 ? l.ctas_per_sm : l.registers_per_sm / (per_warp * warps);
}

/// CTAs that fit by threads alone.
constexpr int ctas_by_threads(const limits& l, int threads) { return threads == 0 ? l.ctas_per_sm : l.threads_per_sm / threads; }

// Compile-time checks: `fits_shared_memory<294912, 232448>::ok` stops the compiler with a sentence; g++ adds "the comparison
// reduces to '(294912 <= 232448)'", clang names the template with both numbers.
template <auto Needed, auto Limit>
struct fits {
  static constexpr bool ok = true;
  static_assert(Needed <= Limit, "tlx: this needs more than the limit");
};
template <auto Needed, auto Limit>
struct fits_shared_memory {
  static constexpr bool ok = true;
  static_assert(Needed <= Limit, "tlx: the shared tiles need more bytes than one CTA has; use fewer stages or smaller tiles");
};
template <auto Needed, auto Limit>
struct fits_tensor_memory {
  static constexpr bool ok = true;
  static_assert(Needed <= Limit, "tlx: the accumulators need more tensor memory columns than there are; use fewer stages or smaller tiles");
};
template <auto Needed, auto Limit>
struct fits_threads {
  static constexpr bool ok = true;
  static_assert(Needed <= Limit, "tlx: the roles need more threads than one CTA may have; give them fewer warps");
};
template <auto Needed, auto Limit>
struct fits_registers {
  static constexpr bool ok = true;
  static_assert(Needed <= Limit, "tlx: the roles need more registers than one CTA has; lower a register budget or use fewer warps");
};

}  // namespace tlx::tile
