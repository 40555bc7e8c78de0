// error: the columns of a and the rows of b (K) differ
#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) {
  auto a = cta.ring<2>("a", shared<bf16, 64, 64>);
  auto b = cta.ring<2>("b", shared<bf16, 32, 64>);
  auto x = a.drain();
  auto y = b.drain();
  (void)mma(x, y);
}
