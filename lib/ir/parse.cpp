// Text to kernel: recursive descent over the form that print.cpp writes.
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <map>

#include "tlx/ir/builder.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::ir {

namespace {

class parser {
 public:
  explicit parser(const std::string& text) : text_(text) {}

  template <class F>
  auto in_parentheses(F&& f) {
    expect("(");
    auto v = f();
    expect(")");
    return v;
  }

  std::unique_ptr<kernel> parse_kernel() {
    expect("tlx.ir");
    if (integer() != 1) fail("only version 1 of the text form is known");
    auto k = std::make_unique<kernel>();
    expect("kernel");
    expect("@");
    k->name = word();
    expect("target");
    k->target = in_parentheses([&] { return string(); });
    expect("warps");
    k->warps = in_parentheses([&] { return small(); });
    expect("cluster");
    expect("(");
    for (int i = 0; i < 3; ++i) {
      k->cluster[i] = small();
      expect(i < 2 ? "," : ")");
    }
    expect("blocks");
    k->blocks_per_processor = in_parentheses([&] { return small(); });
    expect("shared");
    k->shared_bytes = in_parentheses([&] { return small(); });
    expect("grid");
    expect("(");
    for (int i = 0; i < 3; ++i) {
      k->grid[i] = string();
      expect(i < 2 ? "," : ")");
    }
    k->where = optional_location();
    expect("[");
    while (take("map ")) {
      expect("{");
      tensor_map_use m;
      expect("parameter");
      expect("=");
      m.parameter = small();
      expect(",");
      expect("box");
      expect("=");
      expect("[");
      m.box = integers();
      expect(",");
      expect("swizzle");
      expect("=");
      m.swizzle_bytes = small();
      expect(",");
      expect("promotion");
      expect("=");
      m.l2_promotion_bytes = small();
      expect("}");
      k->maps.push_back(m);
    }
    while (take("place ")) k->places.push_back(parse_place());
    kernel_ = k.get();
    parse_region(k->body);
    skip();
    if (at_ != text_.size()) fail("text after the kernel");
    return k;
  }

 private:
  [[noreturn]] void fail(const std::string& what) {
    int line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    raise(user_error({.id = "ir-malformed", .what = cat("line ", line, ": ", what), .because = "the text form is what `print` writes",
                      .fix = {"print a kernel with `tlxc print` and start from that"}}));
  }

