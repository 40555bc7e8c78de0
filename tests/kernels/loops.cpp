// Kernels as users write them, in the shapes that the library's own do not have: products in loops, slots that close early, odd roles.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/chained.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/skip.hpp"
#include "tlx/dsl/activation.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

constexpr auto type = tile::element::bf16;

struct matrices {
  std::vector<std::uint16_t> values;
  device::buffer on;
  matrices(device::machine& m, std::vector<std::uint16_t> v) : values(std::move(v)), on(m, values.size() * 2) { on.write(values.data(), values.size() * 2); }
  void fetch() { on.read(values.data(), values.size() * 2); }
  double at(int i) const { return problems::decode(values[static_cast<size_t>(i)], type); }
};
matrices random(device::machine& m, int count, std::uint64_t seed) { return {m, problems::random_values(static_cast<size_t>(count), type, seed)}; }
matrices empty(device::machine& m, int count) { return {m, std::vector<std::uint16_t>(static_cast<size_t>(count), problems::nan_bits())}; }

// c = a b^T with the epilogue given
struct product {
  TLX_ARGUMENTS(product, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, c));
};

void check_product(const matrices& a, const matrices& b, const matrices& c, int m, int n, int k, double factor) {
  int wrong = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int x = 0; x < k; ++x) {
        sum += a.at(i * k + x) * b.at(j * k + x);
        size += std::abs(a.at(i * k + x) * b.at(j * k + x));
      }
      wrong += !(std::abs(c.at(i * n + j) - factor * sum) <= factor * size * 0x1p-18 + std::abs(factor * sum) * 0x1.02p-8);
    }
  CHECK(wrong == 0);
}

// a b^T in M x N tiles, by a loading role of LoadWarps, a multiplying one, and one that is given the ring of accumulators and the tile.
template <int M, int N, int Stages, int Accumulators, int LoadWarps, class Arguments, class Epilogue>
void product_by_roles(block& cta, const Arguments& in, warp_count epilogue_warps, Epilogue epilogue) {
  auto tiles = cta.persistent(grid_of<M, N>(in.c));
  auto ab = cta.ring<Stages>("ab", shared<bf16, M, 64>, shared<bf16, N, 64>);
  auto d = cta.ring<Accumulators>("d", accumulator<float, M, N>);
  cta.roles(tiles,
    role("load", warp_count{LoadWarps}, [&](const grid_box& t) {
      for_each(ceil_div(in.a.extent(1), 64), [&](tlx::index i) {
        auto slot = ab.fill();
        load(get<0>(slot), in.a.at(t.row, i * 64));
        load(get<1>(slot), in.b.at(t.col, i * 64));
      });
    }),
    role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(ceil_div(in.a.extent(1), 64), [&](tlx::index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
      });
    }),
    role("epilogue", epilogue_warps, [&](const grid_box& t) { epilogue(d, t); }));
}

template <int N>
void early_close(block& cta, const product& in) {
  product_by_roles<128, N, 3, 2, 1>(cta, in, cta.has_tensor_memory() ? 4_warps : 8_warps, [&](const auto& d, const grid_box& t) {
    auto values = read(d.drain());  // the slot closes here, the values are used below
    auto twice = values * 2.0f;
    store(in.c[t], cast<bf16>(twice));
  });
}

// sums += the parts of a b^T that a CTA each makes of 64 of K; rows from 50 on are another's. Products add through bulk copies, and by threads where a warp has rows of both.
struct parts {
  TLX_ARGUMENTS(parts, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<float, 2>, sums), (view<float, 2>, turned), (view<std::int32_t, 2>, counts));
};
constexpr int own_rows = 50;
void add_parts(block& cta, const parts& in) {
  auto ab = cta.ring<1>("ab", shared<bf16, 64, 64>, shared<bf16, 32, 64>);
  cta.warps(4_warps);
  cta.tile(grid_of<64, 64>(in.a), [&](const grid_box& t) {
    {
      auto slot = ab.fill();
      load(get<0>(slot), in.a.at(0, t.col));
      load(get<1>(slot), in.b.at(0, t.col));
    }
    auto slot = ab.drain();
    auto acc = mma(get<0>(slot), transpose(get<1>(slot)));
    auto own = in.sums.at(0, 0);
    own.valid_rows = constant(cta.home(), own_rows).used();
    add_to(own, read(acc));
    add_to(in.turned.at(0, 0).axes(1, 0), read(acc));
    add_to(in.counts.at(0, 0), col_index<64, 32>(cta.home()) + t.col);
  });
}

}  // namespace

