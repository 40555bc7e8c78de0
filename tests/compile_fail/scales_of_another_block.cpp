// error: there is one scale for each 32 numbers of K
#include "tlx/dsl/kernel.hpp"
#include "tlx/dsl/scaled.hpp"

using namespace tlx;

void body(block& cta) {
  auto ring = cta.ring<2>("ab", shared<e4m3, 128, 128>, shared<e4m3, 128, 128>, scales<ue8m0, 128, 8>, scales<ue8m0, 128, 8>);
  auto x = ring.drain();
  mma_scaled(cta.make(accumulator<float, 128, 128>), get<0>(x), get<2>(x), transpose(get<1>(x)), get<3>(x), accumulate(false));
}
