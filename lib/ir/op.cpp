#include "tlx/ir/op.hpp"

#include <map>

namespace tlx::ir {

namespace {
constexpr effect pure = effect::pure, read = effect::read, write = effect::write, sync = effect::sync, control = effect::control;
constexpr op_row rows[] = {
#define TLX_OP(id, text, operands, results, regions, effects, meaning) {text, operands, results, regions, effects, meaning},
#include "tlx/ir/ops.def"
#undef TLX_OP
};
}  // namespace

const op_row& row(opcode code) { return rows[static_cast<size_t>(code)]; }

std::optional<opcode> find_opcode(std::string_view text) {
  static const std::map<std::string_view, opcode> index = [] {
    std::map<std::string_view, opcode> m;
    for (size_t i = 0; i < std::size(rows); ++i) m[rows[i].text] = static_cast<opcode>(i);
    return m;
  }();
  if (auto it = index.find(text); it != index.end()) return it->second;
  return std::nullopt;
}

namespace {
const attribute* find(const op& o, std::string_view name) {
  for (const auto& [key, a] : o.attributes)
    if (key == name) return &a;
  return nullptr;
}
}  // namespace

bool op::has(std::string_view name) const { return find(*this, name) != nullptr; }

std::int64_t op::integer(std::string_view name, std::int64_t otherwise) const {
  const attribute* a = find(*this, name);
  return a && std::holds_alternative<std::int64_t>(*a) ? std::get<std::int64_t>(*a) : otherwise;
}

double op::number(std::string_view name, double otherwise) const {
  const attribute* a = find(*this, name);
  if (!a) return otherwise;
  if (std::holds_alternative<double>(*a)) return std::get<double>(*a);
  if (std::holds_alternative<std::int64_t>(*a)) return static_cast<double>(std::get<std::int64_t>(*a));
  return otherwise;
}

std::string op::text(std::string_view name, std::string otherwise) const {
  const attribute* a = find(*this, name);
  return a && std::holds_alternative<std::string>(*a) ? std::get<std::string>(*a) : otherwise;
}

std::vector<std::int64_t> op::integers(std::string_view name) const {
  const attribute* a = find(*this, name);
  return a && std::holds_alternative<std::vector<std::int64_t>>(*a) ? std::get<std::vector<std::int64_t>>(*a) : std::vector<std::int64_t>{};
}

op& op::set(std::string_view name, attribute a) {
  for (auto& [key, old] : attributes)
    if (key == name) {
      old = std::move(a);
      return *this;
    }
  attributes.emplace_back(std::string(name), std::move(a));
  return *this;
}

}  // namespace tlx::ir
