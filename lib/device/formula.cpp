// Parses and runs launch formulas. Every operation is checked: a grid that wraps around is worse than no launch.
#include "device/formula.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::device {

class formula_parser {
 public:
  formula_parser(const formula& text, const kernel& k, std::vector<formula_program::step>& out) : text_(text), kernel_(k), out_(out) {}

  void parse() {
    expression(0);
    skip_spaces();
    if (at_ < text_.size()) malformed("one expression and then the end");
  }

 private:
  using op = formula_program::op;
  using step = formula_program::step;

  [[noreturn]] void malformed(const std::string& expected) const {
    raise(internal_error({.id = "formula-malformed",
                          .what = cat("formula \"", text_, "\" stops making sense at offset ", at_, ": expected ", expected),
                          .because = "a formula is an integer, a name, or (add|sub|mul|div|ceil_div|min|max a b)",
                          .fix = {"this kernel was made by a broken or newer tlx: build it again with this version"},
                          .context = "kernel \"" + kernel_.name + "\""}));
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  std::string_view word() {
    const size_t from = at_;
    while (at_ < text_.size() && !std::strchr(" \n\t()", text_[at_])) ++at_;
    return std::string_view(text_).substr(from, at_ - from);
  }

  void expression(int depth) {
    if (depth >= formula_program::stack_limit) malformed(cat("at most ", formula_program::stack_limit, " levels"));
    skip_spaces();
    if (at_ >= text_.size()) malformed("an expression");
    if (text_[at_] != '(') return atom();
    ++at_;
    skip_spaces();
    const size_t name_at = at_;
    const std::optional<op> what = operation(word());
    if (!what) {
      at_ = name_at;
      malformed("add, sub, mul, div, ceil_div, min or max");
    }
    expression(depth + 1);
    expression(depth + 1);
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != ')') malformed("\")\" after two operands");
    ++at_;
    out_.push_back({.what = *what});
  }

  static std::optional<op> operation(std::string_view name) {
    if (name == "add") return op::add;
    if (name == "sub") return op::sub;
    if (name == "mul") return op::mul;
    if (name == "div") return op::div;
    if (name == "ceil_div") return op::ceil_div;
    if (name == "min") return op::min;
    if (name == "max") return op::max;
    return std::nullopt;
  }

  void atom() {
    const size_t from = at_;
    const std::string_view text = word();
    if (text.empty()) malformed("an expression");
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure == std::errc() && end == text.data() + text.size()) {
      out_.push_back({.what = op::constant, .constant = number});
      return;
    }
    if (text == "processors") {
      out_.push_back({.what = op::processors});
      return;
    }
    if (scalar(text) || extent(text)) return;
    at_ = from;
    malformed("an integer that fits 64 bits, `processors`, an integer scalar of the kernel, or VIEW.DIMENSION");
  }

  bool scalar(std::string_view name) {
    for (size_t i = 0; i < kernel_.parameters.size(); ++i) {
      const parameter& p = kernel_.parameters[i];
      if (p.name != name || p.what != parameter::kind::scalar) continue;
      const bool is_signed = !p.element.empty() && p.element[0] == 's';
      const bool is_integer = is_signed || (!p.element.empty() && p.element[0] == 'u') || p.element == "pred" || p.element == "bool";
      if (!is_integer || p.element_bits > 64) return false;
      out_.push_back({.what = op::scalar, .parameter = static_cast<int>(i), .width_bytes = (p.element_bits + 7) / 8, .is_signed = is_signed});
      return true;
    }
    return false;
  }

  bool extent(std::string_view text) {
    const size_t dot = text.rfind('.');
    if (dot == std::string_view::npos) return false;
    int dimension = -1;
    const std::string_view digits = text.substr(dot + 1);
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), dimension);
    if (failure != std::errc() || end != digits.data() + digits.size()) return false;
    for (size_t i = 0; i < kernel_.parameters.size(); ++i) {
      const parameter& p = kernel_.parameters[i];
      if (p.name != text.substr(0, dot) || p.what != parameter::kind::view || dimension < 0 || dimension >= p.rank) continue;
      out_.push_back({.what = op::extent, .parameter = static_cast<int>(i), .dimension = dimension});
      return true;
    }
    return false;
  }

  const formula& text_;
  const kernel& kernel_;
  std::vector<step>& out_;
  size_t at_ = 0;
};

