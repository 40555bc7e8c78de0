// error: tlx: mma(acc, a, b): both operands must be bf16, or both f16
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) {
  auto a = cta.ring<2>("a", shared<float, 64, 64>);
  auto b = cta.ring<2>("b", shared<float, 64, 32>);
  auto x = a.drain();
  auto y = b.drain();
  (void)mma(x, y);
}
