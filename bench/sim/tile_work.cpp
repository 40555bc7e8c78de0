// What one tile of a GEMM asks of a Blackwell chip, beside what the chip is published to do: multiplications, bytes into shared memory and instructions for each
// step of K, and the instructions of a tile outside of that loop. Counted on the simulator, so they are exact; the cycles are a prediction, not a measurement.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/host/gated.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/host/normed.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/text.hpp"

namespace {

using namespace tlx;

// Published rates of one processor of a B200, in its cycles.
constexpr double fill_bytes = 70;  // into shared memory, sustained
constexpr double issue_slots = 4;  // warp instructions
// An instruction with M = 128 multiplies 32 bytes of K: bound by the tensor cores, or by reading its operands from shared memory at 128 bytes.
// One of a pair has M = 256 and reads half of b in each CTA.
double product_cycles(int columns, int ctas) { return std::max(columns / 2.0, ctas == 2 ? 35 + columns / 8.0 : 32 + columns / 4.0); }

struct matrices {
  host::matrix a, b, b2, c, residual;
  device::address floats;
};
struct work {
  const char* name;
  tile::element type;
  int rows, cols, operands_of_b;  // of a CTA's tile, all its columns of c; matrices that b stands for
  std::function<void(host::session&, const matrices&, const work&)> run;
  int ctas = 1;  // that multiply together, each with half of b
};

int bytes_of(tile::element e) { return tile::bits(e) / 8; }

std::uint64_t instructions(const work& w, std::int64_t k) {
  const std::unique_ptr<sim::machine> m = sim::open("sm_100a", {.processor_count = 1, .detect_races = false});
  host::session session(*m);
  std::vector<device::buffer> all;
  const auto zeros = [&](std::int64_t bytes) {
    all.emplace_back(*m, static_cast<std::size_t>(bytes));
    const std::vector<char> nothing(static_cast<std::size_t>(bytes), 0);
    all.back().write(nothing.data(), nothing.size());
    return all.back().where();
  };
  const int element = bytes_of(w.type), result = 4;
  const auto operand = [&](std::int64_t rows) { return host::matrix{zeros(rows * k * element), rows, k}; };
  const auto columns = [&](std::int64_t cols) { return host::matrix{zeros(cols * k * element), k, cols, 0, true}; };
  const auto like_c = [&] { return host::matrix{zeros(std::int64_t{w.rows} * w.ctas * w.cols * result), w.rows * w.ctas, w.cols}; };
  const matrices in{operand(w.rows * w.ctas), columns(w.cols), columns(w.cols), like_c(), like_c(), zeros(4 * std::max(w.rows * w.ctas, w.cols))};
  w.run(session, in, w);
  return m->last_run().warp_instructions / static_cast<std::uint64_t>(w.ctas);
}

void product(host::session& on, const matrices& in, const work& w, host::gemm_options how) {
  how.type = w.type;
  how.schedule = host::gemm_schedule{.rows = w.rows, .cols = w.cols, .cluster = w.ctas};
  host::gemm(on, in.a, in.b, in.c, how);
}

std::vector<work> all_work() {
  using enum tile::element;
  using host::activation;
  const auto plain = [](host::session& on, const matrices& in, const work& w) { product(on, in, w, {}); };
  const auto finished = [](activation a, bool residual) {
    return [=](host::session& on, const matrices& in, const work& w) { product(on, in, w, {.bias = in.floats, .residual = residual ? in.residual : host::matrix{}, .activate = a}); };
  };
  const auto scaled = [](host::session& on, const matrices& in, const work& w) { product(on, in, w, {.scale_a = {in.floats, true}, .scale_b = {in.floats, true}}); };
  return {
      {"bf16", bf16, 128, 256, 1, plain},
      {"bf16, 128 columns", bf16, 128, 128, 1, plain},
      {"bf16, bias, residual", bf16, 128, 256, 1, finished(activation::none, true)},
      {"bf16, bias, gelu (erf)", bf16, 128, 256, 1, finished(activation::gelu, false)},
      {"bf16, bias, gelu (tanh)", bf16, 128, 256, 1, finished(activation::gelu_tanh, false)},
      {"bf16, bias, silu, residual", bf16, 128, 256, 1, finished(activation::silu, true)},
      {"e4m3, a scale for each row and column", e4m3, 128, 256, 1, scaled},
      {"tf32", tf32, 128, 256, 1, plain},
      {"bf16, a pair", bf16, 128, 256, 1, plain, 2},
      {"bf16, 128 columns, a pair", bf16, 128, 128, 1, plain, 2},
      {"bf16, bias, silu, residual, a pair", bf16, 128, 256, 1, finished(activation::silu, true), 2},
      {"e4m3, scales, a pair", e4m3, 128, 256, 1, scaled, 2},
      {"silu(a g) * (a u)", bf16, 128, 128, 2, [](host::session& on, const matrices& in, const work&) { host::gated_gemm(on, in.a, in.b, in.b2, in.c, {}); }},
      {"RMSNorm before, gelu (tanh)", bf16, 128, 128, 1,
       [](host::session& on, const matrices& in, const work&) { host::normed_gemm(on, in.a, in.b, in.c, {.bias = in.floats, .activate = activation::gelu_tanh}); }},
      {"RMSNorm of the result", bf16, 64, 512, 1, [](host::session& on, const matrices& in, const work&) { host::gemm_normed(on, in.a, in.b, in.c, {.gain = in.floats}); }},
  };
}

}  // namespace

int main() {
  try {
    std::printf("| kernel | tile | K a step | products | into shared memory | instructions | bound | a tile besides | hidden from K = |\n");
    std::printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (const work& w : all_work()) {
      const int element = bytes_of(w.type), step = 128 / element;
      const std::int64_t few = 16 * step, many = 48 * step;
      const double first = static_cast<double>(instructions(w, few)), second = static_cast<double>(instructions(w, many));
      const double each = (second - first) / 32, rest = first - 16 * each;
      const int columns = w.cols * w.operands_of_b;
      // More than 256 columns are several instructions, and M = 64 reads half of a's rows.
      double products = 0;
      for (int at = 0; at < columns; at += 256) products += 4 * product_cycles(std::min(256, columns - at), w.ctas);
      const double fill = (w.rows + columns / w.ctas) * 128.0 / fill_bytes, issue = each / issue_slots;
      const double longest = std::max({products, fill, issue});
      const char* bound = longest == products ? "products" : longest == fill ? "shared memory" : "instructions";
      const double steps = rest / issue_slots / longest;
      std::printf("| %s | %s%d x %d | %d | %.0f | %.0f | %.0f (%.1f) | %s | %.0f (%.0f) | %.0f |\n", w.name, w.ctas > 1 ? "2 x " : "", w.rows, w.cols, step, products, fill, each, issue, bound, rest, rest / issue_slots, steps * step);
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
