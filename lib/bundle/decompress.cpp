#include "bundle/codec.hpp"

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#ifdef TLX_HAS_ZSTD
#include <zstd.h>
#endif

namespace tlx::bundle {

#ifdef TLX_HAS_ZSTD

std::string decompressed(const std::string& stored, std::uint64_t bytes, const std::string& name) {
  std::string out(bytes, '\0');
  const size_t size = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) || size != bytes)
    raise(user_error({.id = "bundle-damaged", .what = cat("a part of ", name, " does not decompress to ", bytes, " bytes", ZSTD_isError(size) ? cat(": ", ZSTD_getErrorName(size)) : std::string()),
                      .because = "it was written wrongly", .fix = {"build the bundle again"}}));
  return out;
}

#else

std::string decompressed(const std::string&, std::uint64_t, const std::string& name) {
  raise(user_error({.id = "bundle-codec-missing", .what = cat("parts of ", name, " are compressed by zstd"), .because = "this tlx was built without zstd",
                    .fix = {"build tlx with -DTLX_WITH_ZSTD=ON", "build the bundle with --no-compression"}}));
}

#endif

}  // namespace tlx::bundle
