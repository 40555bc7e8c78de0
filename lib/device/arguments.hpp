// The checks of one launch's arguments, one function per question. Each raises a user_error that names the tensor and the numbers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::device {

/// What a view's address and strides must be multiples of, and why.
struct view_rule {
  std::int64_t align_bytes = 1;
  bool through_map = false;          // some tensor map reads it
  std::int64_t inner_multiple = 1;   // packed element types and bulk stores want whole groups of elements in the innermost dimension
  bool stored = false;               // written by bulk copies
};

/// Number of arguments, rank of each view, size of each scalar: what the formulas rely on. [argument-count], [argument-rank], [argument-size].
void check_shapes(const std::string& kernel_name, const std::vector<parameter>& parameters, const std::vector<value>& arguments);

/// Extents in range. [extent-negative], [extent-too-large].
void check_extents(const std::string& kernel_name, const parameter& p, const value& v);

/// Fills `strides` (elements, outermost first) from the value or densely; raises [stride-not-dense], [view-too-large].
void resolve_strides(const std::string& kernel_name, const parameter& p, const value& v, std::vector<std::int64_t>& strides);

/// Address and strides against the rule, for views that have elements. [pointer-null], [pointer-misaligned], [stride-misaligned],
/// [stride-negative], [stride-too-large], [extent-misaligned].
void check_placement(const std::string& kernel_name, const parameter& p, const value& v, const std::vector<std::int64_t>& strides, const view_rule& rule);

inline bool has_elements(const value& v) {
  for (std::int64_t extent : v.extents) {
    if (extent == 0) return false;
  }
  return true;
}

}  // namespace tlx::device
