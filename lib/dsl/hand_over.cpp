// A program's side of `tlxc build PROGRAM`. A record a kernel and target: "NAME CONFIGURATION TARGET STATUS BYTES\n" and the text; "-" is an empty configuration,
// and the target of the records that only name a kernel.
#include <cstdlib>

#include "tlx/dsl/registry.hpp"
#include "tlx/support/text.hpp"

namespace tlx {

bool hand_over_kernels() {
  const char* path = std::getenv("TLX_KERNELS_TO");
  if (!path || !*path) return false;
  const char* list = std::getenv("TLX_KERNELS_FOR");
  std::string out = cat("tlx-kernels ", TLX_REGISTRY_VERSION, "\n");
  const std::vector<dsl::registered>& kernels = dsl::registered_kernels();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string head = cat(kernels[i].name, " ", kernels[i].configuration.empty() ? "-" : kernels[i].configuration, " ");
    out += head + "- 0 0\n";
    std::istringstream targets(list ? list : "");
    for (std::string target; std::getline(targets, target, ',');) {
      std::string text;
      const int status = dsl::trace_to_text(i, target.c_str(), [](void* to, const char* bytes, size_t size) { static_cast<std::string*>(to)->assign(bytes, size); }, &text);
      out += cat(head, target, " ", status, " ", text.size(), "\n", text);
    }
  }
  write_file(path, out);
  return true;
}

}  // namespace tlx
