// Kernels of an executable: it is started with the request of tlx::hand_over_kernels() in its environment, and writes them to a file.
#pragma once
#include <string>
#include <vector>

#include "source.hpp"

namespace tlxc {

/// Whether the file is an executable and no shared library.
bool is_program(const std::string& path);

/// Raises user_error [kernel-library-foreign] for a program that never asks for the request (it is not started then), [kernel-program-failed].
void add_program(const std::string& path, const std::vector<std::string>& targets, std::vector<kernel_entry>& to);

}  // namespace tlxc
