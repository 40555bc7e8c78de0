// Layouts of every kind the library makes, for property tests.
#pragma once
#include <vector>

#include "tlx/tile/layout.hpp"

namespace tests {
std::vector<tlx::tile::layout> sample_layouts();
}