TEST_CASE("CTAs add to the same elements: through bulk copies and by threads, inside the tensor and the valid rows only") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    constexpr int ctas = 5, k = 64 * ctas, cols = 28;  // fewer than the tile has
    std::vector<std::uint16_t> small(static_cast<size_t>(64 * k));
    for (size_t i = 0; i < small.size(); ++i) small[i] = problems::encode(static_cast<float>(static_cast<int>(i * 7 % 5) - 2), type);  // sums are whole numbers, right in any order
    matrices a{*m.on, small}, b{*m.on, {small.begin() + 3, small.begin() + 3 + cols * k}};
    std::vector<float> sums(64 * cols, 0.5F), turned(cols * 64, 0.25F);
    std::vector<std::int32_t> counts(64 * cols, 3);
    device::buffer sums_on(*m.on, sums.size() * 4), turned_on(*m.on, turned.size() * 4), counts_on(*m.on, counts.size() * 4);
    sums_on.write(sums.data(), sums.size() * 4);
    turned_on.write(turned.data(), turned.size() * 4);
    counts_on.write(counts.data(), counts.size() * 4);
    host::launch<parts>(*m.with, "add_parts", add_parts,
                        {device::view_value(a.on.where(), {64, k}), device::view_value(b.on.where(), {cols, k}), device::view_value(sums_on.where(), {64, cols}), device::view_value(turned_on.where(), {cols, 64}),
                         device::view_value(counts_on.where(), {64, cols})});
    m.on->wait();
    sums_on.read(sums.data(), sums.size() * 4);
    turned_on.read(turned.data(), turned.size() * 4);
    counts_on.read(counts.data(), counts.size() * 4);
    int wrong = 0;
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < cols; ++j) {
        double sum = 0;
        for (int x = 0; x < k; ++x) sum += a.at(i * k + x) * b.at(j * k + x);
        wrong += static_cast<double>(sums[static_cast<size_t>(i * cols + j)]) != 0.5 + (i < own_rows ? sum : 0);
        wrong += static_cast<double>(turned[static_cast<size_t>(j * 64 + i)]) != 0.25 + sum;
        wrong += counts[static_cast<size_t>(i * cols + j)] != 3 + ctas * j + 64 * (ctas * (ctas - 1) / 2);
      }
    CHECK(wrong == 0);
    if (const device::kernel* made = m.with->find("add_parts")) {
      CHECK(made->code.ptx.find("cp.reduce.async.bulk.tensor") != std::string::npos);
      CHECK(made->code.ptx.find("red.global.add.f32") != std::string::npos);
      CHECK(made->code.ptx.find("red.global.add.s32") != std::string::npos);
    }
  });
}

TEST_CASE("an accumulator may be let go before its values are stored") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    constexpr int rows = 128 * 2, cols = 256 * 5, k = 64;  // one K tile: the next product comes at once
    matrices a = random(*m.on, rows * k, 1), b = random(*m.on, cols * k, 2), c = empty(*m.on, rows * cols);
    for (const std::uint64_t seed : {1, 2, 3}) {
      if (m.simulator()) m.simulator()->set_seed(seed);
      host::launch<product>(*m.with, "early_close", early_close<256>, {device::view_value(a.on.where(), {rows, k}), device::view_value(b.on.where(), {cols, k}), device::view_value(c.on.where(), {rows, cols})});
      m.on->wait();
      c.fetch();
      check_product(a, b, c, rows, cols, k, 2);
    }
  });
}

