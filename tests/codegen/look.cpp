#include "tests/codegen/look.hpp"

#include <sstream>

#include "tests/codegen/kernels.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/support/error.hpp"

namespace test {

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const size_t start = text.find(from);
  if (start == std::string::npos) return {};
  const size_t end = text.find(to, start + from.size());
  return end == std::string::npos ? std::string() : text.substr(start + from.size(), end - start - from.size());
}

bool in_order(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    at = text.find(part, at);
    if (at == std::string::npos) {
      MESSAGE("not found, or not in order: ", part);
      return false;
    }
  }
  return true;
}

std::string register_list(const std::string& text, const std::string& what, int n) {
  size_t at = text.find(what);
  while (n-- > 0 && at != std::string::npos) at = text.find(what, at + 1);
  if (at == std::string::npos) return {};
  const size_t open = text.find('{', at), close = text.find('}', open);
  return text.substr(open, close - open);
}

int instructions(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  int n = 0;
  while (std::getline(in, line)) {
    const size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line.compare(at, 2, "//") == 0 || line[at] == '$' || line[at] == '.') continue;
    ++n;
  }
  return n;
}

std::string compile(const tlx::ir::kernel& k, const tlx::codegen::options& how) {
  tlx::ir::verify_or_raise(k, "test");
  return tlx::codegen::to_ptx(k, how);
}

std::unique_ptr<tlx::ir::kernel> make_body(const std::string& target, int warps, const std::function<void(tlx::ir::kernel&, tlx::ir::builder&)>& body) {
  auto k = new_kernel("body", target, warps);
  tlx::ir::builder b(*k, k->body);
  b.locate(tlx::location::here());
  body(*k, b);
  return k;
}

std::string compile_body(const std::string& target, int warps, const std::function<void(tlx::ir::kernel&, tlx::ir::builder&)>& body) {
  return compile(*make_body(target, warps, body));
}

bool skip_without_ptxas() {
  if (!ptxas().empty()) return false;
  MESSAGE("skipped: no ptxas");
  return true;
}

int accepted(const tlx::ir::kernel& k) {
  const assembled a = assemble(compile(k), k.target);
  CAPTURE(a.log);
  CHECK(a.ok);
  CHECK(!contains(a.log, "(C75"));
  CHECK(!contains(a.log, "(C76"));
  CHECK(a.spill_bytes == 0);
  return a.registers;
}

std::string error_id(const std::function<void()>& action) {
  try {
    action();
  } catch (const tlx::error& e) {
    return e.id();
  }
  return {};
}

}  // namespace test
