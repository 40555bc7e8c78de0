// Plain files: for each kernel and target a cubin, PTX and a manifest, one manifest.json over all, and a C header.
#pragma once
#include <string>
#include <vector>

#include "tlx/bundle/write.hpp"

namespace tlxc {

void write_folder(const std::string& folder, const std::vector<tlx::bundle::compiled>& kernels, const std::vector<std::string>& targets, const tlx::bundle::package& about);

}  // namespace tlxc
