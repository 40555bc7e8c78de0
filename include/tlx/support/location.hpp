// Where in the user's source something was written. Works on g++ 12 and clang 14 (which has no std::source_location).
#pragma once
#include <string>

namespace tlx {

struct location {
  const char* file = "";  // storage: string literal of the compiler, or interned by intern_file()
  int line = 0;

  static constexpr location here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  constexpr bool known() const { return line > 0; }
};

/// "gemm.cpp:41" (file name without folders); empty when unknown.
std::string to_string(location where);

/// A copy of `file` that lives as long as the program: for locations that are read from text.
const char* intern_file(const std::string& file);

}  // namespace tlx
