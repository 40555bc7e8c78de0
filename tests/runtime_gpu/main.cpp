// Exit code 77 means skipped: these tests need a GPU of compute capability 9.0.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tlx/runtime/gpu.hpp"

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  if (tlx::runtime::gpu_count() == 0) {
    std::puts("skipped: no GPU");
    return skipped;
  }
  const std::string target = tlx::runtime::open(0)->about().target;
  if (target != "sm_90a") {
    std::printf("skipped: the GPU is %s, the kernels are sm_90a\n", target.c_str());
    return skipped;
  }
  return doctest::Context(argc, argv).run();
}
