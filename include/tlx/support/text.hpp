// Small text helpers: concatenation of printable things, joining, reading a file.
#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tlx {

/// cat("a", 1, 'b') == "a1b".
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// Whole file as bytes; raises user_error [file-unreadable].
std::string read_file(const std::string& path);

/// Writes `bytes` to `path` through a temporary name and rename, so that a reader sees all or nothing; raises user_error [file-unwritable].
void write_file(const std::string& path, std::string_view bytes);

}  // namespace tlx
