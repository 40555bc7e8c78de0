// PTX text to tokens. A word is an opcode with all its modifiers ("cp.async.bulk.shared::cluster"), a directive (".reg"), a register or a name.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tlx::sim {

enum class token_kind : std::uint8_t { word, integer, real, text, punctuation, end };

struct token {
  token_kind kind = token_kind::end;
  char mark = 0;               // punctuation
  bool is_f32 = false;         // 0fXXXXXXXX
  int line = 0;
  std::string_view text;       // slice of the source (without quotes for text)
  std::uint64_t integer = 0;   // integer value, or the bits of an f64 (f32 if is_f32) literal
};

/// Splits the whole text; the slices point into `source`. Raises user_error [ptx-malformed] with the line.
std::vector<token> lex(std::string_view source);

/// Raises user_error [ptx-malformed] or [ptx-unsupported] with "ptx line N".
[[noreturn]] void malformed(int line, const std::string& what);
[[noreturn]] void unsupported(int line, const std::string& what);

}  // namespace tlx::sim
