// Quoted by docs/language.md and docs/rings-and-roles.md.
#include <doctest/doctest.h>

#include "examples/common.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/jit/compile.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {
struct pair_arguments {
  TLX_ARGUMENTS(pair_arguments, (view<bf16, 2>, x), (view<bf16, 2>, y));
};
}  // namespace

TEST_CASE("register tiles: masks, broadcasting, reductions and casts") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    const auto m = examples::open(std::string("sim:") + target);
    examples::array<bf16> from(*m, examples::random_values<bf16>(16 * 64, 1)), y(*m, 16 * 64, bf16(0.0f));
    host::session session(*m);
    const auto body = [](block& cta, const pair_arguments& in) {
      cta.warps(4_warps);
      // [tiles]
      auto x = cast<float>(fetch<16, 64>(in.x.at(0, 0)));               // 16 x 64, f32
      auto centred = x - row_sum(x) * (1.0f / 64);                      // 16 x 1 repeated over the columns
      auto norm = rsqrt(row_sum(centred * centred) * (1.0f / 64) + 1e-5f);  // 16 x 1
      auto upper = col_index<1, 64>(cta.home()) >= 32;                  // 1 x 64, bool
      store(in.y.at(0, 0), cast<bf16>(where(upper, centred * norm, 0.0f)));
      // [/tiles]
    };
    host::launch<pair_arguments>(session, "normalise", body, {from.view({16, 64}), y.view({16, 64})});
    std::vector<double> expected(16 * 64);
    for (std::size_t r = 0; r < 16; ++r) {
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < 64; ++c) mean += static_cast<double>(static_cast<float>(from.host[r * 64 + c])) / 64;
      for (std::size_t c = 0; c < 64; ++c) variance += std::pow(static_cast<double>(static_cast<float>(from.host[r * 64 + c])) - mean, 2) / 64;
      for (std::size_t c = 32; c < 64; ++c) expected[r * 64 + c] = (static_cast<double>(static_cast<float>(from.host[r * 64 + c])) - mean) / std::sqrt(variance + 1e-5);
    }
    CHECK(examples::same(y.fetch(), expected, 0x1p-8, 1e-5));
  }
}

TEST_CASE("a product and a sum round twice, and subnormals are flushed: docs/numerics.md") {
  const auto body = [](block& cta, const pair_arguments& in) {
    cta.warps(4_warps);
    auto x = cast<float>(fetch<16, 64>(in.x.at(0, 0))), y = cast<float>(fetch<16, 64>(in.y.at(0, 0)));
    store(in.y.at(0, 0), cast<bf16>(x * y + y));
  };
  for (const char* target : {"sm_90a", "sm_100a"}) {
    const std::string ptx = jit::compile(*trace<pair_arguments>("twice_rounded", target, body), {.assemble = false, .use_cache = false}).code.ptx;
    CHECK(ptx.find("fma.rn") == std::string::npos);
    CHECK(ptx.find("mad.") == ptx.find("mad.lo"));         // integers may
    CHECK(ptx.find("mul.rn.ftz.f32") != std::string::npos);  // .rn: ptxas may not contract it either
    CHECK(ptx.find("add.rn.ftz.f32") != std::string::npos);
  }
}

TEST_CASE("a ring that nobody drains is an error before anything runs, and the message names ring and role") {
  std::string message;
  try {
    const auto m = examples::open("sim:sm_90a");
    host::session session(*m);
    const auto body = [](block& cta, const pair_arguments& in) {
      // [never_drained]
      auto tiles = cta.persistent(grid_of<64, 64>(in.x));
      auto ring = cta.ring<2>("x", shared<bf16, 64, 64>);
      cta.roles(tiles,
        role("load", 1_warp, [&](const grid_box& t) { load(ring.fill(), in.x[t]); }),
        role("idle", 4_warps, [&](const grid_box& t) { store(in.y[t], fetch<64, 64>(in.x[t])); }));
      // [/never_drained]
    };
    examples::array<bf16> x(*m, 64 * 64, bf16(1.0f));
    host::launch<pair_arguments>(session, "leaky", body, {x.view({64, 64}), x.view({64, 64})});
  } catch (const user_error& e) {
    message = e.what();
  }
  CHECK(message.find("[ring-never-drained]") != std::string::npos);
  CHECK(message.find("role \"load\"") != std::string::npos);
}

