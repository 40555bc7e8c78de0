// Step 8: the epilogue is an expression. The library's GEMM takes a function of the accumulator; change the function and you have another kernel.
#include "common.hpp"
#include "tlx/dsl/activation.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/kernels/gemm.hpp"

using namespace tlx;

using arguments = kernels::gemm_arguments<bf16>;
using plan = kernels::gemm_plan</*M=*/128, /*N=*/128, /*K=*/64, /*Stages=*/4>;

// [kernel]
/// c = gelu(alpha * a * b + bias) + residual. The pass chunk-reads walks all of it in column chunks, so that no thread holds a whole accumulator row.
void gemm_gelu(block& cta, const arguments& in) {
  kernels::gemm<bf16, plan>(cta, in, [](const auto& acc, const arguments& of, const grid_box& t) {
    auto bias = fetch<1, plan::n>(of.bias.at(t.col));
    auto residual = fetch<plan::m, plan::n>(of.residual[t]);
    return gelu(acc * of.alpha + bias) + cast<float>(residual);
  });
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr std::size_t rows = 200, cols = 264, depth = 328;
    constexpr float alpha = 0.05f;
    examples::array<bf16> a(m, examples::random_values<bf16>(rows * depth, 8)), b(m, examples::random_values<bf16>(cols * depth, 9)), c(m, rows * cols, bf16(0.0f));
    examples::array<bf16> residual(m, examples::random_values<bf16>(rows * cols, 10));
    examples::array<float> bias(m, examples::random_values<float>(cols, 11));
    host::session session(m);
    host::launch<arguments>(session, "gemm_gelu", gemm_gelu,
                            {a.view({rows, depth}), b.view({cols, depth}), c.view({rows, cols}), bias.view({cols}), residual.view({rows, cols}), device::scalar_value(alpha)});
    examples::describe(*session.find("gemm_gelu"));
    std::printf("c = gelu(alpha * a * b^T + bias) + residual, %zu x %zu x %zu, compiled in %.0f ms\n", rows, cols, depth, session.last_compile_ms());

    std::vector<double> expected(rows * cols);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < depth; ++k) sum += static_cast<double>(static_cast<float>(a.host[i * depth + k]) * static_cast<float>(b.host[j * depth + k]));
        const double x = sum * static_cast<double>(alpha) + static_cast<double>(bias.host[j]);
        expected[i * cols + j] = 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))) + static_cast<double>(static_cast<float>(residual.host[i * cols + j]));
      }
    return examples::same(c.fetch(), expected, 0x1p-8, 1e-4);  // one rounding to bf16; f32 sums of 328 products, scaled by 0.05
  });
}
