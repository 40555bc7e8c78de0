// A program that registers a kernel and hands it over when tlxc asks; started by a user it does its own work.
#include <cstdio>

#include "tlx/dsl/registry.hpp"

using namespace tlx;
using namespace tlx::literals;

struct add_one_arguments {
  TLX_ARGUMENTS(add_one_arguments, (view<float, 1>, x));
};

void add_one(block& cta, const add_one_arguments& in) {
  cta.warps(1_warp);
  cta.tile(lines_of<128>(in.x), [&](const line_box& t) { store(in.x[t], fetch<1, 128>(in.x[t]) + 1.0f); });
}

TLX_KERNEL(add_one, add_one_arguments, add_one);

int main() {
  if (hand_over_kernels()) return 0;
  std::puts("its own work");
}
