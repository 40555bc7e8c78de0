// Words for finding mistakes: requirements and printing.
#pragma once
#include <string>

#include "tlx/dsl/value.hpp"

namespace tlx {

/// In a kernel compiled to be watched (docs/watch.md): the first thread that finds `condition` false records the place and `text`, and the kernel ends
/// with an error. Otherwise nothing: neither it nor what only it reads is in the code.
inline void require(const predicate& condition, const std::string& text, location where = location::here()) {
  condition.home().at(where).make(ir::opcode::require, {condition.used()}, {}, {{"text", text}});
}
/// The same, and the report shows `value`.
inline void require(const predicate& condition, const std::string& text, const index& value, location where = location::here()) {
  dsl::context& c = condition.home();
  c.at(where);
  const std::vector<ir::value> operands{condition.used(), c.use(value.raw(), &value.home())};
  c.at().make(ir::opcode::require, operands, {}, {{"text", text}});
}

/// printf by every thread that gets here, watched or not: %d and %u for integers, %lld for 64-bit ones, %f for floats. Printed when the kernel has ended.
template <class... Values>
void print(dsl::context& c, const std::string& format, const Values&... values) {
  const std::vector<ir::value> operands{c.use(values.raw(), &values.home())...};
  c.at().make(ir::opcode::print, operands, {}, {{"format", format}});
}

}  // namespace tlx
