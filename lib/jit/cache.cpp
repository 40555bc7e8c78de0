// Layout of the folder: ab/cdef... one file an entry (first two digits of the key make the sub-folder), locks/KEY while an entry is made, locks/evict.
// An entry appears by rename, so a reader sees all of it or nothing.
#include "tlx/jit/cache.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "jit/cache_entry.hpp"
#include "jit/file_lock.hpp"
#include "tlx/support/text.hpp"

namespace tlx::jit {

namespace fs = std::filesystem;

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

disk_cache::disk_cache(cache_options options) : options_(std::move(options)) {}

std::string disk_cache::path_of(const std::string& key) const { return options_.folder + "/" + key.substr(0, 2) + "/" + key.substr(2); }

void disk_cache::problem(const std::string& what, counter which) {
  count(which);
  {
    std::lock_guard lock(fork_guard());
    last_problem_ = what;
  }
  if (options_.on_problem) options_.on_problem(what);
}

cache_counters disk_cache::counters() const {
  const auto get = [this](counter which) { return counts_[static_cast<std::size_t>(which)].load(std::memory_order_relaxed); };
  cache_counters out{.hits = get(counter::hits), .misses = get(counter::misses), .stores = get(counter::stores), .corrupt = get(counter::corrupt), .foreign = get(counter::foreign),
                     .failed_stores = get(counter::failed_stores), .evictions = get(counter::evictions), .lock_timeouts = get(counter::lock_timeouts), .last_problem = {}};
  std::lock_guard lock(fork_guard());
  out.last_problem = last_problem_;
  return out;
}

std::optional<std::string> disk_cache::look(const std::string& key) {
  if (!enabled() || !is_cache_key(key)) return std::nullopt;
  const std::string path = path_of(key);
  const file_bytes file = read_entry_file(path, options_.folder, true);
  if (file.foreign) problem(cat("the entry ", path, " belongs to another user and is not used"), counter::foreign);
  else if (file.error) problem(cat("cannot read ", path, ": ", std::strerror(file.error)), counter::corrupt);
  if (!file.bytes) return std::nullopt;
  std::optional<std::string> payload = open_entry(key, *file.bytes);
  if (!payload) {
    unlink(path.c_str());
    problem(cat("the entry ", path, " of ", file.bytes->size(), " bytes fails its check and was removed"), counter::corrupt);
    return std::nullopt;
  }
  count(counter::hits);
  return payload;
}

std::optional<std::string> disk_cache::find(const std::string& key) {
  std::optional<std::string> out = look(key);
  if (!out) count(counter::misses);
  return out;
}

bool disk_cache::publish(const std::string& key, std::string_view bytes) {
  static std::atomic<unsigned> serial{0};
  const std::string path = path_of(key);
  // A name that no other process makes up, also not one with our number on another machine that shares the folder.
  const std::string temporary = cat(path, ".", getpid(), ".", serial++, ".", std::chrono::steady_clock::now().time_since_epoch().count(), ".tmp");
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  int error = failed ? failed.value() : write_new_file(temporary, make_entry(key, bytes));
  if (!error && std::rename(temporary.c_str(), path.c_str()) != 0) {
    // Over a network a rename can be done and still be answered with an error, or somebody else can have been first: what counts is what is there.
    error = errno;
    const file_bytes there = read_entry_file(path, options_.folder, false);
    if (there.bytes && open_entry(key, *there.bytes) == bytes) error = 0;
  }
  if (error) problem(cat("cannot write ", path, ": ", std::strerror(error)), counter::failed_stores);
  if (error || access(temporary.c_str(), F_OK) == 0) unlink(temporary.c_str());
  return error == 0;
}

void disk_cache::store(const std::string& key, std::string_view bytes) {
  if (!enabled() || !is_cache_key(key) || !publish(key, bytes)) return;
  count(counter::stores);
  evict(entry_bytes(bytes.size()));
}

std::string disk_cache::find_or_make(const std::string& key, const std::function<std::string()>& make) {
  if (std::optional<std::string> ready = look(key)) return *ready;
  if (!enabled() || !is_cache_key(key)) return make();
  std::error_code failed;
  fs::create_directories(options_.folder + "/locks", failed);  // where it cannot be made, everybody makes for himself
  const file_lock lock(options_.folder + "/locks/" + key, options_.lock_timeout_seconds, file_lock::after::remove);
  if (lock.usable() && !lock.held()) problem("waited too long for another process that makes " + key, counter::lock_timeouts);
  if (lock.usable()) {
    if (std::optional<std::string> ready = look(key)) return *ready;  // the one before us made it
  }
  count(counter::misses);
  std::string made = make();
  store(key, made);
  return made;
}

}  // namespace tlx::jit
