#include "tlx/dsl/kernel.hpp"

using namespace tlx;

void body(block& cta) {
  auto r = cta.ring<2>("r", shared<bf16, 64, 64>);
  auto slot = r.fill();
  auto& second = slot;
  (void)second;
}
