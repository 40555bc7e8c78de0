// Bytes as a relocatable object file, so that a program can hold a bundle: no compiler and no assembler is asked.
#pragma once
#include <string>

namespace tlxc {

/// An ELF object for `machine` ("x86_64" or "aarch64") with read-only data: SYMBOL at its start, SYMBOL_end behind its end. Raises usage_error for another machine.
std::string object_file(const std::string& bytes, const std::string& symbol, const std::string& machine);

/// The machine that tlxc runs on.
std::string host_machine();

}  // namespace tlxc
