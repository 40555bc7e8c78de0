// Records kernels whose expressions have operands that record something themselves, and prints them without locations.
#include <cstdio>

#include "tlx/dsl/activation.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/kernels/gemm.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct orders {
  TLX_ARGUMENTS(orders, (view<bf16, 2>, x), (view<float, 1>, bias), (scalar<std::int32_t>, n));
};

void both_sides(block& cta, const orders& in) {
  cta.warps(4_warps);
  auto a = cta.ring<2>("a", shared<bf16, 64, 64>), b = cta.ring<2>("b", shared<bf16, 64, 64>);
  load(a.fill(), in.x.at(in.x.extent(0) - 1, in.x.extent(1) / 2));
  load(b.fill(), in.x.at((in.n + 1) * (in.n - 2), min(in.n * 3, in.n + 7)));
  auto sum = read(a.drain()) + read(b.drain());
  auto f = cast<float>(sum) * fetch<1, 64>(in.bias.at(in.n % 5)) + gelu(cast<float>(sum));
  when((in.n > 3 && in.n < 9) || in.n == 100, [&] { store(in.x.at(in.n * 64, in.n + (in.n - 1) * 2), cast<bf16>(f - row_max(f))); });
  for_each(range{in.n - 3, ceil_div(in.n, 4), 2}, [&](index i) { store(in.x.at(i + 1, i - 1), cast<bf16>(exp2(f) / (f + 1.0f))); });
}

}  // namespace

int main() {
  using plan = kernels::gemm_plan<128, 128, 64, 3>;
  auto print = [](const ir::kernel& k) { std::fputs(ir::print(k, {.locations = false}).c_str(), stdout); };
  print(*trace<orders>("both_sides", "sm_90a", both_sides));
  print(*trace<kernels::gemm_arguments<bf16>>("gemm", "sm_100a", [](block& cta, const kernels::gemm_arguments<bf16>& in) {
    kernels::gemm<bf16, plan>(cta, in, [](const auto& acc, const auto& args, const grid_box& t) {
      return silu(acc * args.alpha + fetch<1, 128>(args.bias.at(t.col))) + cast<float>(fetch<128, 128>(args.residual[t]));
    });
  }));
  print(*trace<kernels::attention_arguments<f16>>("attention", "sm_90a", [](block& cta, const kernels::attention_arguments<f16>& in) { kernels::block_attention<f16, 64, 64>(cta, in); }));
}
