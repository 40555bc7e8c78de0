// error: tlx: mma(acc, a, b): both operands are of one kind
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) {
  auto a = cta.ring<2>("a", shared<bf16, 64, 64>);
  auto b = cta.ring<2>("b", shared<f16, 64, 32>);
  auto x = a.drain();
  auto y = b.drain();
  (void)mma(x, y);
}
