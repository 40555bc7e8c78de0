// Headers that go with what `tlxc build` writes.
#pragma once
#include <string>
#include <vector>

#include "tlx/bundle/bundle.hpp"
#include "tlx/bundle/write.hpp"

namespace tlxc {

/// C++, for a bundle: its digest, a struct of typed arguments a kernel, and with `symbol` the embedded bundle.
std::string bundle_header(const tlx::bundle::bundle& made, const std::vector<tlx::bundle::compiled>& kernels, const std::string& name_space, const std::string& symbol);

/// C11, for people who launch cubins by themselves: entry, block, shared bytes, the struct of entry parameters with its offsets, tensor maps, the grid.
std::string plain_header(const std::vector<tlx::bundle::compiled>& kernels);

/// `text` as an identifier of C.
std::string identifier(const std::string& text, const std::string& otherwise);

}  // namespace tlxc