TEST_CASE("a product in a loop may take another product's result as its operand") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int blocks : {1, 2, 3, 6})
      for (const std::uint64_t seed : {1, 2, 3}) {
        if (m.simulator()) m.simulator()->set_seed(seed);
        CAPTURE(blocks);
        CAPTURE(seed);
        constexpr int rows = 128;
        const int keys = 64 * blocks;
        matrices q = random(*m.on, rows * 64, 1), k = random(*m.on, keys * 64, 2), v = random(*m.on, keys * 64, 3), o = empty(*m.on, rows * 64);
        try {
          host::launch<test::chain>(*m.with, "chained", test::chained,
                              {device::view_value(q.on.where(), {rows, 64}), device::view_value(k.on.where(), {keys, 64}), device::view_value(v.on.where(), {keys, 64}), device::view_value(o.on.where(), {rows, 64})});
          m.on->wait();
        } catch (const error& e) {
          FAIL_CHECK(std::string(e.what()));
          return;
        }
        o.fetch();
        int wrong = 0;
        for (int i = 0; i < rows; ++i)
          for (int d = 0; d < 64; ++d) {
            double sum = 0, size = 0;
            for (int j = 0; j < keys; ++j) {
              double s = 0;
              for (int x = 0; x < 64; ++x) s += q.at(i * 64 + x) * k.at(j * 64 + x);
              sum += s / 8 * v.at(j * 64 + d);
              size += std::abs(s / 8 * v.at(j * 64 + d));
            }
            wrong += !(std::abs(o.at(i * 64 + d) - sum) <= size * 0x1.1p-8 + std::abs(sum) * 0x1.02p-8);  // p is rounded to bf16, then the sum
          }
        CHECK(wrong == 0);
      }
  });
}

namespace {

struct move {
  TLX_ARGUMENTS(move, (view<bf16, 2>, x), (view<bf16, 2>, y));
};

template <int Warps, int Registers>
void through_a_ring(block& cta, const move& in) {
  auto tiles = cta.persistent(grid_of<64, 64>(in.y));
  auto ring = cta.ring<2>("r", shared<bf16, 64, 64>);
  cta.roles(tiles,
    role("fetch", warp_count{Warps}, registers{Registers}, [&](const grid_box& t) { write(ring.fill(), fetch<64, 64>(in.x[t])); }),
    role("idle", 1_warp, registers{Registers ? 32 : 0}, [&](const grid_box& t) { when(t.row < 0, [&] { store(in.y[t], fetch<64, 64>(in.x[t])); }); }),
    role("put", 4_warps, [&](const grid_box& t) { store(in.y[t], read(ring.drain())); }));
}

template <int Warps, int Registers>
void check_move(test::machine_under_test& m) {
  constexpr int rows = 200, cols = 136;
  matrices x = random(*m.on, rows * cols, 4), y = empty(*m.on, rows * cols);
  try {
    host::launch<move>(*m.with, cat("move_", Warps, "_", Registers), through_a_ring<Warps, Registers>, {device::view_value(x.on.where(), {rows, cols}), device::view_value(y.on.where(), {rows, cols})});
    m.on->wait();
  } catch (const error& e) {
    FAIL_CHECK(std::string(e.what()));
    return;
  }
  y.fetch();
  CHECK(x.values == y.values);
}

}  // namespace

TEST_CASE("roles of one, two, four and six warps hand tiles on, with register budgets or without") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    check_move<1, 0>(m);
    check_move<2, 0>(m);
    check_move<4, 0>(m);
    check_move<6, 0>(m);
    check_move<2, 40>(m);
    check_move<4, 200>(m);
    check_move<6, 64>(m);
  });
}

namespace {

// c = a b^T with a ring of `Stages` slots, filled by `LoadWarps` warps of which one lane starts the copies.
template <int Stages, int LoadWarps>
void few_stages(block& cta, const product& in) {
  product_by_roles<64, 64, Stages, 1, LoadWarps>(cta, in, 4_warps, [&](const auto& d, const grid_box& t) { store(in.c[t], cast<bf16>(read(d.drain()))); });
}

}  // namespace

TEST_CASE("C26: a ring of one stage hands its slot over, with one loading warp and with four") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    constexpr int rows = 128, cols = 192;
    for (const int k : {64, 128, 320})
      for (const bool four : {false, true}) {
        CAPTURE(k);
        CAPTURE(four);
        matrices a = random(*m.on, rows * k, 1), b = random(*m.on, cols * k, 2), c = empty(*m.on, rows * cols);
        const std::vector<device::value> arguments{device::view_value(a.on.where(), {rows, k}), device::view_value(b.on.where(), {cols, k}), device::view_value(c.on.where(), {rows, cols})};
        try {
          if (four) host::launch<product>(*m.with, "few_stages_four", few_stages<1, 4>, arguments);
          else host::launch<product>(*m.with, "few_stages_one", few_stages<1, 1>, arguments);
          m.on->wait();
        } catch (const error& e) {
          FAIL_CHECK(std::string(e.what()));
          return;
        }
        c.fetch();
        check_product(a, b, c, rows, cols, k, 1);
      }
  });
}

