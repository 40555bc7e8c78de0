// The things that `tlxc show` draws.
#pragma once
#include "arguments.hpp"

namespace tlxc {

int show_layout(const arguments& given, const std::vector<std::string>& words);
int show_ring(const arguments& given, const std::string& kernel);
int show_tensor_memory(const arguments& given, const std::string& kernel);

/// The forms that `show layout` knows, a line each.
std::string layout_forms();

}  // namespace tlxc
