#include "jit/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

extern char** environ;

namespace tlx::jit {

namespace {

using clock = std::chrono::steady_clock;

int milliseconds_until(clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()).count();
  return left <= 0 ? 0 : left > 1000000 ? 1000000 : static_cast<int>(left);
}

// Reads until the writers are gone or the time is up; true when they are gone.
bool drain(int from, clock::time_point end, std::string& out) {
  char piece[65536];
  for (;;) {
    pollfd wait{from, POLLIN, 0};
    const int ready = poll(&wait, 1, milliseconds_until(end));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = read(from, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    out.append(piece, static_cast<size_t>(got));
  }
}

// A program may close its output long before it ends.
bool reap(pid_t child, clock::time_point end, int& status) {
  for (;;) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child) return true;
    if (done < 0 && errno != EINTR) {
      status = 0;
      return true;
    }
    if (milliseconds_until(end) == 0) return false;
    usleep(1000);
  }
}

}  // namespace

process_result run_process(const std::vector<std::string>& argv, double timeout_seconds) {
  process_result out;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    out.problem = cat("pipe: ", std::strerror(errno));
    return out;
  }
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own, so that a wrapper script's children die with it; signals as at the start of a program.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int failure = posix_spawn(&child, argv[0].c_str(), &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure != 0) {
    close(ends[0]);
    out.problem = std::strerror(failure);
    return out;
  }
  out.started = true;
  const auto end = clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(timeout_seconds));
  int status = 0;
  if (!drain(ends[0], end, out.output) || !reap(child, end, status)) {
    out.timed_out = true;
    kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  if (WIFEXITED(status)) out.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) out.signal = WTERMSIG(status);
  return out;
}

temporary_folder::temporary_folder() {
  const char* root = std::getenv("TMPDIR");
  std::string pattern = std::string(root && *root ? root : "/tmp") + "/tlx-XXXXXX";
  if (!mkdtemp(pattern.data())) {
    raise(device_error({.id = "temporary-folder-failed",
                        .what = cat("cannot make a folder ", pattern, ": ", std::strerror(errno)),
                        .because = "the assembler works on files",
                        .fix = {"set TMPDIR to a writable folder with space"}}));
  }
  path_ = pattern;
}

temporary_folder::~temporary_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tlx::jit
