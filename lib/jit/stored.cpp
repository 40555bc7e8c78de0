#include "tlx/jit/stored.hpp"

#include <filesystem>

#include "jit/builtin_assembler.hpp"
#include "jit/protocol.hpp"
#include "jit/source_digest.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/version.hpp"

namespace tlx::jit {

namespace {

disk_cache& the_cache() {
  static disk_cache cache(cache_options_from_environment());
  return cache;
}

// The assembler by file, size and time: asking it for its version would start a process on every look-up.
std::string assembler_identity() {
  if (uses_builtin_assembler()) return assembler_version();
  const std::string path = assembler_path();
  std::error_code none;
  return cat(path, " ", std::filesystem::file_size(path, none), " ", std::filesystem::last_write_time(path, none).time_since_epoch().count());
}

std::string pack(const device::kernel& k) {
  std::string out;
  for (const std::string& part : {device::to_manifest(k), k.code.ptx, k.code.cubin}) out += cat(part.size(), "\n") + part;
  return out;
}

}  // namespace

std::optional<device::kernel> unpack_stored(const std::string& bytes) {
  size_t at = 0;
  const auto next = [&] {
    const size_t end = bytes.find('\n', at);
    const size_t length = std::stoul(bytes.substr(at, end - at));
    std::string part = bytes.substr(end + 1, length);
    at = end + 1 + length;
    return part;
  };
  try {
    device::kernel k = device::from_manifest(next());
    k.code.ptx = next();
    k.code.cubin = next();
    return k;
  } catch (const std::exception&) {  // stored by a tlx with another layout: made again
    return std::nullopt;
  }
}

std::string stored_key(const ir::kernel& traced, const compile_options& how) {
  if (!the_cache().enabled()) return {};
  cache_key key;
  key.add("ir", ir::print(traced, {.locations = how.line_info})).add("target", traced.target).add("line info", how.line_info ? "1" : "0").add("protocol", checks_protocol(how) ? "1" : "0");
  key.add("tlx", version_string).add("sources", source_digest).add("llvm", codegen::llvm_version()).add("assembler", how.assemble ? assembler_identity() : "none");
  if (const watch_options watch = how.watch ? *how.watch : watch_from_environment(); watch.on()) key.add("watch", cat(watch.seconds, watch.bounds ? " bounds" : ""));
  return key.hex();
}

stored_kernel find_or_make_stored(const std::string& key, const std::function<device::kernel()>& make) {
  if (key.empty()) return {make(), false};
  std::optional<device::kernel> made;
  const auto make_bytes = [&] {
    made = make();
    return pack(*made);
  };
  const std::string bytes = the_cache().find_or_make(key, make_bytes);
  if (!made) {
    if (std::optional<device::kernel> found = unpack_stored(bytes)) return {std::move(*found), true};
    the_cache().store(key, make_bytes());
  }
  return {std::move(*made), false};
}

cache_counters stored_counters() { return the_cache().counters(); }

}  // namespace tlx::jit
