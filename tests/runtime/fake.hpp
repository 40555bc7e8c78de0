#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "fake_driver.hpp"
#include "tests/support/error_of.hpp"
#include "tlx/support/error.hpp"

/// The fake driver, chosen as the driver of this process.
inline const fake_control& fake() {
  static const fake_control control = [] {
    void* library = dlopen(TLX_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<fake_control (*)()>(dlsym(library, "fake_driver_control"))();
  }();
  setenv("TLX_DRIVER", TLX_FAKE_DRIVER, 1);
  return control;
}

using tlx::test::error_of;
