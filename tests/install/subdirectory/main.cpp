// What a project with tlx in a folder of its own can do without LLVM: it packs a kernel argument and reads an error.
#include <cstdio>
#include <cstring>

#include "tlx/device/device.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/version.hpp"

int main() {
  std::printf("tlx %s\n", tlx::version_string);

  const tlx::device::argument argument = tlx::device::scalar(2.5F);
  const auto& bytes = std::get<std::vector<std::byte>>(argument);
  float back = 0;
  std::memcpy(&back, bytes.data(), sizeof back);
  std::printf("an argument of %zu bytes that holds %g\n", bytes.size(), static_cast<double>(back));

  try {
    tlx::read_file("a-file-that-is-not-there.ptx");
  } catch (const tlx::error& e) {
    std::printf("%s\n", e.what());
    return e.id() == "file-unreadable" ? 0 : 1;
  }
  return 1;
}
