// Text form of kernels. parse(print(k)) prints the same; line 1 is the format's version.
#pragma once
#include <memory>
#include <string>

#include "tlx/ir/kernel.hpp"

namespace tlx::ir {

struct print_options {
  bool locations = true;
};
std::string print(const kernel& k, print_options how = {});
std::string print(const op& o);  // one op, for messages

/// Raises user_error [ir-malformed] with the line.
std::unique_ptr<kernel> parse(const std::string& text);

}  // namespace tlx::ir
