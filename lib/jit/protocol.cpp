#include "jit/protocol.hpp"

#include <cstdlib>
#include <string_view>

#include "tlx/check/protocol.hpp"
#include "tlx/support/error.hpp"

namespace tlx::jit {

bool checks_protocol(const compile_options& how) {
  const char* word = std::getenv("TLX_CHECK");
  return how.check_protocol && !(word && std::string_view(word) == "off");
}

void check_protocol(const ir::kernel& lowered, const observer& seen) {
  const check::verdict said = check::check_protocol(lowered);
  if (seen.protocol) seen.protocol(check::to_string(said));
  if (!said.findings.empty()) raise(user_error(said.findings.front()));
}

}  // namespace tlx::jit