namespace {

// c = a b^T, d = 2 a b^T where asked for, e = 4 a b^T: three stores of one role by way of shared memory, one of them in a branch.
struct several {
  TLX_ARGUMENTS(several, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, c), (view<bf16, 2>, d), (view<bf16, 2>, e), (scalar<std::int32_t>, twice));
};

void stores_in_branches(block& cta, const several& in) {
  product_by_roles<64, 64, 2, 1, 1>(cta, in, 4_warps, [&](const auto& d, const grid_box& t) {
    auto values = read(d.drain());
    store(in.c[t], cast<bf16>(values));
    when(in.twice > 0, [&] { store(in.d[t], cast<bf16>(values * 2.0f)); });
    store(in.e[t], cast<bf16>(values * 4.0f));
  });
}

/// Runs one of them on 128 x 192 results of K = 64: c and e are right, and `written` elements of d are no NaN any more, with right values if they are all.
template <class Kernel>
void check_several(test::machine_under_test& m, const char* name, Kernel kernel, std::int32_t twice, int written) {
  constexpr int rows = 128, cols = 192, k = 64;
  matrices a = random(*m.on, rows * k, 1), b = random(*m.on, cols * k, 2);
  matrices c = empty(*m.on, rows * cols), d = empty(*m.on, rows * cols), e = empty(*m.on, rows * cols);
  const auto result = [&](const matrices& x) { return device::view_value(x.on.where(), {rows, cols}); };
  try {
    host::launch<several>(*m.with, name, kernel, {device::view_value(a.on.where(), {rows, k}), device::view_value(b.on.where(), {cols, k}), result(c), result(d), result(e), device::scalar_value(twice)});
    m.on->wait();
  } catch (const error& wrong) {
    FAIL_CHECK(std::string(wrong.what()));
    return;
  }
  for (matrices* x : {&c, &d, &e}) x->fetch();
  check_product(a, b, c, rows, cols, k, 1);
  check_product(a, b, e, rows, cols, k, 4);
  CHECK(std::count_if(d.values.begin(), d.values.end(), [](std::uint16_t v) { return v != problems::nan_bits(); }) == written);
  if (written == rows * cols) check_product(a, b, d, rows, cols, k, 2);
}

}  // namespace

TEST_CASE("a store in a branch leaves the stores around it right, whether it runs or not") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const bool second : {false, true})
      for (const std::uint64_t seed : {1, 2, 3, 4}) {
        CAPTURE(second);
        CAPTURE(seed);
        if (m.simulator()) m.simulator()->set_seed(seed);
        check_several(m, "stores_in_branches", stores_in_branches, second, second ? 128 * 192 : 0);
      }
  });
}

namespace {

// The same three, the second of fewer rows: a warp whose rows are not all valid stores them itself, and has no copy of its own between those of the first and the third.
void stores_of_fewer_rows(block& cta, const several& in) {
  product_by_roles<64, 64, 2, 1, 1>(cta, in, 4_warps, [&](const auto& d, const grid_box& t) {
    auto values = read(d.drain());
    store(in.c[t], cast<bf16>(values));
    auto fewer = in.d[t];
    fewer.valid_rows = in.twice.used();
    store(fewer, cast<bf16>(values * 2.0f));
    store(in.e[t], cast<bf16>(values * 4.0f));
  });
}

}  // namespace

TEST_CASE("a store of fewer rows leaves the stores around it right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    for (const int valid : {0, 20, 64}) {
      CAPTURE(valid);
      check_several(m, "stores_of_fewer_rows", stores_of_fewer_rows, valid, 128 / 64 * valid * 192);
    }
  });
}

struct counted {
  TLX_ARGUMENTS(counted, (view<float, 2>, y));
};

