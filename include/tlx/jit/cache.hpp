// Compiled code on disk, for many processes at once. A cache never fails a compile: what goes wrong is counted, and the work is done again.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tlx/support/sha256.hpp"

namespace tlx::jit {

/// The name of an entry: a digest of everything that went into it. Every part has a name, and lengths are hashed too, so that no two lists of
/// parts look alike. Put in: the IR text with all captured values, target with suffix, each option that changes code, versions of tlx, LLVM and the
/// assembler (of the driver, if it assembles).
class cache_key {
 public:
  cache_key& add(std::string_view name, std::string_view value);
  std::string hex() const;  // 64 digits

 private:
  sha256 digest_;
};

struct cache_options {
  std::string folder;                              // empty: no caching
  std::uint64_t limit_bytes = std::uint64_t{2} << 30;  // least recently used entries go when there is more
  double lock_timeout_seconds = 600;               // how long to wait for another process that makes the same entry
  std::function<void(const std::string&)> on_problem = {};  // called with each problem, from the thread that met it
};

/// TLX_CACHE (a folder, or "off"), else XDG_CACHE_HOME/tlx, else HOME/.cache/tlx; no caching without any of them. TLX_CACHE_LIMIT_MB sets the limit.
cache_options cache_options_from_environment();

struct cache_counters {
  std::uint64_t hits = 0, misses = 0, stores = 0;
  std::uint64_t corrupt = 0;          // entries that failed their check, removed and treated as misses
  std::uint64_t foreign = 0;          // entries of another user, who is neither root nor the owner of the folder: not read, treated as misses
  std::uint64_t failed_stores = 0;    // folder not writable, disk full
  std::uint64_t evictions = 0;
  std::uint64_t lock_timeouts = 0;    // made without waiting any longer for another process
  std::string last_problem;
};

struct cache_entry {
  std::string key;
  std::uint64_t bytes = 0;  // of the file
  std::filesystem::file_time_type used;
};

/// For any number of threads, and for the children of a fork.
class disk_cache {
 public:
  explicit disk_cache(cache_options options);  // touches no disk

  bool enabled() const { return !options_.folder.empty(); }
  std::optional<std::string> find(const std::string& key);
  void store(const std::string& key, std::string_view bytes);

  /// The entry, or what `make` returns, stored. Processes and threads that ask for one key at the same time make it once. Exceptions of `make` pass.
  std::string find_or_make(const std::string& key, const std::function<std::string()>& make);

  cache_counters counters() const;

  // Looking after the folder: none of these counts as use.
  std::vector<cache_entry> entries() const;           // least recently used first
  std::optional<std::string> peek(const std::string& key) const;
  std::vector<std::string> verify();                  // reads all, removes those that fail their check, gives their keys
  std::size_t prune(std::uint64_t limit_bytes);       // removes least recently used entries until no more bytes are left; how many
  std::size_t clear();                                // removes all entries, and what dead processes left behind; how many entries

 private:
  enum class counter { hits, misses, stores, corrupt, foreign, failed_stores, evictions, lock_timeouts, last };
  std::optional<std::string> look(const std::string& key);  // find without counting a miss
  bool publish(const std::string& key, std::string_view bytes);
  std::string path_of(const std::string& key) const;
  void evict(std::uint64_t stored_bytes);
  void sweep(std::chrono::seconds age) const;
  bool remove_entry(const cache_entry& entry);
  void count(counter which) { counts_[static_cast<std::size_t>(which)].fetch_add(1, std::memory_order_relaxed); }
  void problem(const std::string& what, counter which);

  cache_options options_;
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(counter::last)> counts_{};
  std::atomic<std::uint64_t> seen_bytes_{0}, since_seen_{0};  // what the folder held when it was last walked; stored since by this object
  std::atomic<bool> walked_{false};
  std::string last_problem_;  // under fork_guard()
};

}  // namespace tlx::jit
