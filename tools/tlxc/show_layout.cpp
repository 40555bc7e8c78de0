// Which thread and register owns which element of a tile; for shared tiles, which bank.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "show.hpp"
#include "svg.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/element.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/shared_tile.hpp"

namespace tlxc {

using tlx::cat;
using namespace tlx::tile;

namespace {

struct size {
  int rows = 0, cols = 0;
};

std::optional<int> whole(const std::string& text) {
  int n = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (fault != std::errc{} || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

std::optional<size> size_of(const std::string& text) {
  const size_t x = text.find('x');
  if (x == std::string::npos) return std::nullopt;
  const auto rows = whole(text.substr(0, x)), cols = whole(text.substr(x + 1));
  if (!rows || !cols || *rows < 1 || *cols < 1 || *rows > 1024 || *cols > 1024) return std::nullopt;
  return size{*rows, *cols};
}

struct form {
  const char *name, *words;
  layout (*make)(size s, int warps, int extra);
};
constexpr form forms[] = {
    {"wgmma_accumulator", "MxN WARPS", [](size s, int w, int) { return wgmma_accumulator(s.rows, s.cols, w); }},
    {"wgmma_a_operand", "MxK WARPS", [](size s, int w, int) { return wgmma_a_operand_16bit(s.rows, s.cols, w); }},
    {"mma_sync_accumulator", "MxN WARPS", [](size s, int w, int) { return mma_sync_accumulator(s.rows, s.cols, w); }},
    {"mma_sync_a", "MxK WARPS", [](size s, int w, int) { return mma_sync_a(s.rows, s.cols, w); }},
    {"mma_sync_b", "KxN WARPS", [](size s, int w, int) { return mma_sync_b(s.rows, s.cols, w); }},
    {"tmem_rows_32x32b", "MxN WARPS [CTAS]", [](size s, int w, int e) { return tmem_rows_32x32b(s.rows, s.cols, w, e); }},
    {"tmem_16x256b", "MxN WARPS", [](size s, int w, int) { return tmem_16x256b(s.rows, s.cols, w); }},
    {"blocked", "MxN WARPS [VECTOR]", [](size s, int w, int e) { return blocked(s.rows, s.cols, w, e); }},
    {"replicated", "MxN WARPS", [](size s, int w, int) { return replicated(s.rows, s.cols, w); }},
};

[[noreturn]] void unknown(const std::string& text) {
  raise(tlx::user_error({.id = "layout-unknown", .what = cat("\"", text, "\" is no layout"), .because = "layouts are named with their extents and warps, or written out",
                         .fix = {"use a form such as \"wgmma_accumulator 64x64 4\", \"blocked 32x64 4 8\", \"shared bf16 64x64 128\"; tlxc show --help lists them",
                                 "use the text form: \"layout<8x8 reg[(0,1)] lane[(0,2),(0,4),(1,0),(2,0),(4,0)]>\""}}));
}

layout layout_of(const std::vector<std::string>& words, const std::string& text) {
  if (const auto written = parse_layout(text)) return *written;
  for (const form& f : forms) {
    if (words.empty() || words[0] != f.name || words.size() < 3 || words.size() > 4) continue;
    const auto s = size_of(words[1]);
    const auto warps = whole(words[2]), extra = words.size() == 4 ? whole(words[3]) : std::optional(1);
    if (s && warps && extra) return f.make(*s, *warps, *extra);
  }
  unknown(text);
}

std::string cell(const owner& o, bool blocks) { return cat(blocks ? cat("c", o.block, ".") : "", "t", o.warp * warp_lanes + o.lane, ".r", o.reg); }

// Dark enough to tell apart, light enough to read black text on.
std::string shade(int index, int count, double lightness = 0.78) { return colour(std::fmod(index * (count <= 8 ? 360.0 / std::max(count, 1) : 137.5), 360), 0.65, lightness); }

std::string fill_of(const owner& o, const layout& l, const std::string& by) {
  if (by == "lane") return shade(o.lane, warp_lanes);
  if (by == "register") return shade(o.reg, l.register_count());
  const std::string plain = shade(o.warp, l.warp_count(), 0.70 + 0.18 * (o.lane % 8) / 7.0);  // warps by hue, lanes by lightness
  return plain;
}

void draw(const layout& l, const inverse_layout& inverse, const std::string& title, const std::string& by, const std::string& path) {
  const bool named = static_cast<long>(l.rows) * l.cols <= 64 * 128;
  const double w = named ? 46 : 6, h = named ? 18 : 6, left = 34, top = 58;
  svg picture;
  picture.text(0, 12, title, 14);
  picture.text(0, 30, cat("colour: ", by, "; t: thread of the CTA, r: register; ", l.register_count(), " registers in each of ", l.thread_count(), " threads"), 11);
  for (int c = 0; c < l.cols; c += named ? 1 : 16) picture.text(left + (c + 0.5) * w, top - 4, cat(c), 9, "middle", "#666");
  for (int r = 0; r < l.rows; ++r) {
    if (named || r % 16 == 0) picture.text(left - 4, top + r * h + h * 0.7, cat(r), 9, "end", "#666");
    for (int c = 0; c < l.cols; ++c) {
      const owner o = inverse({r, c});
      picture.box(left + c * w, top + r * h, w, h, fill_of(o, l, by), named ? "#fff" : "none", cat("(", r, ", ", c, "): warp ", o.warp, " lane ", o.lane, " register ", o.reg));
      if (named) picture.text(left + (c + 0.5) * w, top + r * h + h * 0.7, cell(o, l.block_count() > 1), 9, "middle");
    }
  }
  picture.write(path);
}

int registers_and_threads(const arguments& given, const layout& l) {
  const inverse_layout inverse = tlx::tile::inverse(l);
  std::printf("%s\n", to_text(l).c_str());
  std::printf("%d x %d elements, %d registers in each of %d threads (%d warps)", l.rows, l.cols, l.register_count(), l.thread_count(), l.warp_count());
  if (l.block_count() > 1) std::printf(" of %d CTAs", l.block_count());
  if (l.replication() > 1) std::printf(", every element %d times (the first owner is shown)", l.replication());
  std::printf("\n");
  const int rows = static_cast<int>(std::min<long long>(l.rows, given.number("--rows", 16, 1))), cols = static_cast<int>(std::min<long long>(l.cols, given.number("--cols", 16, 1)));
  const int width = static_cast<int>(cell({l.register_count() - 1, warp_lanes - 1, l.warp_count() - 1, l.block_count() - 1}, l.block_count() > 1).size()) + 1;
  std::printf("%4s ", "");
  for (int c = 0; c < cols; ++c) std::printf("%*d", width, c);
  for (int r = 0; r < rows; ++r) {
    std::printf("\n%4d ", r);
    for (int c = 0; c < cols; ++c) std::printf("%*s", width, cell(inverse({r, c}), l.block_count() > 1).c_str());
  }
  std::printf("\n");
  if (rows < l.rows || cols < l.cols) std::printf("(the first %d rows and %d columns; --rows and --cols show more)\n", rows, cols);
  const std::string by = given.text("--colour", "warp");
  if (by != "warp" && by != "lane" && by != "register") throw usage_error(cat("--colour \"", by, "\" is none of warp, lane and register"));
  if (given.has("--svg")) draw(l, inverse, to_text(l), by, given.text("--svg"));
  return 0;
}

// "shared bf16 64x64 [128]": where the bytes of a swizzled tile lie.
int shared_bytes(const arguments& given, const std::vector<std::string>& words, const std::string& text) {
  const auto type = words.size() >= 3 && words.size() <= 4 ? parse_element(words[1]) : std::nullopt;
  const auto s = type ? size_of(words[2]) : std::nullopt;
  if (!s) unknown(text);
  shared_tile t = make_shared_tile(*type, s->rows, s->cols);
  if (words.size() == 4) {
    const auto swizzle = whole(words[3]);
    if (!swizzle) unknown(text);
    t.swizzle_bytes = *swizzle;
  }
  if (const char* rule = broken_rule(t))
    raise(tlx::user_error({.id = "layout-unknown", .what = cat("\"", text, "\" is no shared tile"), .because = rule, .fix = {"change the extents or the swizzle: 0, 16, 32, 64 or 128"}}));
  const int each = std::max(1, 128 / bits(t.type));  // elements in 16 bytes
  std::printf("%s %d x %d, %d-byte swizzle: %d bytes, aligned to %d; each number: byte offset / 16 of %d elements\n", words[1].c_str(), t.rows, t.cols, t.swizzle_bytes, t.size_bytes(), t.alignment(), each);
  const int rows = static_cast<int>(std::min<long long>(t.rows, given.number("--rows", 16, 1)));
  for (int r = 0; r < rows; ++r) {
    std::printf("%4d ", r);
    for (int c = 0; c < t.cols; c += each) std::printf("%6d", t.offset(r, c) / 16);
    std::printf("\n");
  }
  if (!given.has("--svg")) return 0;
  svg picture;
  const double w = 64, h = 18, left = 34, top = 58;
  picture.text(0, 12, cat("shared ", words[1], " ", t.rows, "x", t.cols, ", ", t.swizzle_bytes, "-byte swizzle"), 14);
  picture.text(0, 30, cat("a box: 16 bytes (", each, " elements); number: its place / 16; colour: banks (4 of 32)"), 11);
  for (int c = 0; c < t.cols; c += each) picture.text(left + (c / each + 0.5) * w, top - 4, cat(c), 9, "middle", "#666");
  for (int r = 0; r < t.rows; ++r) {
    picture.text(left - 4, top + r * h + 13, cat(r), 9, "end", "#666");
    for (int c = 0; c < t.cols; c += each) {
      const int place = t.offset(r, c) / 16;
      picture.box(left + c / each * w, top + r * h, w, h, shade(place % 8, 8), "#fff", cat("byte ", place * 16));
      picture.text(left + (c / each + 0.5) * w, top + r * h + 13, cat(place), 10, "middle");
    }
  }
  picture.write(given.text("--svg"));
  return 0;
}

}  // namespace

std::string layout_forms() {
  std::string text;
  for (const form& f : forms) text += cat("  ", f.name, " ", f.words, "\n");
  return text + "  shared ELEMENT MxN [SWIZZLE]       (a tile in shared memory: where its bytes lie)\n";
}

int show_layout(const arguments& given, const std::vector<std::string>& words) {
  const std::string text = tlx::join(words, " ");
  if (text.empty()) throw usage_error("expected a layout, for example \"wgmma_accumulator 64x64 4\"");
  const std::vector<std::string> parts = split(text, ' ');
  if (parts[0] == "shared") return shared_bytes(given, parts, text);
  return registers_and_threads(given, layout_of(parts, text));
}

}  // namespace tlxc
