// Layout of the folder: ab/cdef... one file an entry (first two digits of the key make the sub-folder), locks/ab one lock for each sub-folder,
// locks/evict. An entry is: magic, key, digest of the payload, payload; it appears by rename, so a reader sees all of it or nothing.
#include "tlx/jit/cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "jit/file_lock.hpp"
#include "tlx/support/text.hpp"

namespace tlx::jit {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view magic = "tlx cache 1\n";
constexpr size_t digits = 64;
constexpr size_t head_bytes = magic.size() + digits + 1 + digits + 1;
constexpr auto abandoned = std::chrono::hours(1);  // a temporary file this old belongs to a process that died

bool is_key(const std::string& key) {
  return key.size() == digits && key.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string make_entry(const std::string& key, std::string_view payload) {
  std::string out;
  out.reserve(head_bytes + payload.size());
  out.append(magic).append(key).append("\n").append(sha256_hex(payload)).append("\n").append(payload);
  return out;
}

std::optional<std::string> open_entry(const std::string& key, const std::string& file) {
  if (file.size() < head_bytes || file.compare(0, magic.size(), magic) != 0) return std::nullopt;
  if (file.compare(magic.size(), digits, key) != 0 || file[magic.size() + digits] != '\n' || file[head_bytes - 1] != '\n') return std::nullopt;
  std::string payload = file.substr(head_bytes);
  if (file.compare(magic.size() + digits + 1, digits, sha256_hex(payload)) != 0) return std::nullopt;
  return payload;
}

// The file's bytes; nothing if it is not there. `error` is set for other failures.
std::optional<std::string> slurp(const std::string& path, int& error) {
  error = 0;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    error = errno == ENOENT || errno == ENOTDIR ? 0 : errno;
    return std::nullopt;
  }
  std::string out;
  char piece[65536];
  for (;;) {
    const ssize_t got = read(file, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    out.append(piece, static_cast<size_t>(got));
  }
  if (!error) futimens(file, nullptr);  // used now: what eviction goes by. A read-only folder does not mind.
  close(file);
  if (error) return std::nullopt;
  return out;
}

// Writes everything or returns errno.
int spill(const std::string& path, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  size_t done = 0;
  int error = 0;
  while (done < bytes.size() && !error) {
    const ssize_t put = write(file, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno != EINTR) error = errno;
    if (put > 0) done += static_cast<size_t>(put);
  }
  if (close(file) != 0 && !error) error = errno;
  return error;
}

}  // namespace

cache_key& cache_key::add(std::string_view name, std::string_view value) {
  digest_.add(cat(name.size(), ":", value.size(), ":"));
  digest_.add(name);
  digest_.add(value);
  return *this;
}

std::string cache_key::hex() const {
  sha256 copy = digest_;
  return copy.hex();
}

cache_options cache_options_from_environment() {
  const auto get = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  cache_options out;
  if (const std::string chosen = get("TLX_CACHE"); !chosen.empty()) {
    if (chosen != "off") out.folder = chosen;
  } else if (const std::string shared = get("XDG_CACHE_HOME"); !shared.empty()) {
    out.folder = shared + "/tlx";
  } else if (const std::string home = get("HOME"); !home.empty()) {
    out.folder = home + "/.cache/tlx";
  }
  if (const std::string limit = get("TLX_CACHE_LIMIT_MB"); !limit.empty()) {
    char* end = nullptr;
    const unsigned long long megabytes = std::strtoull(limit.c_str(), &end, 10);
    if (end && !*end && megabytes < (1ull << 40)) out.limit_bytes = megabytes << 20;
  }
  return out;
}

file_lock::file_lock(const std::string& path, double seconds) : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (file_ < 0) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    held_ = flock(file_, LOCK_EX | LOCK_NB) == 0;
    if (held_ || (errno != EWOULDBLOCK && errno != EINTR) || std::chrono::steady_clock::now() >= end) return;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

file_lock::~file_lock() {
  if (file_ >= 0) close(file_);
}

disk_cache::disk_cache(cache_options options) : options_(std::move(options)) {
  if (!enabled()) return;
  std::error_code failed;
  fs::create_directories(options_.folder + "/locks", failed);
  if (failed) problem(cat("cannot use the cache folder ", options_.folder, ": ", failed.message()), &cache_counters::failed_stores);
}

std::string disk_cache::path_of(const std::string& key) const { return options_.folder + "/" + key.substr(0, 2) + "/" + key.substr(2); }

void disk_cache::problem(const std::string& what, std::uint64_t cache_counters::*counter) {
  {
    std::lock_guard lock(guard_);
    ++(counters_.*counter);
    counters_.last_problem = what;
  }
  if (options_.on_problem) options_.on_problem(what);
}

cache_counters disk_cache::counters() const {
  std::lock_guard lock(guard_);
  return counters_;
}

std::optional<std::string> disk_cache::look(const std::string& key) {
  if (!enabled() || !is_key(key)) return std::nullopt;
  const std::string path = path_of(key);
  int error = 0;
  const std::optional<std::string> file = slurp(path, error);
  if (!file) {
    if (error) problem(cat("cannot read ", path, ": ", std::strerror(error)), &cache_counters::corrupt);
    return std::nullopt;
  }
  std::optional<std::string> payload = open_entry(key, *file);
  if (!payload) {
    unlink(path.c_str());
    problem(cat("the entry ", path, " of ", file->size(), " bytes fails its check and was removed"), &cache_counters::corrupt);
    return std::nullopt;
  }
  std::lock_guard lock(guard_);
  ++counters_.hits;
  return payload;
}

std::optional<std::string> disk_cache::find(const std::string& key) {
  std::optional<std::string> out = look(key);
  if (!out) {
    std::lock_guard lock(guard_);
    ++counters_.misses;
  }
  return out;
}

void disk_cache::store(const std::string& key, std::string_view bytes) {
  if (!enabled() || !is_key(key)) return;
  static std::atomic<unsigned> serial{0};
  const std::string path = path_of(key);
  const std::string temporary = cat(path, ".", getpid(), ".", serial++, ".tmp");
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  int error = failed ? failed.value() : spill(temporary, make_entry(key, bytes));
  if (!error && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error) {
    unlink(temporary.c_str());
    problem(cat("cannot write ", path, ": ", std::strerror(error)), &cache_counters::failed_stores);
    return;
  }
  {
    std::lock_guard lock(guard_);
    ++counters_.stores;
  }
  evict();
}

std::string disk_cache::find_or_make(const std::string& key, const std::function<std::string()>& make) {
  if (std::optional<std::string> ready = look(key)) return *ready;
  if (!enabled() || !is_key(key)) return make();
  // Entries of one sub-folder share a lock: compiles that have nothing to do with each other rarely meet, and lock files stay few.
  const file_lock lock(options_.folder + "/locks/" + key.substr(0, 2), options_.lock_timeout_seconds);
  if (lock.usable() && !lock.held()) problem("waited too long for another process that makes " + key, &cache_counters::lock_timeouts);
  if (lock.held()) {
    if (std::optional<std::string> ready = look(key)) return *ready;  // the one before us made it
  }
  {
    std::lock_guard count(guard_);
    ++counters_.misses;
  }
  std::string made = make();
  store(key, made);
  return made;
}

void disk_cache::evict() {
  struct found {
    fs::path path;
    std::uint64_t bytes;
    fs::file_time_type used;
  };
  std::vector<found> entries;
  std::uint64_t total = 0;
  std::error_code failed;
  const auto now = fs::file_time_type::clock::now();
  for (fs::recursive_directory_iterator at(options_.folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code gone;  // another process may remove what we look at
    if (at.depth() == 0 && at->path().filename() == "locks") at.disable_recursion_pending();
    if (!at->is_regular_file(gone) || gone) continue;
    const found entry{at->path(), at->file_size(gone), at->last_write_time(gone)};
    if (gone) continue;
    if (entry.path.extension() == ".tmp") {
      if (now - entry.used > abandoned) fs::remove(entry.path, gone);
      continue;
    }
    total += entry.bytes;
    entries.push_back(entry);
  }
  if (total <= options_.limit_bytes) return;
  const file_lock lock(options_.folder + "/locks/evict", 0);
  if (!lock.held()) return;  // somebody is at it
  std::sort(entries.begin(), entries.end(), [](const found& a, const found& b) { return a.used < b.used; });
  // Down to nine tenths, so that the next store does not evict again. The newest entry stays whatever its size.
  const std::uint64_t goal = options_.limit_bytes / 10 * 9;
  for (size_t i = 0; i + 1 < entries.size() && total > goal; ++i) {
    std::error_code gone;
    if (fs::remove(entries[i].path, gone)) {
      std::lock_guard count(guard_);
      ++counters_.evictions;
    }
    total -= entries[i].bytes;
  }
}

}  // namespace tlx::jit
