#include "tlx/support/text.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>

#include "tlx/support/error.hpp"

namespace tlx {

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out += separator;
    out += parts[i];
  }
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) raise(user_error({.id = "file-unreadable", .what = "cannot read \"" + path + "\"", .fix = {"check the path and its permissions"}}));
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_file(const std::string& path, std::string_view bytes) {
  static std::atomic<unsigned> serial{0};
  const std::string temporary = cat(path, ".", ::getpid(), ".", serial++, ".tmp");
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    raise(user_error({.id = "file-unwritable", .what = "cannot write \"" + path + "\"", .fix = {"check that the folder exists, is writable and has space"}}));
  }
}

}  // namespace tlx
