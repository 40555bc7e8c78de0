// How far a long verb is: a bar that moves on a terminal, a line a step elsewhere. On standard error.
#pragma once
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace tlxc {

/// For any number of threads.
class progress {
 public:
  explicit progress(size_t total);
  ~progress();  // leaves the terminal with a line of its own
  /// A step is done; `notes` stay on the screen.
  void step(const std::string& name, const std::vector<std::string>& notes = {});
  double seconds() const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  size_t total_, done_ = 0;
  bool terminal_, open_ = false;
  std::mutex guard_;
};

}  // namespace tlxc
