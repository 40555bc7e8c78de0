// Pipelines that users of other tiled-kernel systems have seen go wrong, as tlx kernels.
#include <doctest/doctest.h>

#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/skip.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct copies {
  TLX_ARGUMENTS(copies, (view<bf16, 2>, x), (view<bf16, 2>, y), (view<bf16, 2>, z));
};

// Two loops one after the other, each through a ring of its own depth; the barriers of both live for the whole kernel.
template <int First, int Second>
void two_loops(block& cta, const copies& in) {
  auto tiles = cta.persistent(grid_of<64, 256>(in.y));
  auto a = cta.ring<First>("a", shared<bf16, 64, 64>);
  auto b = cta.ring<Second>("b", shared<bf16, 64, 64>);
  cta.roles(tiles,
    role("load", 1_warp, [&](const grid_box& t) {
      for_each(ceil_div(in.x.extent(1), 64), [&](tlx::index i) { load(a.fill(), in.x.at(t.row, i * 64)); });
      for_each(ceil_div(in.x.extent(1), 64), [&](tlx::index i) { load(b.fill(), in.x.at(t.row, i * 64)); });
    }),
    role("put", 4_warps, [&](const grid_box& t) {
      for_each(ceil_div(in.x.extent(1), 64), [&](tlx::index i) { store(in.y.at(t.row, i * 64), read(a.drain())); });
      for_each(ceil_div(in.x.extent(1), 64), [&](tlx::index i) { store(in.z.at(t.row, i * 64), cast<bf16>(cast<float>(read(b.drain())) * 2.0f)); });
    }));
}

template <int First, int Second>
void check_loops(test::machine_under_test& m, int cols) {
  constexpr int rows = 200;
  CAPTURE(First);
  CAPTURE(Second);
  CAPTURE(cols);
  const std::vector<std::uint16_t> x = problems::random_values(static_cast<size_t>(rows * cols), tile::element::bf16, 4);
  std::vector<std::uint16_t> y(x.size(), problems::nan_bits()), z = y;
  device::buffer x_on(*m.on, x.size() * 2), y_on(*m.on, x.size() * 2), z_on(*m.on, x.size() * 2);
  x_on.write(x.data(), x.size() * 2);
  y_on.write(y.data(), x.size() * 2);
  z_on.write(z.data(), x.size() * 2);
  try {
    host::launch<copies>(*m.with, cat("two_loops_", First, "_", Second), two_loops<First, Second>, {device::view_value(x_on.where(), {rows, cols}), device::view_value(y_on.where(), {rows, cols}), device::view_value(z_on.where(), {rows, cols})});
    m.on->wait();
  } catch (const error& e) {
    FAIL_CHECK(std::string(e.what()));
    return;
  }
  y_on.read(y.data(), x.size() * 2);
  z_on.read(z.data(), x.size() * 2);
  CHECK(x == y);
  int wrong = 0;
  for (size_t k = 0; k < x.size(); ++k) wrong += problems::decode(z[k], tile::element::bf16) != 2 * problems::decode(x[k], tile::element::bf16);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("two loops in a row may have rings of different depth, one slot included, and any number of rounds") {  // C25, C26, C33, C36
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const std::uint64_t seed : {1, 5, 9, 14}) {
      if (m.simulator()) m.simulator()->set_seed(seed);
      else if (seed != 1) break;
      for (const int cols : {64, 128, 200, 256}) {
        check_loops<2, 4>(m, cols);
        check_loops<4, 2>(m, cols);
        check_loops<3, 1>(m, cols);
        check_loops<1, 1>(m, cols);
        check_loops<3, 3>(m, cols);
      }
    }
    if (m.simulator()) m.simulator()->set_seed(1);
  });
}
