// Scalar arithmetic of the IR on integers: what addresses, phases and bounds are made of. Written from ops.def, not from the code generator.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tlx/ir/op.hpp"

namespace tlx::check {

/// The comparison of {is} as a number, so that running it needs no text.
int comparison(const ir::op& o);

/// The integer result of an elementwise op, wrapped to its type; nothing for ops and types that are not followed (floats).
/// `detail`: comparison() of a compare.
std::optional<std::int64_t> compute(ir::opcode code, tile::element result, int detail, const std::int64_t* operands, size_t count);

/// True when compute() knows the op.
bool is_followed(const ir::op& o);

std::int64_t wrapped(std::int64_t v, tile::element e);

}  // namespace tlx::check