TEST_CASE("a tile that was read from shared memory and changed is the A operand of a product") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    for (const bool with_roles : {false, true}) {
      const auto m = examples::open(std::string("sim:") + target);
      examples::array<bf16> x(*m, examples::random_values<bf16>(64 * 64, 3)), y(*m, 64 * 64, bf16(0.0f));
      host::session session(*m);
      const auto square = [](const auto& a, const auto& b) {  // (2 x) x^T: the layouts of a read and of an operand differ
        return mma(cast<bf16>(cast<float>(read(a)) * 2.0f), transpose(b));
      };
      const auto plain = [&](block& cta, const pair_arguments& in) {
        cta.warps(4_warps);
        auto a = cta.ring<1>("a", shared<bf16, 64, 64>), b = cta.ring<1>("b", shared<bf16, 64, 64>);
        cta.tile(grid_of<64, 64>(in.x), [&](const grid_box& t) {
          load(a.fill(), in.x[t]);
          load(b.fill(), in.x[t]);
          store(in.y[t], cast<bf16>(read(square(a.drain(), b.drain()))));
        });
      };
      const auto roles = [&](block& cta, const pair_arguments& in) {
        auto tiles = cta.persistent(grid_of<64, 64>(in.x));
        auto ab = cta.ring<2>("ab", shared<bf16, 64, 64>, shared<bf16, 64, 64>);
        cta.roles(tiles,
          role("load", 1_warp, [&](const grid_box& t) {
            auto slot = ab.fill();
            load(get<0>(slot), in.x[t]);
            load(get<1>(slot), in.x[t]);
          }),
          role("work", 4_warps, [&](const grid_box& t) {
            auto slot = ab.drain();
            store(in.y[t], cast<bf16>(read(square(get<0>(slot), get<1>(slot)))));
          }));
      };
      const std::vector<device::value> values{x.view({64, 64}), y.view({64, 64})};
      if (with_roles) host::launch<pair_arguments>(session, "square_roles", roles, values);
      else host::launch<pair_arguments>(session, "square", plain, values);
      std::vector<double> expected(64 * 64);
      for (std::size_t i = 0; i < 64; ++i)
        for (std::size_t j = 0; j < 64; ++j)
          for (std::size_t k = 0; k < 64; ++k) expected[i * 64 + j] += 2 * static_cast<double>(static_cast<float>(x.host[i * 64 + k]) * static_cast<float>(x.host[j * 64 + k]));
      CAPTURE(target);
      CAPTURE(with_roles);
      CHECK(examples::same(y.fetch(), expected, 0x1p-8, 1e-4));
    }
  }
}

TEST_CASE("roles may ask for registers") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    const auto m = examples::open(std::string("sim:") + target);
    examples::array<bf16> x(*m, examples::random_values<bf16>(200 * 128, 2)), y(*m, 200 * 128, bf16(0.0f));
    host::session session(*m);
    const auto body = [](block& cta, const pair_arguments& in) {
      // [budgets]
      auto tiles = cta.persistent(grid_of<64, 64>(in.x));
      auto ring = cta.ring<3>("x", shared<bf16, 64, 64>);
      cta.roles(tiles,
        role("load", 1_warp, registers{40}, [&](const grid_box& t) { load(ring.fill(), in.x[t]); }),
        role("work", 4_warps, registers{208}, [&](const grid_box& t) { store(in.y[t], read(ring.drain())); }));
      // [/budgets]
    };
    host::launch<pair_arguments>(session, "budgets", body, {x.view({200, 128}), y.view({200, 128})});
    CHECK(y.fetch().size() == x.host.size());
    bool equal = true;
    for (std::size_t i = 0; i < x.host.size(); ++i) equal = equal && y.host[i].code == x.host[i].code;
    CHECK(equal);
  }
}
