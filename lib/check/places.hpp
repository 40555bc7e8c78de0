// Addresses in the user's words, from the table that the kernel carries: "full[2] of ring \"ab\"", "slot 2 of ring \"ab\"".
#pragma once
#include <cstdint>
#include <string>

#include "tlx/ir/kernel.hpp"

namespace tlx::check {

class place_names {
 public:
  explicit place_names(const ir::kernel& k) : kernel_(&k) {}
  /// `at`: CTA in the upper half, byte offset in the lower.
  std::string barrier(std::int64_t at) const;
  std::string shared(int cta, std::int64_t low, std::int64_t high) const;
  std::string tensor(std::int64_t low, std::int64_t high) const;

 private:
  std::string in_cta(std::int64_t cta) const;
  const ir::kernel* kernel_;
};

}  // namespace tlx::check
