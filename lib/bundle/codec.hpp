// zstd, or nothing where it was not built in (CMake option TLX_WITH_ZSTD).
#pragma once
#include <cstdint>
#include <string>

namespace tlx::bundle {

/// Smaller bytes, or "" when there are none, or no zstd.
std::string compressed(const std::string& bytes);
/// Raises user_error [bundle-damaged] when `stored` is not a frame of exactly `bytes`, [bundle-codec-missing] without zstd.
std::string decompressed(const std::string& stored, std::uint64_t bytes, const std::string& name);

}  // namespace tlx::bundle
