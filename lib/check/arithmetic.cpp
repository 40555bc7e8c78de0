#include "check/arithmetic.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace tlx::check {

using ir::opcode;

int comparison(const ir::op& o) {
  if (!o.is(opcode::compare)) return 0;
  static constexpr const char* names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  const std::string is = o.text("is");
  return static_cast<int>(std::find(std::begin(names), std::end(names), is) - std::begin(names));
}

std::int64_t wrapped(std::int64_t v, tile::element e) {
  const int bits = e == tile::element::boolean ? 1 : tile::bits(e);
  if (bits >= 64) return v;
  const std::uint64_t mask = (1ULL << bits) - 1, low = static_cast<std::uint64_t>(v) & mask;
  if (e == tile::element::boolean || !tile::is_signed(e) || !(low >> (bits - 1))) return static_cast<std::int64_t>(low);
  return static_cast<std::int64_t>(low | ~mask);
}

bool is_followed(const ir::op& o) {
  if (o.results.size() != 1 || !o.result()->type.is_scalar()) return false;
  const auto integer = [](const ir::type& t) { return t.is_scalar() && (tile::is_integer(t.element) || t.element == tile::element::boolean); };
  if (!integer(o.result()->type)) return false;
  for (const ir::value v : o.operands)
    if (!integer(v->type)) return false;
  switch (o.code) {
    case opcode::constant: return true;
    case opcode::add: case opcode::sub: case opcode::mul: case opcode::div: case opcode::rem: case opcode::min: case opcode::max:
    case opcode::bit_and: case opcode::bit_or: case opcode::bit_xor: case opcode::shl: case opcode::shr: case opcode::neg: case opcode::bit_not:
    case opcode::abs: case opcode::compare: case opcode::select: case opcode::fma: case opcode::cast: return true;
    default: return false;
  }
}

namespace {
bool holds(int is, std::int64_t a, std::int64_t b) {
  switch (is) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    default: return a >= b;
  }
}
std::int64_t low_bits(std::uint64_t v) { return static_cast<std::int64_t>(v); }
}  // namespace

std::optional<std::int64_t> compute(opcode code, tile::element result, int detail, const std::int64_t* v, size_t count) {
  const auto u = [&](size_t i) { return static_cast<std::uint64_t>(v[i]); };
  std::int64_t r = 0;
  if (count == 1) {
    switch (code) {
      case opcode::neg: r = low_bits(0 - u(0)); break;
      case opcode::bit_not: r = ~v[0]; break;
      case opcode::abs: r = v[0] < 0 ? low_bits(0 - u(0)) : v[0]; break;
      case opcode::cast: r = result == tile::element::boolean ? v[0] != 0 : v[0]; break;
      default: return std::nullopt;
    }
  } else if (count == 2) {
    const bool no_quotient = v[1] == 0 || (v[1] == -1 && v[0] == std::numeric_limits<std::int64_t>::min());
    switch (code) {
      case opcode::add: r = low_bits(u(0) + u(1)); break;
      case opcode::sub: r = low_bits(u(0) - u(1)); break;
      case opcode::mul: r = low_bits(u(0) * u(1)); break;
      case opcode::div: r = no_quotient ? 0 : v[0] / v[1]; break;
      case opcode::rem: r = no_quotient ? 0 : v[0] % v[1]; break;
      case opcode::min: r = std::min(v[0], v[1]); break;
      case opcode::max: r = std::max(v[0], v[1]); break;
      case opcode::bit_and: r = v[0] & v[1]; break;
      case opcode::bit_or: r = v[0] | v[1]; break;
      case opcode::bit_xor: r = v[0] ^ v[1]; break;
      case opcode::shl: r = v[1] >= 0 && v[1] < 64 ? low_bits(u(0) << v[1]) : 0; break;
      case opcode::shr: r = v[0] >> std::clamp<std::int64_t>(v[1], 0, 63); break;
      case opcode::compare: r = holds(detail, v[0], v[1]); break;
      default: return std::nullopt;
    }
  } else if (count == 3) {
    switch (code) {
      case opcode::select: r = v[0] ? v[1] : v[2]; break;
      case opcode::fma: r = low_bits(u(0) * u(1) + u(2)); break;
      default: return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  return wrapped(r, result);
}

}  // namespace tlx::check
