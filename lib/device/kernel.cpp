// The plain functions of kernel.hpp; the work is in binder.cpp (arguments) and formula.cpp (grids).
#include "tlx/device/kernel.hpp"

#include "device/arguments.hpp"
#include "device/formula.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/support/error.hpp"

namespace tlx::device {

value view_value(address base, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides) {
  return value{.base = base, .extents = std::move(extents), .strides = std::move(strides), .bytes = {}};
}

std::int64_t evaluate(const formula& f, const kernel& k, const std::vector<value>& arguments, int processors) {
  check_shapes(k.name, k.parameters, arguments);
  return formula_program(f, k).run(arguments, processors);
}

launch bind(const kernel& k, const std::vector<value>& arguments, const properties& on, std::uint64_t stream) {
  binder once(k, on);
  return once(arguments, stream);
}

}  // namespace tlx::device
