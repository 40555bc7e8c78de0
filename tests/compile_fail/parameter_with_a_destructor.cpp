// error: tlx: a kernel parameter is copied as bytes; its type must be trivially copyable
#include <string>

#include "tlx/device/device.hpp"

tlx::device::argument name() { return tlx::device::scalar(std::string("q")); }
