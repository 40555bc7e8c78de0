#include "tlx/jit/cache.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "jit/file_lock.hpp"
#include "jit/process.hpp"
#include "tlx/support/text.hpp"

using namespace tlx::jit;
using tlx::sha256, tlx::sha256_hex;
namespace fs = std::filesystem;

namespace {

const std::string key = sha256_hex("a key"), other_key = sha256_hex("another");

std::string file_of(const std::string& folder, const std::string& k) { return folder + "/" + k.substr(0, 2) + "/" + k.substr(2); }

void overwrite(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }

}  // namespace

TEST_CASE("SHA-256 gives the published digests, in one piece or many") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  for (size_t n : {55u, 56u, 63u, 64u, 65u, 119u, 128u}) {
    const std::string text(n, 'x');
    sha256 pieces;
    for (char c : text) pieces.add({&c, 1});
    CHECK(pieces.hex() == sha256_hex(text));
  }
}

TEST_CASE("a key depends on every part, on names, and on where one part ends") {
  const auto k = [](std::string_view a, std::string_view b) { return cache_key().add("x", a).add("y", b).hex(); };
  CHECK(k("123", "sm_90") != k("1234", "sm_90"));
  CHECK(k("123", "sm_90") != k("123", "sm_90a"));
  CHECK(k("ab", "c") != k("a", "bc"));
  CHECK(cache_key().add("x", "1").hex() != cache_key().add("y", "1").hex());
  CHECK(k("1", "2") == k("1", "2"));
}

TEST_CASE("what is stored is found, by this cache and the next one") {
  temporary_folder at;
  const std::string bytes("binary \0 bytes\n", 15);
  disk_cache first({.folder = at.path() + "/deep/er"});
  CHECK_FALSE(first.find(key));
  first.store(key, bytes);
  CHECK(first.find(key) == bytes);
  disk_cache second({.folder = at.path() + "/deep/er"});
  CHECK(second.find(key) == bytes);
  CHECK_FALSE(second.find(other_key));
  CHECK(second.counters().hits == 1);
  CHECK(second.counters().misses == 1);
  second.store(key, "");
  CHECK(first.find(key) == "");
}

TEST_CASE("an entry cut at any length is a miss, is removed and is counted") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  c.store(key, "some payload of a few bytes");
  const std::string path = file_of(at.path(), key), whole = tlx::read_file(path);
  for (size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    overwrite(path, whole.substr(0, n));
    CHECK_FALSE(c.find(key));
    CHECK_FALSE(fs::exists(path));
  }
  CHECK(c.counters().corrupt == whole.size());
  CHECK(c.counters().last_problem.find("fails its check") != std::string::npos);
}

TEST_CASE("an entry with any bit flipped is a miss") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  c.store(key, "payload");
  const std::string path = file_of(at.path(), key), whole = tlx::read_file(path);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    CAPTURE(bit);
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    overwrite(path, changed);
    CHECK_FALSE(c.find(key));
  }
  overwrite(path, whole + "x");
  CHECK_FALSE(c.find(key));
}

TEST_CASE("an entry under another key's name is not that key's entry") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  c.store(key, "payload");
  fs::create_directories(fs::path(file_of(at.path(), other_key)).parent_path());
  fs::copy_file(file_of(at.path(), key), file_of(at.path(), other_key));
  CHECK_FALSE(c.find(other_key));
  CHECK(c.find(key) == "payload");
}

TEST_CASE("a folder that cannot be used leaves a cache that makes everything and says so") {
  temporary_folder at;
  overwrite(at.path() + "/file", "in the way");
  int told = 0;
  disk_cache c({.folder = at.path() + "/file/cache", .on_problem = [&](const std::string&) { ++told; }});
  int made = 0;
  for (int i = 0; i < 2; ++i) CHECK(c.find_or_make(key, [&] { ++made; return std::string("code"); }) == "code");
  CHECK(made == 2);
  CHECK(c.counters().failed_stores >= 2);
  CHECK(static_cast<std::uint64_t>(told) == c.counters().failed_stores);
  CHECK(c.counters().last_problem.find("cannot") != std::string::npos);
  CHECK_FALSE(c.find(key));
}

