// In a program of its own: a trap costs the process its GPU.
#include <doctest/doctest.h>

#include "kernels.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"

TEST_CASE("a trapping kernel is reported at the wait, by name, and later work says that the context is lost") {
  const auto gpu = tlx::runtime::open(0);
  const auto code = gpu->load({.ptx = ptx::trap, .cubin = {}});
  tlx::device::buffer b(*gpu, 16);
  gpu->run(*code, "fault", {});
  std::string text;
  try {
    gpu->wait();
  } catch (const tlx::device_error& e) {
    text = e.what();
  }
  CHECK(text.find("[kernel-failed]") != std::string::npos);
  CHECK(text.find("last launch: kernel \"fault\"") != std::string::npos);
  CHECK_THROWS_AS(gpu->allocate(16), tlx::device_error);
  // The buffer, the module and the machine are destroyed after this without an exception.
}
