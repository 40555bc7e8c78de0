// Sentences for budgets that are exceeded.
#include "tlx/tile/budget.hpp"

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::tile {

namespace {
std::string over(const limits& l, long needed, long limit, const char* what) {
  if (needed <= limit) return {};
  return cat(needed, " ", what, " are needed, ", l.target, " has ", limit, ": ", needed - limit, " too many");
}
}  // namespace

limits require_target(std::string_view target) {
  if (const auto l = target_limits(target)) return *l;
  raise(user_error({.id = "target-unknown",
                    .what = cat("target \"", target, "\" is not supported"),
                    .because = "tlx generates code for Hopper and Blackwell data centre chips only",
                    .fix = {cat("choose one of ", supported_targets)}}));
}

std::string check_shared_memory(const limits& l, long bytes) { return over(l, bytes, l.shared_bytes_per_cta, "bytes of shared memory per CTA"); }

std::string check_tensor_memory(const limits& l, int columns) {
  if (columns > 0 && !l.has_tensor_memory()) return cat(columns, " columns of tensor memory are needed, ", l.target, " has none");
  return over(l, columns, l.tensor_memory_columns, "columns of tensor memory");
}

std::string check_threads(const limits& l, int threads) { return over(l, threads, l.threads_per_cta, "threads per CTA"); }

std::string check_named_barriers(const limits& l, int count) { return over(l, count, l.named_barriers, "named barriers"); }

std::string check_registers(const limits& l, const std::vector<register_share>& shares, int entry_registers_per_thread) {
  long total = 0, threads = 0;
  std::string sum;
  for (const register_share& s : shares) {
    if (s.registers_per_thread < 24 || s.registers_per_thread > 256 || s.registers_per_thread % 8 != 0)
      return cat("role \"", s.role, "\" asks for ", s.registers_per_thread, " registers per thread; setmaxnreg takes multiples of 8 from 24 to 256");
    total += 32L * s.warps * s.registers_per_thread;
    threads += 32L * s.warps;
    sum += cat(sum.empty() ? "" : " + ", s.role, " ", 32 * s.warps, " x ", s.registers_per_thread);
  }
  const long entry = threads * entry_registers_per_thread;
  if (entry > l.registers_per_cta) return cat(threads, " threads start with ", entry_registers_per_thread, " registers each: ", over(l, entry, l.registers_per_cta, "registers"));
  if (total > entry)
    return cat(sum, " = ", total, " registers are needed, the CTA starts with ", threads, " x ", entry_registers_per_thread, " = ", entry, ": ", total - entry, " too many");
  return {};
}

}  // namespace tlx::tile
