// Step 10, at the customer's: launches what 10_prebuilt_make wrote. No LLVM, no language, no compiler in this program; starting is reading files.
#include <chrono>
#include <filesystem>

#include "common.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;

int main(int argc, char** argv) {
  return examples::main(argc, argv, [&](device::machine& m) {
    const auto start = std::chrono::steady_clock::now();
    // [load]
    const std::string name = examples::option(argc, argv, "--from") + "/clip_" + m.about().target;
    device::kernel clip = device::from_manifest(read_file(name + ".json"));  // parameters, grid rule, tensor maps
    clip.code.ptx = read_file(name + ".ptx");
    if (std::filesystem::exists(name + ".cubin")) clip.code.cubin = read_file(name + ".cubin");
    const auto loaded = m.load(clip.code);
    // [/load]
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::printf("loaded in %.1f ms: ", ms);
    examples::describe(clip);

    constexpr int n = 3000;
    constexpr float bound = 1;
    examples::array<float> x(m, examples::random_values<float>(n, 12)), y(m, n, 9.0f);
    // [run]
    const device::launch how = device::bind(clip, {x.view({n}), y.view({n}), device::scalar_value(bound)}, m.about());
    m.run(*loaded, clip.entry, how);
    m.wait();
    // [/run]

    std::vector<double> expected;
    for (float v : x.host) expected.push_back(std::abs(v) < bound ? static_cast<double>(v) : 0);
    return examples::same(y.fetch(), expected, 0);
  });
}
