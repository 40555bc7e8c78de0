// What can go wrong under a cache, done for real: full and read-only file systems, limits, other users, killed and forked processes, and a rename() that
// fails the ways a network file system's does. At worst the work is done again; never is an entry wrong, and never does a process end or wait for good.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "jit/file_lock.hpp"
#include "jit/process.hpp"
#include "tests/support/skip.hpp"
#include "tlx/jit/cache.hpp"

using namespace tlx::jit;
namespace fs = std::filesystem;

using tlx::sha256_hex;

namespace {

// How the next renames of this process end.
enum class rename_fault { none, refused, done_but_refused };
std::atomic<rename_fault> fault{rename_fault::none};
std::atomic<int> fault_errno{ESTALE};

const std::string key = sha256_hex("a key");
std::string file_of(const std::string& folder, const std::string& k) { return folder + "/" + k.substr(0, 2) + "/" + k.substr(2); }

constexpr int cannot = 99;  // a child's way to say that this machine does not let it

// Runs in a process of its own; its exit code, or 1000 and its signal.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// A file system of `bytes` at `folder`, seen by this process only and gone with it.
bool mount_small(const std::string& folder, const char* options, unsigned long flags = 0) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 && mount("tmpfs", folder.c_str(), "tmpfs", flags, options) == 0;
}

std::string made_for(int number) { return std::string(static_cast<size_t>(3000 + number), static_cast<char>('a' + number)); }

}  // namespace

extern "C" int rename(const char* from, const char* to) {
  static const auto real = reinterpret_cast<int (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "rename"));
  const rename_fault now = fault.load();
  if (now == rename_fault::none) return real(from, to);
  if (now == rename_fault::done_but_refused) real(from, to);
  errno = fault_errno;
  return -1;
}

TEST_CASE("a full disk: everything is made, nothing half is left, and room that comes back is used") {
  temporary_folder at;
  const int code = in_child([&] {
    if (!mount_small(at.path(), "size=65536")) return cannot;
    disk_cache c({.folder = at.path()});
    int wrong = 0;
    for (int i = 0; i < 4; ++i) {
      const std::string big(60000, static_cast<char>('a' + i));
      const auto ask = [&] { return c.find_or_make(sha256_hex(std::to_string(i)), [&] { return big; }); };
      for (int again = 0; again < 2; ++again) wrong += ask() == big ? 0 : 1;
    }
    const cache_counters n = c.counters();
    if (wrong || n.corrupt || n.failed_stores < 3 || n.last_problem.find("No space left") == std::string::npos) return 1;
    for (const auto& file : fs::recursive_directory_iterator(at.path())) wrong += file.path().extension() == ".tmp" ? 1 : 0;
    if (wrong) return 2;
    c.clear();
    const std::string after = c.find_or_make(key, [] { return std::string("fits"); });
    return after == "fits" && c.find(key) == "fits" ? 0 : 3;
  });
  TLX_SKIP_UNLESS(code != cannot, "this process may not mount a file system");
  CHECK(code == 0);
}

TEST_CASE("no inodes left: the folders of entries and locks cannot be made, and everything is made all the same") {
  temporary_folder at;
  const int code = in_child([&] {
    if (!mount_small(at.path(), "nr_inodes=1")) return cannot;
    disk_cache c({.folder = at.path()});
    for (int i = 0; i < 2; ++i)
      if (c.find_or_make(key, [] { return std::string("made"); }) != "made") return 1;
    return c.counters().misses == 2 && c.counters().failed_stores == 2 ? 0 : 2;
  });
  TLX_SKIP_UNLESS(code != cannot, "this process may not mount a file system");
  CHECK(code == 0);
}

