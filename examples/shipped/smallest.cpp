// The least that a program needs: a machine, memory on it, its bundle, a launch. y = gelu(x w^T + bias) of ones: every element is gelu(64) = 64.
//   smallest              on gpu:0
//   smallest sm_90a       simulated
// [program]
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "shop.hpp"  // written by tlxc build: the bundle, and a struct of arguments a kernel
#include "tlx/bundle/library.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"

int main(int argc, char** argv) {
  try {
    std::unique_ptr<tlx::device::machine> machine;
    if (argc > 1) machine = tlx::sim::open(argv[1]);
    else machine = tlx::runtime::open(0);
    constexpr std::int64_t rows = 200, cols = 128, depth = 64;
    const std::vector<std::uint16_t> x(rows * depth, 0x3f80), w(cols * depth, 0x3f80);  // 1 in bf16
    const std::vector<float> bias(cols, 0.0f);
    std::vector<std::uint16_t> y(rows * cols);
    tlx::device::buffer on_x(*machine, x.size() * 2), on_w(*machine, w.size() * 2), on_bias(*machine, bias.size() * 4), on_y(*machine, y.size() * 2);
    on_x.write(x.data(), x.size() * 2);
    on_w.write(w.data(), w.size() * 2);
    on_bias.write(bias.data(), bias.size() * 4);

    tlx::bundle::library kernels(*machine, shop::embedded_bundle());
    kernels.launch(shop::linear{.x = {on_x.where(), {rows, depth}}, .w = {on_w.where(), {cols, depth}}, .bias = {on_bias.where(), {cols}}, .y = {on_y.where(), {rows, cols}}}, "128x128");
    on_y.read(y.data(), y.size() * 2);  // waits for the launch
    std::printf("y[0] is 0x%04x, 64 is 0x4280\n", static_cast<unsigned>(y[0]));
    return y[0] == 0x4280 ? 0 : 1;
  } catch (const tlx::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
// [/program]
