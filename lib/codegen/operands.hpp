// Spelling of PTX operands.
#pragma once
#include <string>
#include <vector>

#include "tlx/support/text.hpp"

namespace tlx::codegen {

/// A vector needs braces; a single register must not have them.
inline std::string vector_operand(const std::vector<std::string>& names) { return names.size() == 1 ? names[0] : cat("{", join(names, ", "), "}"); }

/// "+16", "-16", "".
inline std::string offset_text(std::int64_t offset) { return offset == 0 ? std::string() : cat(offset > 0 ? "+" : "", offset); }

}  // namespace tlx::codegen
