// The compressor apart from the decompressor: a program that only reads bundles links a fifth of zstd.
#include "bundle/codec.hpp"
#ifdef TLX_HAS_ZSTD
#include <zstd.h>
#endif

namespace tlx::bundle {

#ifdef TLX_HAS_ZSTD

std::string compressed(const std::string& bytes) {
  constexpr int level = 19;  // the best that needs no large window; made once, read often
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), level);
  if (ZSTD_isError(size) || size >= bytes.size()) return {};
  out.resize(size);
  return out;
}

#else

std::string compressed(const std::string&) { return {}; }

#endif

}  // namespace tlx::bundle
