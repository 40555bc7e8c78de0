// Which compiler this is, beyond its version number: a digest of the sources that decide about code, made by the build (source_digest.cmake).
#pragma once

namespace tlx::jit {
extern const char* const source_digest;
}
