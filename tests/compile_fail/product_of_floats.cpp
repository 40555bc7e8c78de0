// error: tlx: mma(acc, a, b): operands are bf16, f16, tf32, e4m3, e5m2, s8 or u8
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) {
  auto a = cta.ring<2>("a", shared<float, 64, 64>);
  auto b = cta.ring<2>("b", shared<float, 64, 32>);
  auto x = a.drain();
  auto y = b.drain();
  (void)mma(x, y);
}
