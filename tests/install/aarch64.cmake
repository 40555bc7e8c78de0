# The runtime without LLVM, cross-built for aarch64 hosts, with a bundle linked in; run under qemu-user where that is installed.
include("${CMAKE_CURRENT_LIST_DIR}/run.cmake")
set(folder "${scratch}/aarch64")
file(REMOVE_RECURSE "${folder}/bundle")
file(MAKE_DIRECTORY "${folder}/bundle")
run(${CMAKE_COMMAND} -G "${generator}" -S "${source}" -B "${folder}" "-DCMAKE_TOOLCHAIN_FILE=${source}/tools/cmake/aarch64.cmake" -DTLX_WITH_LLVM=OFF -DTLX_WITH_ZSTD=OFF
    -DTLX_BUILD_TESTS=OFF -DTLX_BUILD_BENCH=OFF -DTLX_BUILD_EXAMPLES=OFF -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}"
    "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -Wno-restrict -Wno-missing-field-initializers")
run(${CMAKE_COMMAND} --build "${folder}" -j2 --target tlx_runtime_shared)
run("${tlxc}" build --kernels "^block_attention_bf16_d64$" --arch sm_90a,sm_100a --ptx-only --no-compression --object "${folder}/bundle/kernels.o" --machine aarch64)
run(aarch64-linux-gnu-gcc -std=c11 -Wall -Wextra -Werror "-I${source}/include" "${CMAKE_CURRENT_LIST_DIR}/aarch64.c" "${folder}/bundle/kernels.o" "-L${folder}/lib/c" -ltlx_runtime
    "-Wl,-rpath,${folder}/lib/c" -o "${folder}/bundle/program")
find_program(qemu NAMES qemu-aarch64 qemu-aarch64-static)
if(NOT qemu)
  message(STATUS "cross-built; no qemu-user to run it")
  return()
endif()
run("${qemu}" -L /usr/aarch64-linux-gnu "${folder}/bundle/program")
expect("2 entries, first block_attention_bf16_d64 for sm_100a")
expect("and no driver")
message(STATUS "cross-built and run under qemu")
