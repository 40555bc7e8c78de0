// The one place with the version number; CMake reads it.
#pragma once

namespace tlx {
inline constexpr char version_string[] = "0.1.0";
}
