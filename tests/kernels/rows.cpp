// Parts of shared tiles: some rows as an operand of either orientation and side; numbers written by rows and read along the columns.
#include <doctest/doctest.h>

#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/skip.hpp"
#include "tlx/dsl/rows.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

constexpr auto type = tile::element::bf16;
constexpr int K = 128;  // two columns of 128 bytes: their distance is that of the whole tile

struct products {
  TLX_ARGUMENTS(products, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, right), (view<bf16, 2>, down), (view<bf16, 2>, left));
};

// right = a b^T, 32 rows of b at a time; down = a b, 64 rows of b at a time; left: the last 64 rows of b times a^T.
void by_some_rows(block& cta, const products& in) {
  cta.warps(4_warps);
  auto a = cta.ring<1>("a", shared<bf16, 64, K>);
  auto b = cta.ring<1>("b", shared<bf16, K, K>);
  cta.tile(grid_of<64, K>(in.right), [&](const grid_box&) {
    load(a.fill(), in.a.at(0, 0));
    load(b.fill(), in.b.at(0, 0));
    auto as = a.drain();
    auto bs = b.drain();
    const auto all = get<0>(bs);
    for (int first = 0; first < K; first += 32) store(in.right.at(0, first), cast<bf16>(read(mma(as, transpose(rows_of<32>(all, constant(cta.home(), first)))))));
    auto down = cta.make(accumulator<float, 64, K>);
    for (int first = 0; first < K; first += 64) mma(down, cast<bf16>(fetch<64, 64>(in.a.at(0, first))), rows_of<64>(all, constant(cta.home(), first)), accumulate(first > 0));
    store(in.down.at(0, 0), cast<bf16>(read(down)));
    store(in.left.at(0, 0), cast<bf16>(read(mma(rows_of<64>(all, constant(cta.home(), 64)), transpose(as)))));
  });
}

struct sums {
  TLX_ARGUMENTS(sums, (view<float, 2>, x), (view<float, 2>, y));
};

// y(i, j) = 1000 * the sum of row 96 + j of x + i.
template <bool Roles>
void sums_along(block& cta, const sums& in) {
  auto ring = cta.ring<1>("sums", numbers<float, 128>, numbers<float, 64>);
  const auto body = [&] {
    {
      auto slot = ring.fill();
      for (const int first : {0, 64}) write(get<0>(slot), constant(cta.home(), first), row_sum(fetch<64, 64>(in.x.at(first, 0))));
    }
    auto slot = ring.drain();
    const auto rows = cast<float>(row_index<64, 1>(cta.home()));
    store(in.y.at(0, 0), splat<float, 64, 32>(cta.home(), 0.0f) + read_along<32>(get<0>(slot), constant(cta.home(), 96)) * 1000.0f + rows);
  };
  if constexpr (Roles) {
    auto tiles = cta.persistent(grid_of<64, 32>(in.y));
    cta.roles(tiles, role("work", 4_warps, [&](const grid_box&) { body(); }));
  } else {
    cta.warps(4_warps);
    cta.tile(grid_of<64, 32>(in.y), [&](const grid_box&) { body(); });
  }
}

}  // namespace

TEST_CASE("some rows of a shared tile are an operand: second and transposed, second, first") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const auto values = [&](int count, std::uint64_t seed) { return problems::random_values(static_cast<size_t>(count), type, seed); };
    const std::vector<std::uint16_t> a = values(64 * K, 1), b = values(K * K, 2);
    const auto buffer = [&](const std::vector<std::uint16_t>& v) {
      device::buffer made(*m.on, v.size() * 2);
      made.write(v.data(), v.size() * 2);
      return made;
    };
    const std::vector<std::uint16_t> nothing(64 * K, problems::nan_bits());
    const device::buffer da = buffer(a), db = buffer(b);
    device::buffer right = buffer(nothing), down = buffer(nothing), left = buffer(nothing);
    host::launch<products>(*m.with, "by_some_rows", by_some_rows,
                           {device::view_value(da.where(), {64, K}), device::view_value(db.where(), {K, K}), device::view_value(right.where(), {64, K}), device::view_value(down.where(), {64, K}),
                            device::view_value(left.where(), {64, 64})});
    m.on->wait();
    const auto at = [](const std::vector<std::uint16_t>& v, int i) { return problems::decode(v[static_cast<size_t>(i)], type); };
    const auto wrong = [&](device::buffer& of, int cols, const auto& first, const auto& second) {
      std::vector<std::uint16_t> got(static_cast<size_t>(64 * cols));
      of.read(got.data(), got.size() * 2);
      int count = 0;
      for (int i = 0; i < 64; ++i)
        for (int j = 0; j < cols; ++j) {
          double sum = 0, size = 0;
          for (int x = 0; x < K; ++x) {
            const double term = first(i, x) * second(x, j);
            sum += term;
            size += std::abs(term);
          }
          count += !(std::abs(at(got, i * cols + j) - sum) <= size * 0x1p-18 + std::abs(sum) * 0x1.02p-8);
        }
      return count;
    };
    const auto of_a = [&](int i, int x) { return at(a, i * K + x); };
    CHECK(wrong(right, K, of_a, [&](int x, int j) { return at(b, j * K + x); }) == 0);
    CHECK(wrong(down, K, of_a, [&](int x, int j) { return at(b, x * K + j); }) == 0);
    CHECK(wrong(left, 64, [&](int i, int x) { return at(b, (64 + i) * K + x); }, [&](int x, int j) { return at(a, j * K + x); }) == 0);
  });
}

TEST_CASE("numbers are written by rows and read along the columns, with roles and without") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    std::vector<float> x(128 * 64), y(64 * 32, -1.0f);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + i / 64) % 13);
    device::buffer dx(*m.on, x.size() * 4), dy(*m.on, y.size() * 4);
    dx.write(x.data(), x.size() * 4);
    for (const bool roles : {false, true}) {
      CAPTURE(roles);
      dy.write(std::vector<float>(y.size(), -1.0f).data(), y.size() * 4);
      host::launch<sums>(*m.with, roles ? "sums_along_roles" : "sums_along", roles ? sums_along<true> : sums_along<false>, {device::view_value(dx.where(), {128, 64}), device::view_value(dy.where(), {64, 32})});
      m.on->wait();
      dy.read(y.data(), y.size() * 4);
      int wrong = 0;
      for (size_t i = 0; i < 64; ++i)
        for (size_t j = 0; j < 32; ++j) {
          float sum = 0;
          for (size_t c = 0; c < 64; ++c) sum += x[(96 + j) * 64 + c];
          wrong += y[i * 32 + j] != 1000 * sum + static_cast<float>(i);
        }
      CHECK(wrong == 0);
    }
  });
}