TEST_CASE("a run of tiles is one row of tiles after the other, and a role keeps what it made for a row while the run is in it") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    // Each tile gets 100 times the number of rows of tiles that the CTA has begun, and how many of its tiles were in this one.
    const auto kernel = [](block& cta, const counted& in) {
      cta.roles(cta.persistent(runs_of<64, 16>(in.y)), role("all", 4_warps, [&](const run_box& t) {
        auto begun = cta.keep([&] { return constant(cta.home(), 0); }), tiles = cta.keep([&] { return constant(cta.home(), 0); });
        auto marks = cta.keep([&] { return splat<float, 64, 1>(cta.home(), 0.0f); });
        when(t.begins, [&] {
          begun.set(begun.get() + 1);
          tiles.set(constant(cta.home(), 0));
          marks.set(marks.get() + 100.0f);
        });
        tiles.set(tiles.get() + 1);
        store(in.y[t], splat<float, 64, 16>(cta.home(), 0.0f) + marks.get() + cast<float>(tiles.get()));
      }));
    };
    if (m.is_gpu()) return;  // as many CTAs as processors are at the test's hand here
    constexpr int processors = 2;
    for (const auto& shape : {std::pair{64, 16}, {64, 80}, {192, 16}, {320, 48}, {256, 112}}) {
      const int rows = shape.first, cols = shape.second;
      CAPTURE(rows);
      CAPTURE(cols);
      const int across = cols / 16, count = rows / 64 * across, ctas = std::min(processors, count);
      device::buffer on(*m.on, static_cast<std::size_t>(rows * cols) * 4);
      host::launch<counted>(*m.with, "counted_runs", kernel, {device::view_value(on.where(), {rows, cols})});
      m.on->wait();
      std::vector<float> y(static_cast<std::size_t>(rows * cols));
      on.read(y.data(), y.size() * 4);
      for (int cta = 0, number = 0; cta < ctas; ++cta) {
        int begun = 0, tiles = 0;
        for (int round = 0; round < count / ctas + (cta < count % ctas); ++round, ++number) {
          if (round == 0 || number % across == 0) ++begun, tiles = 0;
          ++tiles;
          const int row = number / across * 64, col = number % across * 16;
          for (const auto& [i, j] : {std::pair{0, 0}, {63, 15}, {17, 3}}) CHECK(y[static_cast<std::size_t>((row + i) * cols + col + j)] == static_cast<float>(100 * begun + tiles));
        }
      }
    }
  });
}

struct curve {
  TLX_ARGUMENTS(curve, (view<float, 2>, x), (view<float, 2>, y));
};

TEST_CASE("gelu is within 2e-7 |x| of x Phi(x) beside its last rounding, for all sizes, and keeps a NaN") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    constexpr int rows = 64, cols = 64;
    std::vector<float> x(rows * cols), y(x.size());
    std::mt19937 bits(3);
    std::uniform_real_distribution<float> near(-7, 7), exponent(-100, 100);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 4 ? near(bits) : std::copysign(std::exp2(exponent(bits)), near(bits));
    const float infinite = std::numeric_limits<float>::infinity();
    x[0] = std::nanf(""), x[1] = infinite, x[2] = 0, x[3] = -0.0f, x[4] = std::numeric_limits<float>::max(), x[5] = std::numeric_limits<float>::lowest(), x[6] = 5.9f, x[7] = -5.9f, x[8] = -infinite;
    device::buffer in(*m.on, x.size() * 4), out(*m.on, x.size() * 4);
    in.write(x.data(), x.size() * 4);
    const auto kernel = [](block& cta, const curve& of) {
      cta.warps(4_warps);
      cta.tile(grid_of<64, 64>(of.x), [&](const grid_box& t) { store(of.y[t], gelu(fetch<64, 64>(of.x[t]))); });
    };
    host::launch<curve>(*m.with, "gelu_curve", kernel, {device::view_value(in.where(), {rows, cols}), device::view_value(out.where(), {rows, cols})});
    m.on->wait();
    out.read(y.data(), y.size() * 4);
    CHECK(std::isnan(y[0]));
    CHECK(y[1] == infinite);
    for (std::size_t i = 2; i < x.size(); ++i) {
      const double at = static_cast<double>(x[i]), expected = std::isinf(at) ? 0 : 0.5 * at * std::erfc(-at * std::sqrt(0.5)), size = std::min(std::abs(at), 10.0);
      CHECK_MESSAGE(std::abs(static_cast<double>(y[i]) - expected) <= 2e-7 * size + 0x1p-24 * std::abs(expected) + 0x1p-126, cat("gelu(", x[i], ") is ", y[i], ", expected ", expected));
    }
  });
}
