// The cache of compiled kernels, seen as a folder: what is in it, whether it is sound, and removing.
#include "tlx/jit/cache.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

namespace fs = std::filesystem;

struct entry {
  fs::path file;
  std::string key;
  std::uintmax_t bytes = 0;
  fs::file_time_type used;
};

// Files ab/cdef...: two and 62 digits of the key (lib/jit/cache.cpp). Least recently used first.
std::vector<entry> entries_of(const std::string& folder) {
  std::vector<entry> all;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string key = at->path().parent_path().filename().string() + at->path().filename().string();
    if (!at->is_regular_file() || key.size() != 64 || key.find_first_not_of("0123456789abcdef") != std::string::npos) continue;
    all.push_back({at->path(), key, at->file_size(), at->last_write_time()});
  }
  std::sort(all.begin(), all.end(), [](const entry& a, const entry& b) { return a.used != b.used ? a.used < b.used : a.key < b.key; });
  return all;
}

std::uintmax_t total(const std::vector<entry>& all) {
  std::uintmax_t bytes = 0;
  for (const entry& e : all) bytes += e.bytes;
  return bytes;
}

int list(const tlx::jit::cache_options& options, const std::vector<entry>& all) {
  for (const entry& e : all) std::printf("%s %9ju bytes\n", e.key.c_str(), e.bytes);
  std::printf("%zu entries, %ju bytes of at most %ju in %s\n", all.size(), total(all), static_cast<std::uintmax_t>(options.limit_bytes), options.folder.c_str());
  return 0;
}

int verify(const tlx::jit::cache_options& options, const std::vector<entry>& all) {
  tlx::jit::disk_cache cache(options);
  for (const entry& e : all) {
    const auto before = cache.counters().corrupt;
    const bool sound = cache.find(e.key) && cache.counters().corrupt == before;
    std::error_code gone;
    if (sound) fs::last_write_time(e.file, e.used, gone);  // looking is not using
    else std::printf("%s was damaged and is removed\n", e.key.c_str());
  }
  const auto bad = cache.counters().corrupt;
  std::printf("%zu entries, %ju damaged\n", all.size(), static_cast<std::uintmax_t>(bad));
  return bad ? 1 : 0;
}

int shrink(const std::vector<entry>& all, std::uintmax_t limit) {
  std::uintmax_t left = total(all);
  size_t removed = 0;
  for (const entry& e : all) {
    if (left <= limit) break;
    std::error_code failed;
    if (fs::remove(e.file, failed)) {
      left -= e.bytes;
      ++removed;
    }
  }
  std::printf("%zu of %zu entries removed, %ju bytes left\n", removed, all.size(), left);
  return 0;
}

int run(const arguments& given) {
  const std::string& what = given.words()[0];
  if (what != "list" && what != "verify" && what != "prune" && what != "clear") throw usage_error(tlx::cat("\"", what, "\" is none of list, verify, prune and clear"));
  const tlx::jit::cache_options options = tlx::jit::cache_options_from_environment();
  if (options.folder.empty())
    raise(tlx::user_error({.id = "cache-off", .what = "there is no cache folder", .because = "TLX_CACHE is \"off\", or neither it nor XDG_CACHE_HOME nor HOME is set",
                           .fix = {"set TLX_CACHE to a folder"}}));
  const std::vector<entry> all = entries_of(options.folder);
  if (what == "list") return list(options, all);
  if (what == "verify") return verify(options, all);
  if (what == "prune") return shrink(all, given.has("--limit-mb") ? static_cast<std::uintmax_t>(given.number("--limit-mb", 0)) << 20 : options.limit_bytes);
  return shrink(all, 0);
}

}  // namespace

verb cache_verb() {
  return {"cache", "list|verify|prune|clear", 1, 1, "looks after the cache of compiled kernels (TLX_CACHE)",
          "prune removes the least recently used entries beyond the limit.", {{"--limit-mb", "N", "of prune: how much may stay (TLX_CACHE_LIMIT_MB, or 2048)"}}, run};
}

}  // namespace tlxc
