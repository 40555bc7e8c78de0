// Launch formulas, parsed once and run at every launch: a postfix program over 64-bit integers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::device {

class formula_program {
 public:
  /// Raises internal_error [formula-malformed] with the offset; names are looked up among the kernel's parameters.
  formula_program(const formula& text, const kernel& k);

  /// `arguments` have been checked against the parameters (check_shapes). Raises user_error [formula-overflow] or [formula-divides-by-zero].
  std::int64_t run(const std::vector<value>& arguments, int processors) const;

 private:
  friend class formula_parser;
  enum class op : std::uint8_t { constant, processors, scalar, extent, add, sub, mul, div, ceil_div, min, max };
  struct step {
    op what;
    std::int64_t constant = 0;
    int parameter = 0, dimension = 0;   // what `scalar` and `extent` read
    int width_bytes = 0;                // of a scalar
    bool is_signed = false;
  };
  static constexpr int stack_limit = 64;  // deepest expression accepted; real ones need four or five
  std::int64_t load_scalar(const step& s, const std::vector<value>& arguments) const;

  std::vector<step> steps_;
  formula text_;
  std::string kernel_name_;
};

}  // namespace tlx::device
