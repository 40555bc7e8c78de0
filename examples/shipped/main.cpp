// The program: its kernels are in it, checked against their digest, and launched by typed structs. No LLVM, no language, no files to find.
//   shipped [gpu:N | sim:TARGET] [ROWS COLS DEPTH]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>

#include "shop.hpp"  // written by tlxc build
#include "tlx/bundle/library.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;

namespace {

using clock = std::chrono::steady_clock;
double ms_since(clock::time_point start) { return std::chrono::duration<double, std::milli>(clock::now() - start).count(); }

std::unique_ptr<device::machine> open(const std::string& name) {
  if (name.rfind("sim:", 0) == 0) return sim::open(name.substr(4), {.processor_count = 2});
  return runtime::open(name.size() > 4 ? std::stoi(name.substr(4)) : 0);
}

// bf16 on the host: the upper half of a float, rounded to nearest even.
std::uint16_t to_bf16(float v) {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &v, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float from_bf16(std::uint16_t v) {
  const std::uint32_t bits = std::uint32_t{v} << 16;
  float out = 0;
  __builtin_memcpy(&out, &bits, sizeof out);
  return out;
}

template <class T>
device::buffer on(device::machine& m, const std::vector<T>& values) {
  device::buffer b(m, values.size() * sizeof(T));
  b.write(values.data(), values.size() * sizeof(T));
  return b;
}

// Against float64: one rounding to bf16, and f32 sums of `depth` products.
bool right(const std::vector<std::uint16_t>& y, const std::vector<std::uint16_t>& x, const std::vector<std::uint16_t>& w, const std::vector<float>& bias, std::size_t rows, std::size_t cols, std::size_t depth) {
  std::size_t checked = 0;
  const std::size_t every = rows * cols * depth > 100000000 ? 997 : 1;
  for (std::size_t at = 0; at < rows * cols; at += every, ++checked) {
    const std::size_t i = at / cols, j = at % cols;
    double sum = static_cast<double>(bias[j]), absolute = std::abs(sum);
    for (std::size_t k = 0; k < depth; ++k) {
      const double product = static_cast<double>(from_bf16(x[i * depth + k])) * static_cast<double>(from_bf16(w[j * depth + k]));
      sum += product;
      absolute += std::abs(product);
    }
    const double expected = 0.5 * sum * (1 + std::erf(sum * std::sqrt(0.5)));
    const double off = std::abs(static_cast<double>(from_bf16(y[at])) - expected), allowed = 0x1p-8 * std::abs(expected) + 1.2 * static_cast<double>(depth + 1) * 0x1p-24 * absolute + 1e-6;
    if (!(off <= allowed)) return std::printf("y[%zu, %zu] is %g, expected %g\n", i, j, static_cast<double>(from_bf16(y[at])), expected), false;
  }
  std::printf("%zu elements agree with float64\n", checked);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto machine = open(argc > 1 ? argv[1] : "gpu:0");
    const auto number = [&](int at, std::size_t otherwise) { return argc > at ? std::stoul(argv[at]) : otherwise; };
    const std::size_t rows = number(2, 200), cols = number(3, 264), depth = number(4, 328);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> x(rows * depth), w(cols * depth), y(rows * cols, 0x7fc0);  // NaN
    std::vector<float> bias(cols);
    for (auto* values : {&x, &w})
      for (auto& v : *values) v = to_bf16(normal(random) * 0.2f);
    for (float& v : bias) v = normal(random);
    const device::buffer on_x = on(*machine, x), on_w = on(*machine, w), on_bias = on(*machine, bias), on_y = on(*machine, y);

    const auto start = clock::now();
    // [launch]
    bundle::library kernels(*machine, shop::embedded_bundle());
    const auto m = static_cast<std::int64_t>(rows), n = static_cast<std::int64_t>(cols), k = static_cast<std::int64_t>(depth);
    kernels.launch(shop::linear{.x = {on_x.where(), {m, k}}, .w = {on_w.where(), {n, k}}, .bias = {on_bias.where(), {n}}, .y = {on_y.where(), {m, n}}}, n > 128 ? "128x256" : "128x128");
    // [/launch]
    const double launched = ms_since(start);
    machine->wait();
    std::printf("%s %s on %s: from nothing to a launch in %.2f ms, done after %.2f ms\n", kernels.from().about().name.c_str(), kernels.from().about().version.c_str(), machine->about().name.c_str(), launched, ms_since(start));
    on_y.read(y.data(), y.size() * sizeof y[0]);
    return right(y, x, w, bias, rows, cols, depth) ? 0 : 1;
  } catch (const error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
