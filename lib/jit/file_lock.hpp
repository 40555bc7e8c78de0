// A lock between processes and threads on a file that stays. The kernel drops it when its holder ends, however that happens, so none is ever stale.
#pragma once
#include <string>

namespace tlx::jit {

class file_lock {
 public:
  /// Waits at most `seconds`; `held()` says whether it worked. `usable()` is false if the file cannot be opened at all.
  file_lock(const std::string& path, double seconds);
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;
  ~file_lock();
  bool usable() const { return file_ >= 0; }
  bool held() const { return held_; }

 private:
  int file_ = -1;
  bool held_ = false;
};

}  // namespace tlx::jit
