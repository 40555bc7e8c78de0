# Tool chain for aarch64 Linux on another Debian machine: apt-get install g++-aarch64-linux-gnu
#   cmake -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=tools/cmake/aarch64.cmake -DTLX_WITH_LLVM=OFF -DTLX_WITH_ZSTD=OFF -DTLX_BUILD_TESTS=OFF
# zstd: -DTLX_WITH_ZSTD=ON with libzstd-dev:arm64 (dpkg --add-architecture arm64). Programs run under qemu-user, or on such a machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)  # headers without code of their own (Boost.Hana, nlohmann JSON) are the same