TEST_CASE("a disk that fills up while an entry is written leaves no half entry behind") {
  temporary_folder at;
  const pid_t child = fork();
  if (child == 0) {  // a file size limit fails a write half-way, as a full disk does
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &small);
    disk_cache c({.folder = at.path()});
    const bool made = c.find_or_make(key, [] { return std::string(100000, 'x'); }).size() == 100000;
    const bool counted = c.counters().failed_stores == 1 && c.counters().last_problem.find("cannot write") != std::string::npos;
    _exit(made && counted && !c.find(key) && c.counters().corrupt == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(at.path() + "/" + key.substr(0, 2))) files += entry.is_regular_file() ? 1 : 0;
  CHECK(files == 0);
}

TEST_CASE("without a folder nothing is cached and nothing is a problem") {
  disk_cache c({});
  CHECK_FALSE(c.enabled());
  int made = 0;
  for (int i = 0; i < 2; ++i) c.find_or_make(key, [&] { ++made; return std::string(); });
  CHECK(made == 2);
  CHECK(c.counters().failed_stores == 0);
}

TEST_CASE("a key that is no digest never becomes a path") {
  temporary_folder at;
  disk_cache c({.folder = at.path() + "/c"});
  c.store("../../escaped", "x");
  CHECK_FALSE(c.find("../../escaped"));
  CHECK(c.find_or_make("", [] { return std::string("made"); }) == "made");
  CHECK_FALSE(fs::exists(at.path() + "/escaped"));
}

TEST_CASE("the environment chooses the folder: TLX_CACHE, then XDG_CACHE_HOME, then HOME") {
  const auto with = [](const char* tlx, const char* xdg, const char* home) {
    const auto set = [](const char* name, const char* value) { value ? setenv(name, value, 1) : unsetenv(name); };
    const std::string before = std::getenv("HOME") ? std::getenv("HOME") : "";
    set("TLX_CACHE", tlx);
    set("XDG_CACHE_HOME", xdg);
    set("HOME", home);
    const std::string folder = cache_options_from_environment().folder;
    set("HOME", before.c_str());
    unsetenv("TLX_CACHE");
    unsetenv("XDG_CACHE_HOME");
    return folder;
  };
  CHECK(with("/a", "/b", "/c") == "/a");
  CHECK(with(nullptr, "/b", "/c") == "/b/tlx");
  CHECK(with(nullptr, nullptr, "/c") == "/c/.cache/tlx");
  CHECK(with(nullptr, nullptr, nullptr).empty());
  CHECK(with("off", "/b", "/c").empty());
}

TEST_CASE("the least recently used entries go when the limit is passed") {
  temporary_folder at;
  disk_cache c({.folder = at.path(), .limit_bytes = 5000});
  std::vector<std::string> keys;
  for (int i = 0; i < 5; ++i) {
    keys.push_back(sha256_hex(std::to_string(i)));
    if (i < 4) c.store(keys.back(), std::string(1000, 'x'));
  }
  CHECK(c.counters().evictions == 0);
  for (int i = 0; i < 4; ++i) fs::last_write_time(file_of(at.path(), keys[i]), fs::file_time_type::clock::now() - std::chrono::minutes(10 - i));
  CHECK(c.find(keys[0]));  // used now, so no longer the oldest
  c.store(keys[4], std::string(1000, 'x'));
  CHECK(c.counters().evictions == 2);
  CHECK(c.find(keys[0]));
  CHECK_FALSE(c.find(keys[1]));
  CHECK_FALSE(c.find(keys[2]));
  CHECK(c.find(keys[3]));
  CHECK(c.find(keys[4]));
}

TEST_CASE("temporary files of dead processes are swept up, young ones are left alone") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  c.store(key, "x");
  const std::string old_one = file_of(at.path(), key) + ".1.0.tmp", young = file_of(at.path(), key) + ".1.1.tmp";
  overwrite(old_one, "half");
  overwrite(young, "half");
  fs::last_write_time(old_one, fs::file_time_type::clock::now() - std::chrono::hours(2));
  disk_cache next({.folder = at.path()});
  next.store(other_key, "y");
  CHECK_FALSE(fs::exists(old_one));
  CHECK(fs::exists(young));
  next.clear();
  CHECK_FALSE(fs::exists(young));
}

TEST_CASE("a thousand stores walk the folder a few times, and the limit holds all the same") {
  temporary_folder at;
  disk_cache c({.folder = at.path(), .limit_bytes = 100000});
  for (int i = 0; i < 300; ++i) c.store(sha256_hex(std::to_string(i)), std::string(1000, 'x'));
  std::uint64_t bytes = 0;
  for (const cache_entry& e : c.entries()) bytes += e.bytes;
  CHECK(bytes <= 100000);
  CHECK(bytes > 80000);
  CHECK(c.counters().evictions > 190);
  CHECK(c.find(sha256_hex("299")));
}

