#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "fake_driver.hpp"
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

template <class Call>
std::string error_of(Call&& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const tlx::error& e) {
    if (text) *text = e.what();
    return e.id();
  }
  return "";
}