TEST_CASE("a read-only file system: what is there is used, the rest is made, and nothing is a signal") {
  temporary_folder at;
  const int code = in_child([&] {
    if (!mount_small(at.path(), "size=1m")) return cannot;
    disk_cache writer({.folder = at.path()});
    writer.store(key, "prebuilt");
    if (mount("none", at.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return cannot;
    disk_cache reader({.folder = at.path()});
    const std::string found = reader.find_or_make(key, [] { return std::string("made again"); });
    const std::string made = reader.find_or_make(sha256_hex("new"), [] { return std::string("new"); });
    const cache_counters n = reader.counters();
    return found == "prebuilt" && made == "new" && n.hits == 1 && n.failed_stores == 1 && n.lock_timeouts == 0 && reader.clear() == 0 ? 0 : 1;
  });
  TLX_SKIP_UNLESS(code != cannot, "this process may not mount a file system");
  CHECK(code == 0);
}

TEST_CASE("a limit on file sizes is a failed store, not the end of the process") {
  temporary_folder at;
  CHECK(in_child([&] {
          const rlimit small{4096, 4096};
          setrlimit(RLIMIT_FSIZE, &small);  // SIGXFSZ keeps its default, which ends a process
          disk_cache c({.folder = at.path()});
          const bool made = c.find_or_make(key, [] { return std::string(100000, 'x'); }).size() == 100000;
          sigset_t pending;
          sigpending(&pending);
          return made && c.counters().failed_stores == 1 && !sigismember(&pending, SIGXFSZ) && !c.find(key) ? 0 : 1;
        }) == 0);
}

TEST_CASE("a rename that fails the ways a network file system's does costs a store at most") {
  for (const int error : {ESTALE, EIO, EXDEV, EACCES, ENOENT, EBUSY, EDQUOT}) {
    CAPTURE(error);
    temporary_folder at;
    disk_cache c({.folder = at.path()});
    fault_errno = error;
    fault = rename_fault::refused;
    CHECK(c.find_or_make(key, [] { return std::string("made"); }) == "made");
    CHECK(c.counters().failed_stores == 1);
    CHECK_FALSE(c.find(key));
    for (const auto& file : fs::recursive_directory_iterator(at.path())) CHECK(file.path().extension() != ".tmp");
    fault = rename_fault::done_but_refused;  // the answer to the first try was lost, and the second found nothing to rename
    CHECK(c.find_or_make(key, [] { return std::string("made"); }) == "made");
    fault = rename_fault::none;
    CHECK(c.counters().failed_stores == 1);
    CHECK(c.counters().stores == 1);
    CHECK(c.find(key) == "made");
  }
}

TEST_CASE("a folder or a pipe in the place of an entry is in nobody's way") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  const std::string folder_key = sha256_hex("folder"), pipe_key = sha256_hex("pipe");
  fs::create_directories(file_of(at.path(), folder_key) + "/with something in it");
  fs::create_directories(fs::path(file_of(at.path(), pipe_key)).parent_path());
  REQUIRE(mkfifo(file_of(at.path(), pipe_key).c_str(), 0600) == 0);
  for (const std::string& k : {folder_key, pipe_key})
    for (int again = 0; again < 2; ++again) CHECK(c.find_or_make(k, [] { return std::string("made"); }) == "made");
  CHECK(c.find(pipe_key) == "made");  // renamed over the pipe
  CHECK(c.verify().empty());
}

TEST_CASE("two users of one folder: neither runs the other's code, both get right results, and the owner of the folder is trusted") {
  TLX_SKIP_UNLESS(geteuid() == 0, "only root can be two users");
  temporary_folder at;
  const std::string folder = at.path() + "/shared";
  fs::create_directories(folder);
  chmod(at.path().c_str(), 0755);
  chmod(folder.c_str(), 01777);
  constexpr uid_t one = 65534, two = 65533;
  const auto as = [&](uid_t user, const std::function<int(disk_cache&)>& work) {
    return in_child([&] {
      umask(0);
      if (setuid(user) != 0) return cannot;
      disk_cache c({.folder = folder, .lock_timeout_seconds = 5});
      return work(c);
    });
  };
  CHECK(as(one, [&](disk_cache& c) { return c.find_or_make(key, [] { return std::string("of one"); }) == "of one" && c.counters().failed_stores == 0 ? 0 : 1; }) == 0);
  // Its entries can be read by nobody else; one that could is not trusted.
  CHECK(as(two, [&](disk_cache& c) { return c.find_or_make(key, [] { return std::string("of two"); }) == "of two" && c.counters().hits == 0 ? 0 : 1; }) == 0);
  chmod(file_of(folder, key).c_str(), 0644);
  const auto refuses = [&](disk_cache& c) { return c.find_or_make(key, [] { return std::string("own"); }) == "own" && c.counters().foreign >= 1 && c.counters().corrupt == 0 ? 0 : 1; };
  struct stat owner {};
  REQUIRE(stat(file_of(folder, key).c_str(), &owner) == 0);
  CHECK(as(owner.st_uid == one ? two : one, refuses) == 0);
  // A folder that is `one`'s own was chosen by `two`: its entries are used.
  const std::string mine = sha256_hex("mine");
  REQUIRE(as(one, [&](disk_cache& c) { c.store(mine, "of one"); return 0; }) == 0);
  chmod(file_of(folder, mine).c_str(), 0644);
  chmod(fs::path(file_of(folder, mine)).parent_path().c_str(), 0755);
  REQUIRE(chown(folder.c_str(), one, 0) == 0);
  CHECK(as(two, [&](disk_cache& c) { return c.find(mine) == "of one" ? 0 : 1; }) == 0);
}

TEST_CASE("processes killed at any moment: what is found afterwards is right, and nobody waits for the dead") {
  temporary_folder at;
  constexpr int kernels = 4, rounds = 120;
  std::mt19937 random(7);
  for (int round = 0; round < rounds; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      disk_cache c({.folder = at.path(), .limit_bytes = 10000});  // it evicts all the time, too
      for (int i = 0;; ++i) {
        c.find_or_make(sha256_hex(std::to_string(i % kernels)), [&] { return made_for(i % kernels); });
        if (i % 7 == 0) c.clear();
      }
    }
    usleep(static_cast<useconds_t>(500 + random() % 8000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    disk_cache c({.folder = at.path(), .lock_timeout_seconds = 20});
    for (int i = 0; i < kernels; ++i)
      REQUIRE(c.find_or_make(sha256_hex(std::to_string(i)), [&] { return made_for(i); }) == made_for(i));
    REQUIRE(c.counters().lock_timeouts == 0);
    REQUIRE(c.counters().corrupt == 0);
  }
}

TEST_CASE("a process that was forked while another thread held a lock does not keep it") {
  temporary_folder at;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t maker = fork();
  if (maker == 0) {  // makes the entry in one thread, forks in another, and dies
    disk_cache c({.folder = at.path()});
    std::thread work([&] {
      c.find_or_make(key, [&]() -> std::string {
        if (fork() == 0) {
          close(ready[0]);
          close(ready[1]);
          sleep(20);
          _exit(0);
        }
        (void)!write(ready[1], "x", 1);
        kill(getpid(), SIGKILL);
        return {};
      });
    });
    work.join();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  int status = 0;
  waitpid(maker, &status, 0);
  disk_cache c({.folder = at.path(), .lock_timeout_seconds = 3});
  CHECK(c.find_or_make(key, [] { return std::string("made"); }) == "made");
  CHECK(c.counters().lock_timeouts == 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("children of a process whose other threads use the cache use it too") {
#ifdef __SANITIZE_ADDRESS__
  TLX_SKIP_UNLESS(false, "the address sanitizer's own allocator is not ready for forks between threads");
#endif
  temporary_folder at;
  disk_cache c({.folder = at.path(), .lock_timeout_seconds = 20});
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 3; ++t)
    busy.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        c.find_or_make(sha256_hex(std::to_string((i + t) % 5)), [&] { return made_for((i + t) % 5); });
        if (i % 11 == 0) c.clear();
        (void)c.counters();
      }
    });
  for (int round = 0; round < 60; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a child that hangs ends, red
      bool right = true;
      for (int i = 0; i < 5; ++i) right &= c.find_or_make(sha256_hex(std::to_string(i)), [&] { return made_for(i); }) == made_for(i);
      _exit(right && c.counters().corrupt == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(status == 0);
  }
  stop = true;
  for (std::thread& t : busy) t.join();
  CHECK(c.counters().corrupt == 0);
}
