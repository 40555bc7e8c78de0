// What watching does to the code, and above all what not watching does not.
#include <doctest/doctest.h>

#include "broken.hpp"
#include "tlx/host/library.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct moves {
  TLX_ARGUMENTS(moves, (view<bf16, 2>, x), (view<bf16, 2>, y), (view<std::int32_t, 1>, table), (scalar<std::int32_t>, n));
};

template <bool Checked>
void mover(block& cta, const moves& in) {
  auto tiles = cta.persistent(grid_of<64, 64>(in.y));
  auto ring = cta.ring<2>("r", shared<bf16, 64, 64>);
  cta.roles(tiles,
    role("put", 1_warp, [&](const grid_box& t) {
      if constexpr (Checked) require(element(in.table.at(t.row)) + lane(cta.home()) < in.n, "the table is right", element(in.table.at(t.row)));
      load(ring.fill(), in.x[t]);
    }),
    role("take", 4_warps, [&](const grid_box& t) {
      auto values = read(ring.drain());
      auto count = cta.carry(constant(cta.home(), 0));
      if constexpr (Checked) when(t.row > 0, [&] { require(count.get() + t.col < in.n, "it fits"); });
      store(in.y[t], values);
    }));
}

template <class Body>
std::string ptx_of(const char* target, Body&& body, jit::watch_options how) {
  jit::compile_options options{.assemble = false, .line_info = false, .use_cache = false};
  options.watch = how;
  return jit::compile(*trace<moves>("mover", target, body), options).code.ptx;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("not watched: requirements leave nothing, the PTX is that of the kernel without them") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    const std::string without = ptx_of(target, mover<false>, {});
    CHECK(ptx_of(target, mover<true>, {}) == without);
    const std::string with = ptx_of(target, mover<true>, {.seconds = 1});
    CHECK(with != without);
    CHECK(has(with, "%globaltimer"));
    CHECK(has(with, watch_state_name));
  }
}

TEST_CASE("not watched: no kernel of the library has a trace of it, and bounds alone are not watching") {
  for (const host::library_kernel& k : host::library_kernels()) {
    if (!has(k.name, "128x128_nt") && !has(k.name, "attention")) continue;
    for (const char* target : {"sm_90a", "sm_100a"}) {
      CAPTURE(k.name);
      jit::compile_options options{.assemble = false, .use_cache = false};
      options.watch = jit::watch_options{.seconds = 0, .bounds = true};
      const device::kernel plain = jit::compile(*k.trace(target), options);
      for (const char* word : {"globaltimer", "tlx_watch", "test_wait", "vote.sync"}) CHECK_FALSE(has(plain.code.ptx, word));
      CHECK_FALSE(plain.code.watch.on());
      // With the mode compiled in but the passes alone: the same text.
      const device::kernel passes = broken::build(*k.trace(target), 0, [](ir::kernel&) {});
      CHECK(passes.code.ptx == plain.code.ptx);
    }
    break;
  }
}

TEST_CASE("watched: every wait and meeting has a number that the table names, and the IR says so and is read back") {
  for (const host::library_kernel& k : host::library_kernels()) {
    if (!has(k.name, "gemm_bf16_128x128_nt") && !has(k.name, "attention_bf16_d64")) continue;
    for (const char* target : {"sm_90a", "sm_100a"}) {
      CAPTURE(k.name);
      size_t waits = 0;
      std::string text;
      jit::observer seen;
      seen.after = [&](const std::string& stage, const ir::kernel& now) {
        if (stage != "watch") return;
        text = ir::print(now);
        ir::walk(now.body, [&](const ir::op& o) {
          if (o.is(ir::opcode::mbarrier_wait)) CHECK(o.has("site"));
          waits += o.has("site");
        });
      };
      jit::compile_options options{.assemble = false, .use_cache = false};
      options.watch = jit::watch_options{.seconds = 2.5};
      const device::kernel made = jit::compile(*k.trace(target), options, seen);
      CHECK(made.code.watch.seconds == 2.5);
      CHECK(made.code.watch.sites.size() == waits);
      CHECK(waits > 0);
      CHECK_FALSE(made.code.watch.rings.empty());
      CHECK(ir::print(*ir::parse(text)) == text);
      const device::kernel back = device::from_manifest(device::to_manifest(made));
      CHECK(device::to_manifest(back) == device::to_manifest(made));
      CHECK(back.code.watch.sites.size() == waits);
    }
  }
}

TEST_CASE("TLX_WATCH is a number of seconds, or that and bounds; anything else is refused") {
  const auto read = [](const char* value) -> std::string {
    setenv("TLX_WATCH", value, 1);
    std::string result;
    try {
      const jit::watch_options how = jit::watch_from_environment();
      result = cat(how.seconds, how.bounds ? " bounds" : "");
    } catch (const error& e) {
      result = e.id();
    }
    unsetenv("TLX_WATCH");
    return result;
  };
  CHECK(read("") == "0");
  CHECK(read("0") == "0");
  CHECK(read("2") == "2");
  CHECK(read("0.5,bounds") == "0.5 bounds");
  for (const char* wrong : {"soon", "2,", "2,limits", "-1", "1e9", "0.0001", "nan", ",bounds"}) {
    CAPTURE(wrong);
    CHECK(read(wrong) == "watch-limit-invalid");
  }
  jit::compile_options options{.assemble = false, .use_cache = false};
  options.watch = jit::watch_options{.seconds = 1e5};
  CHECK_THROWS_AS(jit::compile(*trace<moves>("mover", "sm_90a", mover<true>), options), user_error);
}

TEST_CASE("a cluster barrier between waits cannot be watched, and is refused by name") {
  const auto k = trace<moves>("mover", "sm_90a", mover<true>);
  std::string id;
  try {
    broken::build(*k, 1, [](ir::kernel& b) {
      ir::op* wait = broken::find(b, [](const ir::op& o) { return o.is(ir::opcode::mbarrier_wait); })[0];
      ir::builder::after(b, *wait).make(ir::opcode::cluster_sync);
    });
  } catch (const error& e) {
    id = e.id();
  }
  CHECK(id == "watch-cluster-barrier");
}
