// The cache as a folder: what is in it, how it stays small, and what is swept up. Other processes may add and remove files all the while.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "jit/cache_entry.hpp"
#include "jit/file_lock.hpp"
#include "tlx/jit/cache.hpp"

namespace tlx::jit {

namespace fs = std::filesystem;

namespace {

constexpr auto abandoned = std::chrono::hours(1);  // a temporary file or lock this old belongs to a process that died

std::uint64_t total(const std::vector<cache_entry>& all) {
  std::uint64_t bytes = 0;
  for (const cache_entry& e : all) bytes += e.bytes;
  return bytes;
}

template <class Visit>
void for_each_file(const std::string& folder, Visit&& visit) {
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code gone;
    const bool file = at->is_regular_file(gone);
    const std::uint64_t bytes = file ? at->file_size(gone) : 0;
    const fs::file_time_type used = file ? at->last_write_time(gone) : fs::file_time_type();
    if (file && !gone) visit(at->path(), bytes, used);
  }
}

}  // namespace

std::vector<cache_entry> disk_cache::entries() const {
  std::vector<cache_entry> all;
  if (!enabled()) return all;
  for_each_file(options_.folder, [&](const fs::path& file, std::uint64_t bytes, fs::file_time_type used) {
    const std::string key = file.parent_path().filename().string() + file.filename().string();
    if (is_cache_key(key)) all.push_back({key, bytes, used});
  });
  std::sort(all.begin(), all.end(), [](const cache_entry& a, const cache_entry& b) { return a.used != b.used ? a.used < b.used : a.key < b.key; });
  return all;
}

std::optional<std::string> disk_cache::peek(const std::string& key) const {
  if (!enabled() || !is_cache_key(key)) return std::nullopt;
  const file_bytes file = read_entry_file(path_of(key), options_.folder, false);
  return file.bytes ? open_entry(key, *file.bytes) : std::nullopt;
}

std::vector<std::string> disk_cache::verify() {
  std::vector<std::string> bad;
  for (const cache_entry& e : entries()) {
    const file_bytes file = read_entry_file(path_of(e.key), options_.folder, false);
    const bool gone = !file.bytes && !file.error && !file.foreign;
    if (gone || file.foreign || (file.bytes && open_entry(e.key, *file.bytes))) continue;
    bad.push_back(e.key);
    unlink(path_of(e.key).c_str());
    count(counter::corrupt);
  }
  return bad;
}

bool disk_cache::remove_entry(const cache_entry& entry) { return unlink(path_of(entry.key).c_str()) == 0; }

std::size_t disk_cache::prune(std::uint64_t limit_bytes) {
  const std::vector<cache_entry> all = entries();
  std::uint64_t left = total(all);
  std::size_t removed = 0;
  for (const cache_entry& e : all) {
    if (left <= limit_bytes) break;
    removed += remove_entry(e) ? 1 : 0;
    left -= e.bytes;
  }
  return removed;
}

std::size_t disk_cache::clear() {
  const std::size_t removed = prune(0);
  sweep(std::chrono::seconds(0));
  return removed;
}

// Temporary files are old when nobody writes them any more; a lock is left behind when nobody holds it.
void disk_cache::sweep(std::chrono::seconds age) const {
  const auto now = fs::file_time_type::clock::now();
  for_each_file(options_.folder, [&](const fs::path& file, std::uint64_t, fs::file_time_type used) {
    if (now - used < age) return;
    std::error_code gone;
    if (file.extension() == ".tmp") fs::remove(file, gone);
    else if (file.parent_path().filename() == "locks") const file_lock lock(file.string(), 0, file_lock::after::remove);
  });
}

// Walks the folder when it may be too full: never at every store, or a thousand stores would cost a million looks at files.
void disk_cache::evict(std::uint64_t stored_bytes) {
  const std::uint64_t since = since_seen_.fetch_add(stored_bytes) + stored_bytes;
  const bool known_to_fit = walked_.load() && seen_bytes_.load() + since <= options_.limit_bytes && since <= options_.limit_bytes / 16;
  if (known_to_fit) return;
  const file_lock lock(options_.folder + "/locks/evict", 0, file_lock::after::keep);
  if (lock.usable() && !lock.held()) return;  // somebody is at it
  sweep(abandoned);
  const std::vector<cache_entry> all = entries();
  std::uint64_t left = total(all);
  // Down to nine tenths, so that the next store does not evict again. The newest entry stays whatever its size.
  if (left > options_.limit_bytes) {
    const std::uint64_t goal = options_.limit_bytes / 10 * 9;
    for (size_t i = 0; i + 1 < all.size() && left > goal; ++i) {
      if (remove_entry(all[i])) count(counter::evictions);
      left -= all[i].bytes;
    }
  }
  seen_bytes_ = left;
  since_seen_ = 0;
  walked_ = true;
}

}  // namespace tlx::jit
