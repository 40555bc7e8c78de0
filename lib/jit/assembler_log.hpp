// Reads what ptxas prints.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::jit {

struct assembler_log {
  device::resources all;                             // largest numbers, every advisory
  std::map<std::string, device::resources> entries;
  std::vector<std::string> errors;                   // first few lines with "error" or "fatal"
};

/// `log` is the output of `ptxas -v`. Advisories are: any line with a (C7xxx) code or the word warning, and spills and stack frames that are not 0.
assembler_log read_assembler_log(const std::string& log);

/// The numbers after "line " in messages, in order, without repetition.
std::vector<int> lines_named(const std::vector<std::string>& messages);

}  // namespace tlx::jit
