#pragma once
#include <doctest/doctest.h>

#include <string>

#include "tlx/device/device.hpp"
#include "tlx/support/error.hpp"

namespace tlx::test {

/// Whether `call` ran and the machine finished it; an error is a failed check that shows it.
template <class Call>
bool ran(device::machine& on, Call&& call) {
  try {
    call();
    on.wait();
    return true;
  } catch (const error& e) {
    FAIL_CHECK(std::string(e.what()));
    return false;
  }
}

}  // namespace tlx::test
