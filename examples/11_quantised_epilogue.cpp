// Step 11: an epilogue that ends in another type. Arguments of your own, softcap, bias and rounding to int8: still one expression.
#include "common.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/kernels/gemm.hpp"

using namespace tlx;

using plan = kernels::gemm_plan</*M=*/128, /*N=*/128, /*K=*/64, /*Stages=*/4>;

// [kernel]
struct arguments {  // gemm() wants a, b and c; the rest is what the epilogue reads
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<std::int8_t, 2>, c), (view<float, 1>, bias), (scalar<float>, cap), (scalar<float>, steps));
};

/// c = int8((cap * tanh(a * b / cap) + bias) * steps), rounded to nearest and saturated.
void gemm_softcap_int8(block& cta, const arguments& in) {
  kernels::gemm<bf16, plan>(cta, in, [](const auto& acc, const arguments& of, const grid_box& t) {
    return cast_saturated<std::int8_t>((tanh(acc * (1.0f / of.cap)) * of.cap + fetch<1, plan::n>(of.bias.at(t.col))) * of.steps);
  });
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr std::size_t rows = 200, cols = 272, depth = 328;
    constexpr float cap = 20.0f, steps = 6.0f;
    examples::array<bf16> a(m, examples::random_values<bf16>(rows * depth, 12)), b(m, examples::random_values<bf16>(cols * depth, 13));
    examples::array<std::int8_t> c(m, rows * cols, std::int8_t{99});
    examples::array<float> bias(m, examples::random_values<float>(cols, 14));
    host::session session(m);
    host::launch<arguments>(session, "gemm_softcap_int8", gemm_softcap_int8,
                            {a.view({rows, depth}), b.view({cols, depth}), c.view({rows, cols}), bias.view({cols}), device::scalar_value(cap), device::scalar_value(steps)});
    examples::describe(*session.find("gemm_softcap_int8"));
    std::printf("c = int8(softcap(a * b^T) + bias), %zu x %zu x %zu, compiled in %.0f ms\n", rows, cols, depth, session.last_compile_ms());

    const auto got = c.fetch();
    std::size_t right = 0, saturated = 0;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < depth; ++k) sum += static_cast<double>(static_cast<float>(a.host[i * depth + k]) * static_cast<float>(b.host[j * depth + k]));
        const double exact = (static_cast<double>(cap) * std::tanh(sum / static_cast<double>(cap)) + static_cast<double>(bias.host[j])) * static_cast<double>(steps);
        // tanh.approx is 2^-11 off, times cap * steps = 120: 0.06 of a step, and half a step of rounding
        const double expected = std::clamp(exact, -128.0, 127.0);
        right += std::abs(static_cast<double>(got[i * cols + j]) - expected) <= 0.5 + 0.07;
        saturated += std::abs(exact) > 128;
      }
    std::printf("%zu of %zu elements right, %zu of them saturated\n", right, rows * cols, saturated);
    return right == rows * cols && saturated > 0;
  });
}
