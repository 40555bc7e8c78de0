// Pipelines that users of other tiled-kernel systems have seen go wrong, as tlx kernels.
#include <doctest/doctest.h>

#include <cmath>

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

TEST_CASE("C33: two loops in a row may have rings of different depth, one slot included, and any number of rounds") {
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

namespace {

/// Whole numbers from 0 to `below` - 1 as bf16: sums of few of them are exact.
std::vector<std::uint16_t> whole_numbers(size_t count, std::uint32_t below, std::uint32_t seed, float less = 0) {
  std::vector<std::uint16_t> v(count);
  for (std::uint16_t& x : v) {
    seed = seed * 1664525U + 1013904223U;
    x = bf16(static_cast<float>((seed >> 16) % below) - less).code;
  }
  return v;
}

struct sum_arguments {
  TLX_ARGUMENTS(sum_arguments, (view<bf16, 2>, a), (view<bf16, 2>, one), (view<bf16, 2>, y));
};

// acc += S, then S = the next tile of a: what is read is overwritten behind the read. The sum is a product with the identity.
template <int Stages>
void read_then_overwrite(block& cta, const sum_arguments& in) {
  cta.warps(4_warps);
  cta.home().kernel().grid[0] = "1";
  auto s = cta.ring<Stages>("s", shared<bf16, 64, 64>);
  auto one = cta.ring<1>("one", shared<bf16, 64, 64>);
  load(one.fill(), in.one.at(0, 0));
  auto identity = one.drain();
  load(s.fill(), in.a.at(0, 0));
  auto acc = mma(s.drain(), identity);
  load(s.fill(), in.a.at(64, 0));
  for_each(range{constant(cta.home(), 1), constant(cta.home(), 8)}, [&](tlx::index i) {
    mma(acc, s.drain(), identity, accumulate(i > 0));
    load(s.fill(), in.a.at((i + 1) * 64, 0));
  });
  mma(acc, s.drain(), identity, accumulate(in.a.extent(0) > 0));
  store(in.y.at(0, 0), cast<bf16>(read(acc)));
}

template <int Stages>
std::vector<std::uint16_t> overwritten(test::machine_under_test& m, const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& one) {
  device::buffer a_on(*m.on, a.size() * 2), one_on(*m.on, one.size() * 2), y_on(*m.on, one.size() * 2);
  std::vector<std::uint16_t> y(one.size(), problems::nan_bits());
  a_on.write(a.data(), a.size() * 2);
  one_on.write(one.data(), one.size() * 2);
  y_on.write(y.data(), y.size() * 2);
  host::launch<sum_arguments>(*m.with, cat("read_then_overwrite_", Stages), read_then_overwrite<Stages>, {device::view_value(a_on.where(), {9 * 64, 64}), device::view_value(one_on.where(), {64, 64}), device::view_value(y_on.where(), {64, 64})});
  m.on->wait();
  y_on.read(y.data(), y.size() * 2);
  return y;
}

}  // namespace

TEST_CASE("C27: a buffer that is read and then overwritten in a loop gives the same sum with every number of slots") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const std::vector<std::uint16_t> a = whole_numbers(9 * 64 * 64, 13, 1);
    std::vector<std::uint16_t> one(64 * 64, 0), expected(64 * 64);
    for (size_t i = 0; i < 64; ++i) one[i * 65] = bf16(1.0F).code;
    for (size_t e = 0; e < expected.size(); ++e) {
      double sum = 0;
      for (size_t i = 0; i < 9; ++i) sum += problems::decode(a[i * 64 * 64 + e], tile::element::bf16);
      expected[e] = bf16(static_cast<float>(sum)).code;
    }
    for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
      if (m.simulator()) m.simulator()->set_seed(seed);
      else if (seed != 1) break;
      CHECK(overwritten<1>(m, a, one) == expected);
      CHECK(overwritten<2>(m, a, one) == expected);
      CHECK(overwritten<3>(m, a, one) == expected);
      CHECK(overwritten<4>(m, a, one) == expected);
    }
    if (m.simulator()) m.simulator()->set_seed(1);
  });
}

namespace {

struct moments {
  TLX_ARGUMENTS(moments, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, ones), (view<float, 2>, products), (view<float, 2>, sums));
};

// products = a^T b and sums = ones^T a, both from the same tile of a, in either order.
template <int Stages, bool SumsFirst>
void two_uses(block& cta, const moments& in) {
  auto tiles = cta.persistent(grid_of<64, 128>(in.products));
  auto ab = cta.ring<Stages>("ab", shared<bf16, 64, 64>, shared<bf16, 64, 128>);
  auto one = cta.ring<1>("one", shared<bf16, 64, 64>);
  auto p = cta.ring<1>("p", accumulator<float, 64, 128>);
  auto s = cta.ring<1>("s", accumulator<float, 64, 64>);
  const auto rounds = [&] { return ceil_div(in.a.extent(0), 64); };
  cta.roles(tiles,
    role("load", 1_warp, [&](const grid_box& t) {
      load(one.fill(), in.ones.at(0, 0));
      for_each(rounds(), [&](tlx::index i) {
        auto slot = ab.fill();
        load(get<0>(slot), in.a.at(i * 64, t.row));
        load(get<1>(slot), in.b.at(i * 64, t.col));
      });
    }),
    role("mma", 1_warp, [&](const grid_box&) {
      auto product = p.fill();
      auto sum = s.fill();
      auto ones = one.drain();
      for_each(rounds(), [&](tlx::index i) {
        auto slot = ab.drain();
        if (SumsFirst) mma(sum, transpose(ones), get<0>(slot), accumulate(i > 0));
        mma(product, transpose(get<0>(slot)), get<1>(slot), accumulate(i > 0));
        if (!SumsFirst) mma(sum, transpose(ones), get<0>(slot), accumulate(i > 0));
      });
    }),
    role("out", 4_warps, [&](const grid_box& t) {
      store(in.products[t], read(p.drain()));
      store(in.sums.at(0, t.row), read(s.drain()));
    }));
}

