// A kernel of two products in a row without roles: all four warps wait, meet and multiply together.
#pragma once
#include "tlx/dsl/kernel.hpp"

namespace tlx::test {

using namespace literals;

struct chain {
  TLX_ARGUMENTS(chain, (view<bf16, 2>, q), (view<bf16, 2>, k), (view<bf16, 2>, v), (view<bf16, 2>, o));
};

// o = sum over blocks i of bf16(q k_i^T / 8) v_i: a product whose operand is another product's result, in a loop.
inline void chained(block& cta, const chain& in) {
  cta.warps(4_warps);
  auto q = cta.ring<1>("q", shared<bf16, 64, 64>);
  auto k = cta.ring<2>("k", shared<bf16, 64, 64>), v = cta.ring<2>("v", shared<bf16, 64, 64>);
  const tlx::index row = cta.cta_id() * 64;
  cta.home().kernel().grid[0] = "(ceil_div q.0 64)";
  load(q.fill(), in.q.at(row, 0));
  auto mine = q.drain();
  load(k.fill(), in.k.at(0, 0));
  load(v.fill(), in.v.at(0, 0));
  auto o = mma(cast<bf16>(read(mma(mine, transpose(k.drain()))) * 0.125f), v.drain());
  for_each(range{constant(cta.home(), 1), ceil_div(in.k.extent(0), 64)}, [&](tlx::index i) {
    load(k.fill(), in.k.at(i * 64, 0));
    load(v.fill(), in.v.at(i * 64, 0));
    auto p = cast<bf16>(read(mma(mine, transpose(k.drain()))) * 0.125f);
    mma(o, p, v.drain(), accumulate(i > 0));
  });
  store(in.o.at(row, 0), cast<bf16>(read(o)));
}

}  // namespace tlx::test
