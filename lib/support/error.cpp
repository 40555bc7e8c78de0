#include "tlx/support/error.hpp"

namespace tlx {

std::string to_string(const diagnostic& d, const std::string& family) {
  std::string text = "tlx " + family + " [" + d.id + "]: " + d.what;
  const std::string at = to_string(d.where);
  if (!at.empty() || !d.context.empty()) {
    text += "\n  at " + at;
    if (!d.context.empty()) text += (at.empty() ? "" : " in ") + d.context;
  }
  if (!d.because.empty()) text += "\n  because " + d.because;
  for (const std::string& way : d.fix) text += "\n  fix " + way;
  return text;
}

void raise(user_error e) { throw e; }
void raise(device_error e) { throw e; }
void raise(sim_error e) { throw e; }
void raise(internal_error e) { throw e; }

}  // namespace tlx
