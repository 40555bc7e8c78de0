// Work on a GPU that may fault or hang, in child processes: what goes wrong costs one item, and the next goes on in a new process.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace tlx::test {

struct apart_result {
  bool ran = false;       // `text` came back
  std::string text;       // what the worker returned
  std::string failure;    // "hung", "crashed" or what was raised; empty when it ran
};

/// What a worker says of one item. `spoiled`: the process cannot go on (a fault of the device), though there is a text.
struct apart_text { std::string text; bool spoiled = false; };
using apart_worker = std::function<apart_text(std::size_t index)>;

/// Calls `open()` in each child process once, and the worker it gives for every index below `count`, in order. The caller must have no other threads.
inline std::vector<apart_result> run_apart(std::size_t count, int seconds_each, int most_failures, const std::function<apart_worker()>& open) {
  std::vector<apart_result> all(count);
  int failures = 0;
  for (std::size_t next = 0; next < count && failures <= most_failures;) {
    int ends[2];
    if (pipe(ends) != 0) return all;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      const auto put = [&](const void* from, std::size_t n) {
        for (std::size_t done = 0; done < n;) {
          const ssize_t k = write(ends[1], static_cast<const char*>(from) + done, n - done);
          if (k <= 0) _exit(3);
          done += static_cast<std::size_t>(k);
        }
      };
      const auto say = [&](char what, std::uint64_t index, const std::string& text) {
        const std::uint64_t size = text.size();
        put(&what, 1), put(&index, 8), put(&size, 8), put(text.data(), text.size());
      };
      std::size_t i = next;
      try {
        const apart_worker worker = open();
        for (; i < count; ++i) {
          say('s', i, "");
          const apart_text made = worker(i);
          say('d', i, made.text);
          if (made.spoiled) _exit(4);
        }
      } catch (const std::exception& e) {
        say('f', i, e.what());
        _exit(5);
      }
      std::fflush(nullptr);
      _exit(0);
    }
    close(ends[1]);
    std::size_t current = next;
    bool finished = false, hung = false, reported = false;
    auto last = std::chrono::steady_clock::now();
    std::string held;
    while (true) {
      fd_set set;
      FD_ZERO(&set);
      FD_SET(ends[0], &set);
      timeval slice{0, 200000};
      if (select(ends[0] + 1, &set, nullptr, nullptr, &slice) > 0) {
        char piece[65536];
        const ssize_t got = read(ends[0], piece, sizeof piece);
        if (got <= 0) break;
        last = std::chrono::steady_clock::now();
        held.append(piece, static_cast<std::size_t>(got));
        std::uint64_t index = 0, size = 0;
        while (held.size() >= 17) {
          std::memcpy(&index, held.data() + 1, 8);
          std::memcpy(&size, held.data() + 9, 8);
          if (held.size() < 17 + size) break;
          current = index;
          finished = held[0] == 'd';
          if (held[0] == 'd') all[index].ran = true, all[index].text = held.substr(17, size);
          if (held[0] == 'f') all[index].failure = held.substr(17, size), reported = true;
          held.erase(0, 17 + size);
        }
      } else if (std::chrono::steady_clock::now() - last > std::chrono::seconds(seconds_each)) {
        kill(child, SIGKILL);
        hung = true;
        break;
      }
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !hung) break;
    if (!finished && !reported) all[current].failure = hung ? "hung: no end within " + std::to_string(seconds_each) + " s" : "crashed: the process ended with status " + std::to_string(status);
    next = current + 1;
    ++failures;
  }
  return all;
}

}  // namespace tlx::test
