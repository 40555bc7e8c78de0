// Quoted by docs/checking.md: one mistake, found before code is generated and, with the check off, on the simulator.
#include <doctest/doctest.h>

#include <cstdlib>

#include "examples/common.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct clip_arguments {
  TLX_ARGUMENTS(clip_arguments, (view<bf16, 2>, x), (view<bf16, 2>, y));
};

// [short_load]
void clip_rows(block& cta, const clip_arguments& in) {
  auto rows = cta.persistent(grid_of<64, 256>(in.y));
  auto ring = cta.ring<3>("x", shared<bf16, 64, 64>);
  auto rounds = [&] { return in.x.extent(1) / 64; };
  cta.roles(rows,
    role("load", 1_warp, [&](const grid_box& t) {
      for_each(rounds() - 1, [&](tlx::index i) { load(ring.fill(), in.x.at(t.row, i * 64)); });  // the last tile is forgotten
    }),
    role("clip", 4_warps, [&](const grid_box& t) {
      for_each(rounds(), [&](tlx::index i) { store(in.y.at(t.row, i * 64), cast<bf16>(min(cast<float>(read(ring.drain())), 1.0f))); });
    }));
}
// [/short_load]

std::string text_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("the page shows what the protocol check says of its kernel") {
  const std::string said = text_of([] { jit::compile(*trace<clip_arguments>("clip_rows", "sm_90a", clip_rows), {.assemble = false, .use_cache = false}); });
  CHECK(said.rfind("tlx error [protocol-deadlock]: the kernel hangs: role \"clip\"", 0) == 0);
  const std::string page = read_file(cat(TLX_SOURCE_DIR, "/docs/checking.md"));
  CHECK_MESSAGE(page.find(said) != std::string::npos, said);
}

TEST_CASE("the simulator finds the same mistake when the check is off") {
  setenv("TLX_CHECK", "off", 1);
  const std::string said = text_of([] {
    const auto machine = examples::open("sim:sm_90a");
    examples::array<bf16> x(*machine, examples::random_values<bf16>(64 * 256, 1)), y(*machine, 64 * 256, bf16(0.0f));
    host::session session(*machine);
    host::launch<clip_arguments>(session, "clip_rows", clip_rows, {x.view({64, 256}), y.view({64, 256})});
  });
  unsetenv("TLX_CHECK");
  CHECK_MESSAGE(said.rfind("tlx sim error [deadlock]", 0) == 0, said);
  MESSAGE(said);
}