TEST_CASE("entries are listed in order of use, and looking at them is not using them") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  c.store(key, "first");
  c.store(other_key, "second one");
  fs::last_write_time(file_of(at.path(), key), fs::file_time_type::clock::now() - std::chrono::hours(5));
  CHECK(c.peek(key) == "first");
  CHECK(c.verify().empty());
  const std::vector<cache_entry> all = c.entries();
  REQUIRE(all.size() == 2);
  CHECK(all[0].key == key);
  CHECK(all[1].key == other_key);
  CHECK(all[1].bytes == all[0].bytes + 5);
  CHECK(c.counters().hits == 0);
  CHECK(c.prune(all[1].bytes) == 1);
  CHECK_FALSE(c.peek(key));
  CHECK(c.peek(other_key) == "second one");
  CHECK(c.clear() == 1);
  CHECK(c.entries().empty());
}

TEST_CASE("verifying removes what is damaged and names it") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  c.store(key, "sound");
  c.store(other_key, "soon damaged");
  overwrite(file_of(at.path(), other_key), "damaged");
  CHECK(c.verify() == std::vector<std::string>{other_key});
  CHECK(c.verify().empty());
  CHECK(c.peek(key) == "sound");
}

TEST_CASE("locks leave no files behind") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  for (int i = 0; i < 10; ++i) c.find_or_make(sha256_hex(std::to_string(i)), [] { return std::string("x"); });
  int files = 0;
  for (const auto& lock : fs::directory_iterator(at.path() + "/locks")) files += lock.path().filename() == "evict" ? 0 : 1;
  CHECK(files == 0);
}

TEST_CASE("entries that are made at the same time do not wait for each other") {
  temporary_folder at;
  disk_cache c({.folder = at.path(), .lock_timeout_seconds = 5});
  // Two keys of one sub-folder: a lock a key, not a lock a folder.
  std::string near = key;
  near[63] = near[63] == '0' ? '1' : '0';
  CHECK(c.find_or_make(key, [&] { return c.find_or_make(near, [] { return std::string("inner"); }) + " and outer"; }) == "inner and outer");
  CHECK(c.counters().lock_timeouts == 0);
}

TEST_CASE("C69: several processes that fill one cold cache all succeed and make each entry once") {
  temporary_folder at;
  const std::string log = at.path() + "/made";
  constexpr int processes = 8, kernels = 8;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      disk_cache c({.folder = at.path() + "/cache"});
      bool right = true;
      for (int i = 0; i < kernels; ++i) {
        const int kernel = (i + p) % kernels;
        const std::string expected(10000 + kernel, static_cast<char>('a' + kernel));
        right &= c.find_or_make(sha256_hex(std::to_string(kernel)), [&] {
          std::ofstream(log, std::ios::app) << "x";
          usleep(2000);
          return expected;
        }) == expected;
      }
      _exit(right && c.counters().corrupt == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(fs::file_size(log) == kernels);
}

TEST_CASE("threads of one process make an entry once") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      c.find_or_make(key, [&] {
        ++made;
        usleep(5000);
        return std::string("x");
      });
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(made == 1);
}

TEST_CASE("a process killed while it makes an entry blocks nobody") {
  temporary_folder at;
  const pid_t child = fork();
  if (child == 0) {
    disk_cache c({.folder = at.path()});
    c.find_or_make(key, []() -> std::string { _exit(0); });
  }
  int status = 0;
  waitpid(child, &status, 0);
  disk_cache c({.folder = at.path(), .lock_timeout_seconds = 5});
  CHECK(c.find_or_make(key, [] { return std::string("x"); }) == "x");
  CHECK(c.counters().lock_timeouts == 0);
}

TEST_CASE("a maker that never ends delays others by the lock's time limit only") {
  temporary_folder at;
  disk_cache c({.folder = at.path(), .lock_timeout_seconds = 0.05});
  fs::create_directories(at.path() + "/locks");
  const file_lock busy(at.path() + "/locks/" + key, 0, file_lock::after::remove);
  REQUIRE(busy.held());
  CHECK(c.find_or_make(key, [] { return std::string("x"); }) == "x");
  CHECK(c.counters().lock_timeouts == 1);
}

TEST_CASE("what the maker throws passes through and stores nothing") {
  temporary_folder at;
  disk_cache c({.folder = at.path()});
  CHECK_THROWS_AS(c.find_or_make(key, []() -> std::string { throw 5; }), int);
  CHECK(c.find_or_make(key, [] { return std::string("later"); }) == "later");
}
