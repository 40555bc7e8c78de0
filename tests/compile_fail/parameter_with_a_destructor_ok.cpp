#include "tlx/device/device.hpp"

tlx::device::argument name() { return tlx::device::scalar('q'); }
