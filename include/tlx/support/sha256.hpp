// SHA-256 (FIPS 180-4), for cache keys, bundles and content checks.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tlx {

class sha256 {
 public:
  void add(std::string_view bytes);
  std::string hex();  // 64 digits; ends the digest

 private:
  void block(const unsigned char* bytes);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_{};
  size_t pending_count_ = 0;
  std::uint64_t total_ = 0;
};

inline std::string sha256_hex(std::string_view bytes) {
  sha256 digest;
  digest.add(bytes);
  return digest.hex();
}

}  // namespace tlx
