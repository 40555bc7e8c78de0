// Step 10, at home: compiles a kernel and writes it down as files. 10_prebuilt launches them without a compiler.
#include <fstream>

#include "common.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/jit/compile.hpp"

using namespace tlx;
using namespace tlx::literals;

struct clip_arguments {
  TLX_ARGUMENTS(clip_arguments, (view<float, 1>, x), (view<float, 1>, y), (scalar<float>, bound));
};

void clip(block& cta, const clip_arguments& in) {
  cta.warps(4_warps);
  cta.tile(lines_of<512>(in.x), [&](const line_box& t) {
    auto x = fetch<1, 512>(in.x[t]);
    store(in.y[t], where(abs(x) < in.bound, x, 0.0f));
  });
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  std::printf("%s: %zu bytes\n", path.c_str(), bytes.size());
}

/// The kernel with a cubin where an assembler is installed, with PTX alone otherwise: a GPU's driver assembles it then.
device::kernel compiled(const ir::kernel& traced) {
  try {
    return jit::compile(traced);
  } catch (const device_error& e) {
    if (e.id() != "assembler-missing") throw;
    return jit::compile(traced, {.assemble = false});
  }
}

int main(int argc, char** argv) {
  try {
    std::string folder = examples::option(argc, argv, "--to");
    if (folder.empty()) folder = ".";
    for (const char* target : {"sm_90a", "sm_100a"}) {
      // [write]
      const device::kernel made = compiled(*trace<clip_arguments>("clip", target, clip));
      write(folder + "/clip_" + target + ".json", device::to_manifest(made));
      write(folder + "/clip_" + target + ".ptx", made.code.ptx);
      if (!made.code.cubin.empty()) write(folder + "/clip_" + target + ".cubin", made.code.cubin);
      // [/write]
    }
    return 0;
  } catch (const error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
