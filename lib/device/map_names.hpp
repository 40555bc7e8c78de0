#pragma once
#include <optional>
#include <string_view>

#include "tlx/device/device.hpp"

namespace tlx::device {

std::optional<map_element> map_element_named(std::string_view name);

}  // namespace tlx::device
