#include "jit/file_lock.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace tlx::jit {

// A forked child inherits the open files and with them the locks: it would keep a lock alive that its parent gave back by dying. So it closes them.
struct open_locks {
  std::mutex guard;
  std::list<file_lock*> all;

  open_locks() {
    pthread_atfork([] { of_process().guard.lock(); }, [] { of_process().guard.unlock(); },
                   [] {
                     for (file_lock* lock : of_process().all) {
                       close(lock->file_);
                       lock->file_ = -1;
                       lock->held_ = false;
                     }
                     of_process().all.clear();
                     of_process().guard.unlock();
                   });
  }
  static open_locks& of_process() {
    static auto* const one = new open_locks;  // never destroyed: threads and destructors of statics may still lock
    return *one;
  }
};

std::mutex& fork_guard() { return open_locks::of_process().guard; }

file_lock::file_lock(const std::string& path, double seconds, after afterwards) : path_(path), afterwards_(afterwards) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  auto pause = std::chrono::microseconds(200);
  if (!open_file()) return;
  for (;;) {
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) {
      held_ = names_this_file();
      if (held_) return;
      close_file();  // its holder removed it between our open and our lock: another file has the name now, or none
      if (!open_file()) return;
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      error_ = errno;
      return;
    }
    if (std::chrono::steady_clock::now() >= end) return;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

file_lock::~file_lock() {
  if (file_ < 0) return;
  if (held_ && afterwards_ == after::remove) unlink(path_.c_str());  // while it is locked: whoever waits for this file sees that the name has gone
  close_file();
}

bool file_lock::open_file() {
  std::lock_guard lock(fork_guard());
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0) {
    error_ = errno;
    return false;
  }
  auto& all = open_locks::of_process().all;
  place_ = all.insert(all.end(), this);
  return true;
}

bool file_lock::names_this_file() const {
  struct stat ours {}, named {};
  return fstat(file_, &ours) == 0 && stat(path_.c_str(), &named) == 0 && ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

void file_lock::close_file() {
  std::lock_guard lock(fork_guard());
  if (file_ < 0) return;
  open_locks::of_process().all.erase(place_);
  close(file_);
  file_ = -1;
}

}  // namespace tlx::jit
