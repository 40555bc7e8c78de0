// What passes do to kernels whose roles read, keep and hand over more than a GEMM's do.
#include <doctest/doctest.h>

#include "steps.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/kernels/normed.hpp"

using namespace tlx;
using ir::opcode;

namespace {

using arguments = kernels::normed_arguments<bf16>;
constexpr auto as_is = [](const auto& x, const arguments&, const grid_box&) { return x; };
constexpr auto nothing = [](const auto&, const arguments&, const grid_box&) {};

std::unique_ptr<ir::kernel> rows_of_a(const std::string& target) {
  return trace<arguments>("normed_gemm", target, [](block& cta, const arguments& in) { kernels::normed_gemm<bf16, kernels::gemm_plan<128, 128, 64, 3>>(cta, in, as_is); });
}
template <int N>
std::unique_ptr<ir::kernel> rows_of_c(const std::string& target) {
  return trace<arguments>("gemm_normed", target, [](block& cta, const arguments& in) { kernels::gemm_normed<bf16, kernels::gemm_plan<64, N, 32, 3>>(cta, in, false, as_is, nothing, as_is); });
}

std::vector<std::string> roles(const ir::kernel& k) {
  std::vector<std::string> names;
  ir::walk(k.body, [&](const ir::op& o) {
    if (o.is(opcode::role)) names.push_back(o.text("name"));
  });
  return names;
}

// Accumulators that have a value before their first product.
int given_zeros(const ir::kernel& k) {
  int n = 0;
  ir::walk(k.body, [&](const ir::op& o) { n += o.is(opcode::var_new) && o.result()->name == "acc" && !o.operands.empty(); });
  return n;
}

}  // namespace

TEST_CASE("what is reduced beside an accumulator is read in its layout, and nothing is converted") {
  auto k = rows_of_a("sm_90a");
  test::run_passes(*k, "assign-layouts");
  CHECK(test::count_ops(*k, opcode::reduce) == 1);
  CHECK(test::count_ops(*k, opcode::convert) == 0);
}

TEST_CASE("two pairs of roles that hand tiles to each other are merged where what either uses is made") {
  auto hopper = rows_of_c<256>("sm_90a"), blackwell = rows_of_c<256>("sm_100a");
  test::run_passes(*hopper, "merge-roles");  // its result is verified: every ring stands before the roles that use it
  test::run_passes(*blackwell, "merge-roles");
  CHECK(roles(*hopper) == std::vector<std::string>{"load", "mma_left+left", "mma_right+right"});
  CHECK(roles(*blackwell) == std::vector<std::string>{"load", "mma_left", "mma_right", "left", "right"});
}

TEST_CASE("an accumulator of half a consumer's registers ends with its tile where what is made of it is kept") {
  auto wide = rows_of_c<256>("sm_90a"), narrow = rows_of_c<128>("sm_90a"), stored = rows_of_a("sm_90a");
  for (auto* k : {&wide, &narrow, &stored}) test::run_passes(**k, "lower-mma");
  CHECK(given_zeros(*wide) == 2);
  CHECK(given_zeros(*narrow) == 0);
  CHECK(given_zeros(*stored) == 0);
}
