// The one-line text form of layouts, both ways.
#include <charconv>
#include <string>

#include "tlx/support/text.hpp"
#include "tlx/tile/layout.hpp"

namespace tlx::tile {

namespace {

std::string pair_text(coordinate c) { return cat("(", c.row, ",", c.col, ")"); }

std::string axis_text(const axis_map& a) {
  std::string text = "[";
  auto separate = [&] {
    if (text.size() > 1) text += ",";
  };
  for (int i = 0; i < a.bit_count; ++i) {
    separate();
    text += pair_text(a.bit[static_cast<unsigned>(i)]);
  }
  for (int i = 0; i < a.rep_count; ++i) {
    separate();
    text += cat(a.rep[static_cast<unsigned>(i)].count, "*", pair_text(a.rep[static_cast<unsigned>(i)].step));
  }
  return text + "]";
}

class reader {
 public:
  explicit reader(std::string_view text) : rest_(text) {}

  bool take(std::string_view word) {
    skip();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool number(int& value) {
    skip();
    const auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (failure != std::errc{} || value < 0 || value > 0x7fff) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }
  bool axis(axis_map& a) {
    if (!take("[")) return false;
    if (take("]")) return true;
    do {
      int count = 0;
      coordinate c;
      const bool repeats = !take("(");
      if (repeats && (!number(count) || count < 2 || !take("*") || !take("("))) return false;
      if (!number(c.row) || !take(",") || !number(c.col) || !take(")")) return false;
      if (repeats) {
        if (a.rep_count == axis_map::max_repeats) return false;
        a.add_repeat(count, c);
      } else {
        if (a.bit_count == axis_map::max_bits || a.rep_count != 0) return false;  // bits come before repeats
        a.add_bit(c);
      }
    } while (take(","));
    return take("]");
  }
  bool at_end() {
    skip();
    return rest_.empty();
  }

 private:
  void skip() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

}  // namespace

std::string to_text(const layout& l) {
  std::string text = cat("layout<", l.rows, "x", l.cols, " reg", axis_text(l.reg), " lane", axis_text(l.lane));
  if (l.warp.count() > 1) text += " warp" + axis_text(l.warp);
  if (l.block.count() > 1) text += " block" + axis_text(l.block);
  return text + ">";
}

std::optional<layout> parse_layout(std::string_view text) {
  reader in(text);
  int rows = 0, cols = 0;
  axis_map reg, lane, warp, block;
  if (!in.take("layout") || !in.take("<") || !in.number(rows) || !in.take("x") || !in.number(cols)) return std::nullopt;
  if (rows < 1 || cols < 1) return std::nullopt;
  if (!in.take("reg") || !in.axis(reg) || !in.take("lane") || !in.axis(lane)) return std::nullopt;
  if (in.take("warp") && !in.axis(warp)) return std::nullopt;
  if (in.take("block") && !in.axis(block)) return std::nullopt;
  if (!in.take(">") || !in.at_end() || lane.count() != warp_lanes) return std::nullopt;
  return make_layout(rows, cols, reg, lane, warp, block);
}

}  // namespace tlx::tile
