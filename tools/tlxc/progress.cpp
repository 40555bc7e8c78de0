#include "progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace tlxc {

progress::progress(size_t total) : total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}

progress::~progress() {
  if (open_) std::fputc('\n', stderr);
}

double progress::seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

void progress::step(const std::string& name, const std::vector<std::string>& notes) {
  constexpr int width = 30;
  std::lock_guard lock(guard_);
  ++done_;
  if (!terminal_) {
    std::fprintf(stderr, "[%zu/%zu] %s\n", done_, total_, name.c_str());
    for (const std::string& note : notes) std::fprintf(stderr, "  %s\n", note.c_str());
    return;
  }
  if (!notes.empty()) {
    std::fprintf(stderr, "\r\033[K%s\n", name.c_str());
    for (const std::string& note : notes) std::fprintf(stderr, "  %s\n", note.c_str());
  }
  const int filled = static_cast<int>(done_ * width / total_);
  std::fprintf(stderr, "\r\033[K[%s%s] %zu/%zu  %.0f s  %s", std::string(static_cast<size_t>(filled), '#').c_str(), std::string(static_cast<size_t>(width - filled), '.').c_str(), done_, total_, seconds(), name.c_str());
  std::fflush(stderr);
  open_ = true;
}

}  // namespace tlxc
