#include "sim/lex.hpp"

#include <bit>
#include <cctype>
#include <cstdlib>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

void malformed(int line, const std::string& what) {
  raise(user_error({.id = "ptx-malformed", .what = what, .context = cat("ptx line ", line)}));
}

void unsupported(int line, const std::string& what) {
  raise(user_error({.id = "ptx-unsupported", .what = what, .because = "the simulator refuses what it does not model", .context = cat("ptx line ", line)}));
}

namespace {

bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

struct scanner {
  std::string_view s;
  std::size_t at = 0;
  int line = 1;

  char peek(std::size_t ahead = 0) const { return at + ahead < s.size() ? s[at + ahead] : '\0'; }

  void skip_space() {
    for (;;) {
      const char c = peek();
      if (c == '\n') { ++line; ++at; }
      else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') ++at;
      else if (c == '/' && peek(1) == '/') { while (at < s.size() && s[at] != '\n') ++at; }
      else if (c == '/' && peek(1) == '*') {
        const int start = line;
        at += 2;
        while (at < s.size() && !(s[at] == '*' && peek(1) == '/')) { if (s[at] == '\n') ++line; ++at; }
        if (at >= s.size()) malformed(start, "comment without an end");
        at += 2;
      } else if (c == '#') { while (at < s.size() && s[at] != '\n') ++at; }  // line markers of preprocessors
      else return;
    }
  }

  token word() {
    token t;
    t.kind = token_kind::word;
    t.line = line;
    const std::size_t start = at;
    if (peek() == '.') ++at;
    for (;;) {
      if (word_char(peek())) ++at;
      else if (peek() == '.' && word_char(peek(1))) ++at;
      else if (peek() == ':' && peek(1) == ':' && word_char(peek(2))) at += 2;
      else break;
    }
    t.text = s.substr(start, at - start);
    return t;
  }

  token number() {
    token t;
    t.line = line;
    const std::size_t start = at;
    const char second = peek(1);
    if (peek() == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
      const bool single = second == 'f' || second == 'F';
      at += 2;
      const std::size_t digits = single ? 8 : 16;
      std::uint64_t bits = 0;
      for (std::size_t i = 0; i < digits; ++i, ++at) {
        if (!std::isxdigit(static_cast<unsigned char>(peek()))) malformed(line, cat("a ", single ? "0f" : "0d", " literal needs ", digits, " hexadecimal digits"));
        const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(peek())));
        bits = bits << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      }
      t.kind = token_kind::real;
      t.is_f32 = single;
      t.integer = bits;
    } else if (peek() == '0' && (second == 'x' || second == 'X' || second == 'b' || second == 'B')) {
      const unsigned base = second == 'x' || second == 'X' ? 16 : 2;
      at += 2;
      std::uint64_t value = 0;
      const std::size_t first = at;
      while (std::isxdigit(static_cast<unsigned char>(peek()))) {
        const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(peek())));
        const unsigned digit = static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
        if (digit >= base) malformed(line, "bad digit in a number");
        value = value * base + digit;
        ++at;
      }
      if (at == first) malformed(line, "number without digits");
      if (peek() == 'U' || peek() == 'u') ++at;
      t.kind = token_kind::integer;
      t.integer = value;
    } else {
      bool real = false;
      while (std::isdigit(static_cast<unsigned char>(peek()))) ++at;
      if (peek() == '.' && std::isdigit(static_cast<unsigned char>(peek(1)))) { real = true; ++at; while (std::isdigit(static_cast<unsigned char>(peek()))) ++at; }
      if ((peek() == 'e' || peek() == 'E') && (std::isdigit(static_cast<unsigned char>(peek(1))) || ((peek(1) == '+' || peek(1) == '-') && std::isdigit(static_cast<unsigned char>(peek(2)))))) {
        real = true;
        at += 2;
        while (std::isdigit(static_cast<unsigned char>(peek()))) ++at;
      }
      const std::string digits(s.substr(start, at - start));
      if (real) {
        t.kind = token_kind::real;
        t.integer = std::bit_cast<std::uint64_t>(std::strtod(digits.c_str(), nullptr));
      } else {
        t.kind = token_kind::integer;
        const bool octal = digits.size() > 1 && digits[0] == '0';
        t.integer = std::strtoull(digits.c_str(), nullptr, octal ? 8 : 10);
        if (peek() == 'U' || peek() == 'u') ++at;
      }
    }
    if (word_char(peek())) malformed(line, cat("unexpected '", peek(), "' after a number"));
    t.text = s.substr(start, at - start);
    return t;
  }

  token text() {
    token t;
    t.kind = token_kind::text;
    t.line = line;
    const std::size_t start = ++at;
    while (at < s.size() && s[at] != '"') {
      if (s[at] == '\\') ++at;
      if (at < s.size() && s[at] == '\n') ++line;
      ++at;
    }
    if (at >= s.size()) malformed(t.line, "string without an end");
    t.text = s.substr(start, at - start);
    ++at;
    return t;
  }
};

}  // namespace

std::vector<token> lex(std::string_view source) {
  scanner in{source};
  std::vector<token> out;
  out.reserve(source.size() / 5);
  for (;;) {
    in.skip_space();
    token t;
    t.line = in.line;
    if (in.at >= source.size() || in.peek() == '\0') { out.push_back(t); return out; }
    const char c = in.peek();
    if (std::isdigit(static_cast<unsigned char>(c))) t = in.number();
    else if (word_char(c) || (c == '.' && word_char(in.peek(1)))) t = in.word();
    else if (c == '"') t = in.text();
    else if (std::string_view("{}[]()<>,;:@!|+-*=&~?^/").find(c) != std::string_view::npos) {
      t.kind = token_kind::punctuation;
      t.mark = c;
      t.text = source.substr(in.at++, 1);
    } else malformed(in.line, cat("unexpected character '", c, "'"));
    out.push_back(t);
  }
}

}  // namespace tlx::sim
