#include "tests/codegen/assemble.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tlx/support/text.hpp"

namespace test {

std::string ptxas() {
  if (const char* named = std::getenv("TLX_PTXAS")) return named;
  std::string paths = std::getenv("PATH") ? std::getenv("PATH") : "";
  paths += ":/usr/local/cuda/bin";
  for (size_t from = 0; from <= paths.size();) {
    size_t to = paths.find(':', from);
    if (to == std::string::npos) to = paths.size();
    const std::string candidate = tlx::cat(paths.substr(from, to - from), "/ptxas");
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    from = to + 1;
  }
  return {};
}

assembled assemble(const std::string& ptx, const std::string& target) {
  char name[] = TLX_BINARY_DIR "/ptxas_XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) return {};
  close(file);
  tlx::write_file(name, ptx);
  const std::string command = tlx::cat(ptxas(), " -v -arch=", target, " -o ", name, ".cubin ", name, " 2>&1");
  assembled result;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    std::array<char, 4096> buffer;
    size_t n = 0;
    while ((n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) result.log.append(buffer.data(), n);
    result.ok = pclose(pipe) == 0;
  }
  unlink(name);
  unlink(tlx::cat(name, ".cubin").c_str());
  const auto number_before = [&](const char* what) {
    const size_t at = result.log.find(what);
    if (at == std::string::npos) return 0;
    size_t start = at;
    while (start > 0 && (std::isdigit(static_cast<unsigned char>(result.log[start - 1])) || result.log[start - 1] == ' ')) --start;
    return std::atoi(result.log.c_str() + start);
  };
  result.registers = number_before(" registers");
  result.spill_bytes = number_before(" bytes spill stores");
  return result;
}

}  // namespace test
