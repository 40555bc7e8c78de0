// Step 13: kernels made ready before they are needed. A program that compiles while it starts and shows how far it is; the second time they come from the cache.
#include <unistd.h>

#include <algorithm>

#include "common.hpp"
#include "tlx/dsl/activation.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/host/warm_up.hpp"

using namespace tlx;
using namespace tlx::literals;

struct curve_arguments {
  TLX_ARGUMENTS(curve_arguments, (view<float, 1>, x), (view<float, 1>, y));
};

template <class Curve>
host::library_kernel curve(const std::string& name, Curve f) {
  return {name, [=](const std::string& target) {
            return trace<curve_arguments>(name, target, [=](block& cta, const curve_arguments& in) {
              cta.warps(4_warps);
              cta.tile(lines_of<512>(in.y), [&](const line_box& t) { store(in.y[t], f(fetch<1, 512>(in.x[t]))); });
            });
          }};
}

// [bar]
/// One line that grows on a terminal, a line a kernel in a log.
void show(const host::warm_up_step& s) {
  constexpr std::size_t width = 30;
  const std::size_t filled = s.done * width / s.total;
  const char* from = s.from == host::kernel_origin::compiled ? "compiled" : s.from == host::kernel_origin::cache ? "from the cache" : "from the bundle";
  std::printf("%s[%s%s] %zu/%zu  %s: %s, %.0f ms%s", ::isatty(1) ? "\r\033[K" : "", std::string(filled, '#').c_str(), std::string(width - filled, '.').c_str(), s.done, s.total, s.kernel.c_str(),
              s.error.empty() ? from : "failed", s.ms, ::isatty(1) && s.done < s.total ? "" : "\n");
  std::fflush(stdout);
}
// [/bar]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr std::size_t rows = 200, cols = 264, depth = 328;
    examples::array<bf16> a(m, examples::random_values<bf16>(rows * depth, 8)), b(m, examples::random_values<bf16>(cols * depth, 9)), c(m, rows * cols, bf16(0.0f));
    examples::array<float> x(m, examples::random_values<float>(3000, 10)), y(m, 3000, std::nanf(""));
    const host::matrix on_a{a.where(), rows, depth}, on_b{b.where(), depth, cols, 0, true}, on_c{c.where(), rows, cols};

    // [start]
    host::session session(m);
    // Kernels of the program's own, and those of the library that its calls will want.
    std::vector<host::library_kernel> kernels = {curve("relu_of", [](const auto& v) { return relu(v); }), curve("gelu_of", [](const auto& v) { return gelu(v); }),
                                                 curve("silu_of", [](const auto& v) { return silu(v); })};
    const std::string product = host::gemm_kernel_name(session, on_a, on_b, on_c);
    for (host::library_kernel& k : host::library_kernels())
      if (k.name == product) kernels.push_back(std::move(k));
    const host::warm_up_result ready = host::warm_up(session, kernels, {.progress = show});
    for (const host::warm_up_step& s : ready.failed) std::printf("%s", s.error.c_str());
    std::printf("ready after %.2f s: %zu compiled, %zu from the cache\n", ready.seconds, ready.compiled, ready.from_cache);
    // [/start]
    if (!ready.failed.empty() || ready.compiled + ready.from_cache != kernels.size()) return false;

    // The program's work: nothing is compiled any more.
    const std::uint64_t made = session.counters().compiled + session.counters().cache_hits;
    host::gemm(session, on_a, on_b, on_c);
    session.run("gelu_of", kernels[1].trace, {x.view({3000}), y.view({3000})});
    if (session.counters().compiled + session.counters().cache_hits != made) return std::puts("a kernel was made after the start"), false;

    std::vector<double> expected(rows * cols), curved;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j)
        for (std::size_t k = 0; k < depth; ++k) expected[i * cols + j] += static_cast<double>(static_cast<float>(a.host[i * depth + k]) * static_cast<float>(b.host[j * depth + k]));
    for (const float v : x.host) curved.push_back(0.5 * static_cast<double>(v) * (1 + std::erf(static_cast<double>(v) * std::sqrt(0.5))));
    return examples::same(c.fetch(), expected, 0x1p-8, 1e-3) && examples::same(y.fetch(), curved, 0x1p-18, 1e-6);  // f32 sums of 328 products, rounded to bf16; a few ulp
  });
}
