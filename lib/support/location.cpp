#include "tlx/support/location.hpp"

#include <mutex>
#include <set>

namespace tlx {

std::string to_string(location where) {
  if (!where.known()) return {};
  std::string file = where.file;
  if (auto slash = file.find_last_of('/'); slash != std::string::npos) file.erase(0, slash + 1);
  return file + ":" + std::to_string(where.line);
}

const char* intern_file(const std::string& file) {
  static std::mutex guard;
  static std::set<std::string> files;
  std::lock_guard lock(guard);
  return files.insert(file).first->c_str();
}

}  // namespace tlx
