// The cache of compiled kernels, seen as a folder: what is in it, whether it is sound, and removing.
#include "tlx/jit/cache.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "tlx/jit/stored.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

using tlx::jit::cache_entry;
using tlx::jit::disk_cache;

std::uintmax_t total(const std::vector<cache_entry>& all) {
  std::uintmax_t bytes = 0;
  for (const cache_entry& e : all) bytes += e.bytes;
  return bytes;
}

// An entry of another layout, or one that may not be read, has no name to show.
std::string kernel_of(const disk_cache& cache, const cache_entry& e) {
  const std::optional<std::string> bytes = cache.peek(e.key);
  const std::optional<tlx::device::kernel> k = bytes ? tlx::jit::unpack_stored(*bytes) : std::nullopt;
  return k ? tlx::cat(k->target, " ", k->name) : std::string("(cannot be read)");
}

int list(const disk_cache& cache, const tlx::jit::cache_options& options) {
  const std::vector<cache_entry> all = cache.entries();
  const auto now = std::filesystem::file_time_type::clock::now();
  for (const cache_entry& e : all) {
    const double hours = std::chrono::duration<double, std::ratio<3600>>(now - e.used).count();
    std::printf("%s %9ju bytes, used %7.1f h ago: %s\n", e.key.c_str(), static_cast<std::uintmax_t>(e.bytes), hours, kernel_of(cache, e).c_str());
  }
  std::printf("%zu entries, %ju bytes of at most %ju in %s\n", all.size(), total(all), static_cast<std::uintmax_t>(options.limit_bytes), options.folder.c_str());
  return 0;
}

int verify(disk_cache& cache) {
  const size_t before = cache.entries().size();
  const std::vector<std::string> bad = cache.verify();
  for (const std::string& key : bad) std::printf("%s was damaged and is removed\n", key.c_str());
  std::printf("%zu entries, %zu damaged\n", before, bad.size());
  return bad.empty() ? 0 : 1;
}

int removed(const disk_cache& cache, size_t count) {
  const std::vector<cache_entry> left = cache.entries();
  std::printf("%zu of %zu entries removed, %ju bytes left\n", count, count + left.size(), total(left));
  return 0;
}

int run(const arguments& given) {
  const std::string& what = given.words()[0];
  if (what != "list" && what != "verify" && what != "prune" && what != "clear") throw usage_error(tlx::cat("\"", what, "\" is none of list, verify, prune and clear"));
  const tlx::jit::cache_options options = tlx::jit::cache_options_from_environment();
  if (options.folder.empty())
    raise(tlx::user_error({.id = "cache-off", .what = "there is no cache folder", .because = "TLX_CACHE is \"off\", or neither it nor XDG_CACHE_HOME nor HOME is set",
                           .fix = {"set TLX_CACHE to a folder"}}));
  disk_cache cache(options);
  if (what == "list") return list(cache, options);
  if (what == "verify") return verify(cache);
  if (what == "clear") return removed(cache, cache.clear());
  return removed(cache, cache.prune(given.has("--limit-mb") ? static_cast<std::uint64_t>(given.number("--limit-mb", 0)) << 20 : options.limit_bytes));
}

}  // namespace

verb cache_verb() {
  return {"cache", "list|verify|prune|clear", 1, 1, "looks after the cache of compiled kernels (TLX_CACHE)",
          "list shows the least recently used first; verify reads every entry and removes damaged ones; prune removes the least recently used beyond the limit.", {{"--limit-mb", "N", "of prune: how much may stay (TLX_CACHE_LIMIT_MB, or 2048)"}}, run};
}

}  // namespace tlxc