struct two_results {
  std::vector<float> products, sums;
  bool operator==(const two_results&) const = default;
};

template <int Stages, bool SumsFirst>
two_results used_twice(test::machine_under_test& m, const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b, int rows) {
  const std::vector<std::uint16_t> ones(64 * 64, bf16(1.0F).code);
  two_results r{std::vector<float>(128 * 128, std::nanf("")), std::vector<float>(64 * 128, std::nanf(""))};
  device::buffer a_on(*m.on, a.size() * 2), b_on(*m.on, b.size() * 2), ones_on(*m.on, ones.size() * 2), p_on(*m.on, r.products.size() * 4), s_on(*m.on, r.sums.size() * 4);
  a_on.write(a.data(), a.size() * 2);
  b_on.write(b.data(), b.size() * 2);
  ones_on.write(ones.data(), ones.size() * 2);
  p_on.write(r.products.data(), r.products.size() * 4);
  s_on.write(r.sums.data(), r.sums.size() * 4);
  host::launch<moments>(*m.with, cat("two_uses_", Stages, SumsFirst), two_uses<Stages, SumsFirst>,
                        {device::view_value(a_on.where(), {rows, 128}), device::view_value(b_on.where(), {rows, 128}), device::view_value(ones_on.where(), {64, 64}), device::view_value(p_on.where(), {128, 128}), device::view_value(s_on.where(), {64, 128})});
  m.on->wait();
  p_on.read(r.products.data(), r.products.size() * 4);
  s_on.read(r.sums.data(), r.sums.size() * 4);
  return r;
}

}  // namespace

TEST_CASE("C32: two uses of one loaded tile give the same in either order, with every number of slots and a tail") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const int rows = m.is_gpu() ? 5000 : 64 * 4 + 8;
    const std::vector<std::uint16_t> a = whole_numbers(static_cast<size_t>(rows) * 128, 5, 2, 2), b = whole_numbers(static_cast<size_t>(rows) * 128, 7, 3, 3);
    two_results expected{std::vector<float>(128 * 128), std::vector<float>(64 * 128)};
    for (int k = 0; k < rows; ++k)
      for (int i = 0; i < 128; ++i) {
        const auto x = static_cast<float>(problems::decode(a[static_cast<size_t>(k * 128 + i)], tile::element::bf16));
        for (int j = 0; j < 128; ++j) expected.products[static_cast<size_t>(i * 128 + j)] += x * static_cast<float>(problems::decode(b[static_cast<size_t>(k * 128 + j)], tile::element::bf16));
        for (int r = 0; r < 64; ++r) expected.sums[static_cast<size_t>(r * 128 + i)] += x;
      }
    const auto check = [&](const two_results& found) { CHECK(found == expected); };  // whole numbers below 2^24: any order of sums is exact
    check(used_twice<1, false>(m, a, b, rows));
    check(used_twice<1, true>(m, a, b, rows));
    check(used_twice<2, false>(m, a, b, rows));
    check(used_twice<2, true>(m, a, b, rows));
    check(used_twice<3, false>(m, a, b, rows));
    check(used_twice<3, true>(m, a, b, rows));
  });
}

namespace {

struct byte_rows {
  TLX_ARGUMENTS(byte_rows, (view<e4m3, 2>, x), (view<float, 2>, y));
};
void widen_bytes(block& cta, const byte_rows& in) {
  cta.warps(4_warps);
  cta.home().kernel().grid[0] = "1";
  store(in.y.at(0, 0), cast<float>(fetch<16, 16>(in.x.at(0, 0))));
}

}  // namespace

TEST_CASE("C43: a row of bytes is read right wherever it starts") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int shift : {0, 1, 2, 4, 8})
      for (const int stride : {16, 17, 20, 24}) {
        CAPTURE(shift);
        CAPTURE(stride);
        std::vector<std::uint8_t> x(static_cast<size_t>(shift + 16 * stride));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(i * 37 % 127);  // no NaN
        std::vector<float> y(16 * 16, std::nanf(""));
        device::buffer x_on(*m.on, x.size()), y_on(*m.on, y.size() * 4);
        x_on.write(x.data(), x.size());
        y_on.write(y.data(), y.size() * 4);
        try {
          host::launch<byte_rows>(*m.with, "widen_bytes", widen_bytes, {device::view_value(x_on.where() + static_cast<std::uint64_t>(shift), {16, 16}, {stride, 1}), device::view_value(y_on.where(), {16, 16})});
          m.on->wait();
        } catch (const error& e) {
          FAIL_CHECK(std::string(e.what()));
          continue;
        }
        y_on.read(y.data(), y.size() * 4);
        int wrong = 0;
        for (int r = 0; r < 16; ++r)
          for (int c = 0; c < 16; ++c) wrong += y[static_cast<size_t>(r * 16 + c)] != static_cast<float>(e4m3::from_code(x[static_cast<size_t>(shift + r * stride + c)]));
        CHECK(wrong == 0);
      }
  });
}
