#include "jit/assembler_log.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace tlx::jit {

namespace {

constexpr size_t errors_kept = 5;

bool has(const std::string& line, const char* part) { return line.find(part) != std::string::npos; }

// "(C7508)": performance advisories of ptxas for asynchronous MMA and register trading.
bool has_advisory_code(const std::string& line) {
  for (size_t at = line.find("(C7"); at != std::string::npos; at = line.find("(C7", at + 1)) {
    if (at + 7 <= line.size() && line[at + 6] == ')') return true;
  }
  return false;
}

// The number before `unit`, as in "340 bytes spill stores"; -1 if the line has none.
int number_before(const std::string& line, const char* unit) {
  const size_t at = line.find(unit);
  if (at == std::string::npos || at == 0) return -1;
  size_t from = at;
  while (from > 0 && (line[from - 1] == ' ')) --from;
  const size_t end = from;
  while (from > 0 && line[from - 1] >= '0' && line[from - 1] <= '9') --from;
  return from == end ? -1 : std::atoi(line.substr(from, end - from).c_str());
}

std::string quoted(const std::string& line) {
  const size_t from = line.find('\''), to = line.find('\'', from + 1);
  return from == std::string::npos || to == std::string::npos ? "" : line.substr(from + 1, to - from - 1);
}

void take_largest(int& into, int what) { into = std::max(into, what); }

}  // namespace

assembler_log read_assembler_log(const std::string& log) {
  assembler_log out;
  device::resources ignored;
  device::resources* entry = &ignored;
  bool in_entry = false;  // properties of called functions follow those of the entry and are not the entry's
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if ((has(line, "error") || has(line, "fatal")) && !has(line, "info ") && out.errors.size() < errors_kept) out.errors.push_back(line);
    bool advisory = has_advisory_code(line) || (has(line, "warning") && !has(line, "info "));
    if (has(line, "Compiling entry function")) {
      entry = &out.entries[quoted(line)];
      in_entry = true;
    } else if (const size_t of = line.find("Function properties for "); of != std::string::npos) {
      in_entry = out.entries.count(line.substr(of + 24)) > 0;
      if (in_entry) entry = &out.entries[line.substr(of + 24)];
    } else if (has(line, "bytes stack frame")) {
      const int stack = number_before(line, "bytes stack frame"), stores = number_before(line, "bytes spill stores"), loads = number_before(line, "bytes spill loads");
      if (in_entry) {
        entry->stack_bytes = stack;
        entry->spill_bytes = std::max(0, stores) + std::max(0, loads);
      }
      advisory = advisory || stack > 0 || stores > 0 || loads > 0;
    } else if (has(line, "Used ") && has(line, " registers")) {
      entry->registers = number_before(line, " registers");
      entry->static_shared_bytes = std::max(0, number_before(line, "bytes smem"));
    }
    if (advisory) out.all.advisories.push_back(line);
  }
  for (const auto& [name, used] : out.entries) {
    take_largest(out.all.registers, used.registers);
    take_largest(out.all.spill_bytes, used.spill_bytes);
    take_largest(out.all.stack_bytes, used.stack_bytes);
    take_largest(out.all.static_shared_bytes, used.static_shared_bytes);
  }
  return out;
}

std::vector<int> lines_named(const std::vector<std::string>& messages) {
  std::vector<int> out;
  for (const std::string& message : messages) {
    const size_t at = message.find(", line ");
    const int line = at == std::string::npos ? 0 : std::atoi(message.c_str() + at + 7);
    if (line > 0 && std::find(out.begin(), out.end(), line) == out.end()) out.push_back(line);
  }
  return out;
}

}  // namespace tlx::jit
