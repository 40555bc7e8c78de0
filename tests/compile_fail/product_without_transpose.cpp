// error: b has another number of columns than the accumulator
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) {
  auto ab = cta.ring<2>("ab", shared<bf16, 128, 64>, shared<bf16, 256, 64>);
  auto d = cta.ring<1>("d", accumulator<float, 128, 256>);
  auto s = ab.drain();
  auto acc = d.fill();
  mma(acc, get<0>(s), get<1>(s));
}
