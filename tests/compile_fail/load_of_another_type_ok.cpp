#include "tlx/dsl/kernel.hpp"

using namespace tlx;

struct arguments { TLX_ARGUMENTS(arguments, (view<bf16, 2>, a), (view<f16, 2>, h)); };

void body(block& cta, const arguments& in) {
  auto r = cta.ring<2>("r", shared<bf16, 64, 64>);
  load(r.fill(), in.a.at(0, 0));
}
