// Operations, values and regions: the nouns of the IR. Meanings of the operations: ops.def.
//
// Semantics of the whole. A kernel runs as CTAs of threads. Straight-line order is program order of each thread; regions nest (for, if, while,
// role) and no value leaves its region: what must be carried is a cell (var). Scalars are per thread; tiles are spread over the warps of the
// enclosing role (or of the whole CTA outside roles) by their layout. Integer arithmetic wraps. f32 arithmetic flushes subnormals to zero.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tlx/ir/type.hpp"
#include "tlx/support/location.hpp"

namespace tlx::ir {

enum class opcode : unsigned short {
#define TLX_OP(id, text, operands, results, regions, effects, meaning) id,
#include "tlx/ir/ops.def"
#undef TLX_OP
};

enum class effect : unsigned char { pure, read, write, sync, control };

struct op_row {
  std::string_view text;
  int operands, results, regions;
  effect effects;
  std::string_view meaning;
};
const op_row& row(opcode code);
std::optional<opcode> find_opcode(std::string_view text);

struct op;
struct region;

/// A value: the result of an op, or the argument of a region. Its address is its identity.
struct value_def {
  ir::type type;
  op* owner = nullptr;         // null for region arguments
  region* scope = nullptr;     // region arguments: where it lives
  std::string name;            // a hint for printing; need not be unique
};
using value = value_def*;

using attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;

struct region {
  std::vector<std::unique_ptr<value_def>> arguments;
  std::vector<std::unique_ptr<op>> ops;
  op* parent = nullptr;  // null for a kernel's body
};

struct op {
  opcode code{};
  std::vector<value> operands;
  std::vector<std::unique_ptr<value_def>> results;
  std::vector<std::pair<std::string, attribute>> attributes;  // in the order they were set
  std::vector<std::unique_ptr<region>> regions;
  location where;
  region* parent = nullptr;

  bool is(opcode c) const { return code == c; }
  value result(size_t i = 0) const { return results[i].get(); }
  bool has(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  double number(std::string_view name, double otherwise = 0) const;
  std::string text(std::string_view name, std::string otherwise = {}) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  op& set(std::string_view name, attribute a);
};

}  // namespace tlx::ir
