// Finding the driver. One case, because a process loads one driver for good.
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <cstdlib>

#include "fake.hpp"
#include "runtime/driver.hpp"
#include "tlx/runtime/gpu.hpp"

TEST_CASE("without a driver there are no GPUs and opening one says what to do; a driver that appears later is used") {
  std::string text;
  setenv("TLX_DRIVER", "libcuda-of-no-machine.so.1", 1);
  CHECK(error_of([] { tlx::runtime::open(0); }, &text) == "driver-missing");
  CHECK(text.find("install the NVIDIA driver") != std::string::npos);
  CHECK(text.find("sim:sm_90a") != std::string::npos);
  CHECK(tlx::runtime::gpu_count() == 0);

  setenv("TLX_DRIVER", "libm.so.6", 1);
  CHECK(error_of([] { tlx::runtime::open(0); }, &text) == "driver-too-old");
  CHECK(text.find("has no cuInit") != std::string::npos);
  CHECK(error_of([] { tlx::runtime::gpu_count(); }) == "driver-too-old");

#ifdef TLX_CUDA_LINK_LIBRARY
  setenv("TLX_DRIVER", TLX_CUDA_LINK_LIBRARY, 1);
  CHECK(error_of([] { tlx::runtime::open(0); }, &text) == "driver-missing");
  CHECK(text.find("ship for linking, not a driver") != std::string::npos);
  CHECK(tlx::runtime::gpu_count() == 0);
#endif

  fake().fail("cuInit", 999);
  CHECK(error_of([] { tlx::runtime::gpu_count(); }, &text) == "driver-failed");
  CHECK(text.find("cuInit returned") != std::string::npos);
  fake().reset();
  CHECK(tlx::runtime::gpu_count() == 1);
  CHECK(error_of([] { tlx::runtime::open(1); }, &text) == "no-such-gpu");
  CHECK(text.find("gpu:1 was asked for, the driver shows 1 GPUs") != std::string::npos);
  CHECK(error_of([] { tlx::runtime::open(-1); }) == "no-such-gpu");
}

#ifdef TLX_CUDA_LINK_LIBRARY
TEST_CASE("the libcuda that a toolkit ships for linking has every symbol of the table") {
  void* library = dlopen(TLX_CUDA_LINK_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(library);
  CHECK(tlx::runtime::driver_symbols().size() > 40);
  for (const std::string& symbol : tlx::runtime::driver_symbols()) {
    CAPTURE(symbol);
    CHECK(dlsym(library, symbol.c_str()) != nullptr);
  }
}
#endif
