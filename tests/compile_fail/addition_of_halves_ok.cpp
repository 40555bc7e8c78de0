#include "tlx/dsl/kernel.hpp"

using namespace tlx;

struct arguments { TLX_ARGUMENTS(arguments, (view<bf16, 2>, x), (view<float, 2>, sums)); };

void body(block& cta, const arguments& in) {
  cta.warps({4});
  add_to(in.sums.at(0, 0), cast<float>(fetch<64, 32>(in.x.at(64, 0))));
}
