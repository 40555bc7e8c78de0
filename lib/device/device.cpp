#include "tlx/device/device.hpp"