formula_program::formula_program(const formula& text, const kernel& k) : text_(text), kernel_name_(k.name) {
  formula_parser(text, k, steps_).parse();
}

std::int64_t formula_program::load_scalar(const step& s, const std::vector<value>& arguments) const {
  std::uint64_t bits = 0;
  const std::vector<std::byte>& bytes = arguments[static_cast<size_t>(s.parameter)].bytes;
  std::memcpy(&bits, bytes.data(), std::min(bytes.size(), static_cast<size_t>(s.width_bytes)));
  if (s.is_signed && s.width_bytes < 8) {
    const int shift = 64 - 8 * s.width_bytes;
    return static_cast<std::int64_t>(bits << shift) >> shift;
  }
  if (!s.is_signed && bits > static_cast<std::uint64_t>(INT64_MAX)) {
    raise(user_error({.id = "formula-overflow",
                      .what = cat("a scalar of ", bits, " does not fit the signed 64-bit launch formula \"", text_, "\""),
                      .because = "grids are computed in signed 64-bit integers",
                      .fix = {"pass a smaller value"},
                      .context = "kernel \"" + kernel_name_ + "\""}));
  }
  return static_cast<std::int64_t>(bits);
}

// Quotients round towards minus infinity (div) and plus infinity (ceil_div), for every sign.
static std::int64_t divide_down(std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }
static std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + ((a % b != 0 && (a < 0) == (b < 0)) ? 1 : 0); }

std::int64_t formula_program::run(const std::vector<value>& arguments, int processors) const {
  std::array<std::int64_t, stack_limit + 1> stack{};
  size_t top = 0;
  for (const step& s : steps_) {
    switch (s.what) {
      case op::constant: stack[top++] = s.constant; continue;
      case op::processors: stack[top++] = processors; continue;
      case op::scalar: stack[top++] = load_scalar(s, arguments); continue;
      case op::extent: stack[top++] = arguments[static_cast<size_t>(s.parameter)].extents[static_cast<size_t>(s.dimension)]; continue;
      default: break;
    }
    const std::int64_t b = stack[--top], a = stack[--top];
    std::int64_t result = 0;
    bool overflow = false;
    switch (s.what) {
      case op::add: overflow = __builtin_add_overflow(a, b, &result); break;
      case op::sub: overflow = __builtin_sub_overflow(a, b, &result); break;
      case op::mul: overflow = __builtin_mul_overflow(a, b, &result); break;
      case op::min: result = std::min(a, b); break;
      case op::max: result = std::max(a, b); break;
      default:
        if (b == 0) {
          raise(user_error({.id = "formula-divides-by-zero",
                            .what = cat("the launch formula \"", text_, "\" divides ", a, " by 0"),
                            .because = "an argument made a divisor of the grid formula zero",
                            .fix = {"pass a non-zero value, or write (max 1 ...) around the divisor in the kernel's grid"},
                            .context = "kernel \"" + kernel_name_ + "\""}));
        }
        overflow = a == INT64_MIN && b == -1;
        if (!overflow) result = s.what == op::div ? divide_down(a, b) : divide_up(a, b);
    }
    if (overflow) {
      raise(user_error({.id = "formula-overflow",
                        .what = cat("the launch formula \"", text_, "\" leaves the 64-bit range (operands ", a, " and ", b, ")"),
                        .because = "grids are computed in signed 64-bit integers",
                        .fix = {"pass smaller arguments"},
                        .context = "kernel \"" + kernel_name_ + "\""}));
    }
    stack[top++] = result;
  }
  return stack[0];
}

}  // namespace tlx::device
