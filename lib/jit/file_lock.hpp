// A lock between processes and threads on a file. The kernel drops it when its holder ends, however that happens, so none is ever stale.
#pragma once
#include <list>
#include <mutex>
#include <string>

namespace tlx::jit {

class file_lock {
 public:
  /// What becomes of the file when a lock that was held is given back: a name for one purpose goes, a name that all share stays.
  enum class after { remove, keep };

  /// Waits at most `seconds`; `held()` says whether it worked. `usable()` is false if the file cannot be opened, or its file system has no locks.
  file_lock(const std::string& path, double seconds, after afterwards);
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;
  ~file_lock();
  bool usable() const { return error_ == 0; }
  bool held() const { return held_; }
  int error() const { return error_; }  // errno of what makes it unusable

 private:
  friend struct open_locks;
  bool open_file();
  bool names_this_file() const;
  void close_file();

  std::string path_;
  after afterwards_;
  int file_ = -1;
  int error_ = 0;
  bool held_ = false;
  std::list<file_lock*>::iterator place_;  // among the open locks of the process
};

/// Held over every fork(), so that no child finds it locked by a thread that it does not have. For data that a child may use: never for long.
std::mutex& fork_guard();

}  // namespace tlx::jit