  void skip() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == ';')) {
      if (text_[at_] == ';')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else
        ++at_;
    }
  }
  bool peek(std::string_view s) {
    skip();
    return text_.compare(at_, s.size(), s) == 0;
  }
  bool take(std::string_view s) {
    if (!peek(s)) return false;
    at_ += s.size();
    return true;
  }
  void expect(std::string_view s) {
    if (!take(s)) fail(cat("expected '", s, "'"));
  }
  std::string word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.' || text_[at_] == '-')) ++at_;
    if (start == at_) fail("expected a name");
    return text_.substr(start, at_ - start);
  }
  std::int64_t integer() {
    skip();
    char* end = nullptr;
    errno = 0;
    const std::int64_t v = std::strtoll(text_.c_str() + at_, &end, 10);
    if (end == text_.c_str() + at_) fail("expected an integer");
    if (errno == ERANGE) fail("an integer beyond 64 bits");
    at_ = static_cast<size_t>(end - text_.c_str());
    return v;
  }
  // Counts, extents, line numbers: from 0 up, in 32 bits.
  int small() {
    const std::int64_t v = integer();
    if (v < 0 || v > std::numeric_limits<int>::max()) fail(cat(v, " is out of range here"));
    return static_cast<int>(v);
  }
  int extent(int most) {
    const int v = small();
    if (v < 1 || v > most) fail(cat(v, " is not between 1 and ", most));
    return v;
  }
  std::vector<std::int64_t> integers() {
    std::vector<std::int64_t> items;
    while (!take("]")) {
      items.push_back(integer());
      if (!take(",") && !peek("]")) fail("expected ',' or ']'");
    }
    return items;
  }
  // Regions and types nest; text that nests without end must not exhaust the stack.
  struct nested {
    int& depth;
    explicit nested(parser& p) : depth(p.depth_) {
      if (++depth > 100) {
        --depth;
        p.fail("nested more than 100 deep");
      }
    }
    nested(const nested&) = delete;
    nested& operator=(const nested&) = delete;
    ~nested() { --depth; }
  };
  std::string string() {
    expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        out += text_[at_] == 'n' ? '\n' : text_[at_];
      } else {
        out += text_[at_];
      }
      ++at_;
    }
    expect("\"");
    return out;
  }
  location optional_location() {
    if (!take("@")) return {};
    const std::string file = string();
    expect(":");
    return {intern_file(file), small()};
  }

  attribute parse_attribute() {
    if (peek("\"")) return string();
    if (take("[")) return integers();
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && std::string_view("+-.0123456789eEinfa").find(text_[at_]) != std::string_view::npos) ++at_;
    const std::string number = text_.substr(start, at_ - start);
    if (number.empty()) fail("expected an attribute value");
    char* end = nullptr;
    errno = 0;
    const bool real = number.find_first_of(".ein") != std::string::npos;
    const attribute v = real ? attribute(std::strtod(number.c_str(), &end)) : attribute(static_cast<std::int64_t>(std::strtoll(number.c_str(), &end, 10)));
    if (*end != '\0' || (errno == ERANGE && !real)) fail(cat("'", number, "' is no number"));
    return v;
  }

  element parse_element_name(const std::string& s) {
    if (auto e = tile::parse_element(s)) return *e;
    fail(cat("unknown element type '", s, "'"));
  }
  void shape(type& t) {
    t.rows = extent(1 << 16);
    expect("x");
    t.cols = extent(1 << 16);
  }

  type parse_type() {
    const nested guard(*this);
    const std::string head = word();
    type t;
    if (head == "none") return t;
    if (head == "tile" || head == "acc" || head == "shared" || head == "view") {
      expect("<");
      t.element = parse_element_name(word());
      if (head == "view") {
        t.what = type::kind::view;
        t.rank = extent(5);
      } else {
        t.what = head == "tile" ? type::kind::tile : head == "acc" ? type::kind::acc : type::kind::shared;
        shape(t);
        if (t.what == type::kind::shared) {
          expect("sw");
          t.swizzle_bytes = small();
          if (t.swizzle_bytes != 0 && t.swizzle_bytes != 32 && t.swizzle_bytes != 64 && t.swizzle_bytes != 128) fail("a swizzle is 0, 32, 64 or 128 bytes");
        }
        if (t.is_tile() && !peek(">")) {
          skip();
          size_t depth = 0, end = at_;
          for (; end < text_.size(); ++end) {
            if (text_[end] == '<') ++depth;
            if (text_[end] == '>' && depth-- == 1) break;
          }
          auto l = tile::parse_layout(std::string_view(text_).substr(at_, end + 1 - at_));
          if (!l) fail("malformed layout");
          if (l->rows != t.rows || l->cols != t.cols) fail(cat("a layout of ", l->rows, "x", l->cols, " for a tile of ", t.rows, "x", t.cols));
          t = t.with_layout(*l);
          at_ = end + 1;
        }
      }
      expect(">");
      return t;
    }
    if (head == "ring") {
      expect("<");
      t.what = type::kind::ring;
      t.stages = extent(1 << 16);
      expect(":");
      do t.parts.push_back(parse_type());
      while (take(","));
      expect(">");
      return t;
    }
    if (head == "var") {
      expect("<");
      t = type::var_of(parse_type());
      expect(">");
      return t;
    }
    return type::scalar(parse_element_name(head));
  }

  place parse_place() {
    place p;
    const auto key = [&](const char* name) {
      expect(name);
      expect("=");
    };
    expect("{");
    key("ring");
    p.ring = string();
    expect(",");
    key("part");
    p.part = string();
    expect(",");
    key("offset");
    p.offset = small();
    expect(",");
    key("bytes");
    p.bytes = small();
    expect(",");
    key("stages");
    p.stages = extent(1 << 16);
    expect("}");
    p.where = optional_location();
    return p;
  }

  // "%name.12" or "%12": the number is the identity, the name a hint
  std::pair<std::string, std::string> value_name() {
    expect("%");
    const std::string all = word();
    const size_t dot = all.rfind('.');
    return {all, dot == std::string::npos ? "" : all.substr(0, dot)};
  }
  value use() {
    const auto [all, hint] = value_name();
    auto it = values_.find(all);
    if (it == values_.end()) fail(cat("%", all, " is not defined before its use"));
    return it->second;
  }

  void parse_region(region& r) {
    const nested guard(*this);
    while (take("(")) {
      const auto [all, hint] = value_name();
      expect(":");
      r.arguments.push_back(std::make_unique<value_def>(value_def{.type = parse_type(), .owner = nullptr, .scope = &r, .name = hint}));
      define(all, r.arguments.back().get());
      expect(")");
    }
    while (!take("]")) parse_op(r);
  }

  void define(const std::string& name, value v) {
    if (!values_.emplace(name, v).second) fail(cat("%", name, " is defined twice"));
  }

  void parse_op(region& r) {
    std::vector<std::pair<std::string, std::string>> names;
    if (peek("%")) {
      do names.push_back(value_name());
      while (take(","));
      expect("=");
    }
    const std::string head = word();
    const auto code = find_opcode(head);
    if (!code) fail(cat("unknown operation '", head, "'"));
    std::vector<value> operands;
    if (row(*code).operands != 0 && peek("%")) {  // without operands, a % begins the next line
      do operands.push_back(use());
      while (take(","));
    }
    std::vector<std::pair<std::string, attribute>> attributes;
    if (take("{")) {
      while (!take("}")) {
        std::string key = word();
        expect("=");
        attributes.emplace_back(key, parse_attribute());
        if (!take(",") && !peek("}")) fail("expected ',' or '}'");
      }
    }
    std::vector<type> types;
    if (take(":")) {
      do types.push_back(parse_type());
      while (take(","));
    }
    if (types.size() != names.size()) fail(cat("'", head, "' names ", names.size(), " results and gives ", types.size(), " types"));
    builder b(*kernel_, r);
    b.locate(optional_location());
    op& made = b.make(*code, operands, types, attributes);
    for (size_t i = 0; i < names.size(); ++i) {
      made.results[i]->name = names[i].second;
      define(names[i].first, made.result(i));
    }
    while (take("[")) parse_region(builder::add_region(made));
  }

  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
  kernel* kernel_ = nullptr;
  std::map<std::string, value> values_;
};

}  // namespace

std::unique_ptr<kernel> parse(const std::string& text) { return parser(text).parse_kernel(); }

}  // namespace tlx::ir
