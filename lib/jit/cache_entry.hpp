// One file of the cache: magic, key, digest of the payload, payload.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tlx::jit {

bool is_cache_key(std::string_view key);
std::string make_entry(const std::string& key, std::string_view payload);
/// The payload, or nothing when the file is not a whole entry of this key.
std::optional<std::string> open_entry(const std::string& key, const std::string& file);
std::uint64_t entry_bytes(std::uint64_t payload_bytes);

struct file_bytes {
  std::optional<std::string> bytes;
  int error = 0;         // errno; 0 also when there is no such file
  bool foreign = false;  // owned by a user whose code this process should not run: not itself, root or the owner of `folder`
};
/// `use` marks the file as used now, which eviction goes by.
file_bytes read_entry_file(const std::string& path, const std::string& folder, bool use);

/// Writes a file that is not there yet, everything or errno. A file size limit is an error too, not the signal that ends a process.
int write_new_file(const std::string& path, const std::string& bytes);

}  // namespace tlx::jit
