// Every way to launch, against the fake driver: a launch that repeats allocates nothing and asks the driver for the current context and the launch alone.
#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <string>

#include "runtime/driver.hpp"
#include "tests/runtime/fake.hpp"
#include "tests/support/allocations.hpp"
#include "tlx/bundle/arguments.hpp"
#include "tlx/bundle/library.hpp"
#include "tlx/bundle/write.hpp"
#include "tlx/c.h"
#include "tlx/host/gemm.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/runtime/gpu.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<float, 1>, x), (view<float, 1>, y), (scalar<float>, alpha));
};
void scale(block& cta, const arguments& in) {
  cta.warps(4_warps);
  cta.tile(lines_of<128>(in.y), [&](const line_box& t) { store(in.y[t], fetch<1, 128>(in.x[t]) * in.alpha); });
}

struct scale_struct {  // as tlxc build --header writes it
  static constexpr const char* tlx_kernel = "scale";
  static constexpr const char* tlx_signature = "x:f32[1] y:f32[1] alpha:f32";
  bundle::tensor<1> x, y;
  float alpha = 0;
  std::array<device::value_ref, 3> tlx_arguments() const { return {bundle::refer(x), bundle::refer(y), bundle::refer(alpha)}; }
};

struct counted {
  long allocations;
  int launches, contexts, all;
};

// What one call of `launch` costs once it repeats.
counted repeats(const std::function<void()>& launch) {
  constexpr int times = 50;
  const auto in_all = [] {
    int all = 0;
    for (const std::string& symbol : runtime::driver_symbols()) all += fake().calls(symbol.c_str());
    return all - fake().calls("cuCtxPushCurrent_v2") - fake().calls("cuCtxPopCurrent_v2");  // this thread has no context of its own
  };
  for (int i = 0; i < 3; ++i) launch();
  const counted before{test::allocations, fake().calls("cuLaunchKernelEx"), fake().calls("cuCtxGetCurrent"), in_all()};
  const long allocated = test::allocations;
  for (int i = 0; i < times; ++i) launch();
  const long now = test::allocations;
  return {now - allocated, (fake().calls("cuLaunchKernelEx") - before.launches) / times, (fake().calls("cuCtxGetCurrent") - before.contexts) / times, (in_all() - before.all) / times};
}

void costs_nothing(const char* what, const std::function<void()>& launch) {
  CAPTURE(what);
  const counted cost = repeats(launch);
  CHECK(cost.allocations == 0);
  CHECK(cost.launches == 1);
  CHECK(cost.contexts == 1);
  CHECK(cost.all == 2);
}

}  // namespace

TEST_CASE("a launch that repeats costs its two calls of the driver and no memory, whichever way it is made") {
  fake().reset();
  const std::unique_ptr<device::machine> gpu = runtime::open(0);
  host::session session(*gpu);
  constexpr std::int64_t n = 256;
  const std::vector<device::value> values{device::view_value(0x100000, {n}), device::view_value(0x200000, {n}), device::scalar_value(2.0f)};
  costs_nothing("host::launch", [&] { host::launch<arguments>(session, "scale", scale, values); });
  const device::kernel made = *session.find("scale");
  costs_nothing("session::run", [&] { session.run(made.name, [](const std::string&) -> std::unique_ptr<ir::kernel> { return nullptr; }, values); });

  const host::matrix a{0x300000, 64, 64}, b{0x400000, 64, 64, 0, true}, c{0x500000, 64, 64};
  costs_nothing("host::gemm", [&] { host::gemm(session, a, b, c); });

  const std::string bytes = bundle::pack({"shop", "1", "", "", ""}, {{"scale", "", made}}, {.ptx = true});
  bundle::library library(*gpu, bundle::bundle::of_memory(bytes.data(), bytes.size()));
  const scale_struct typed{.x = {0x100000, {n}}, .y = {0x200000, {n}}, .alpha = 2};
  costs_nothing("library::launch", [&] { library.launch(typed); });
  bundle::loaded_kernel& kernel = library.kernel("scale");
  costs_nothing("loaded_kernel::launch", [&] { kernel.launch(typed); });

  tlx_machine* machine = nullptr;
  tlx_kernel* loaded = nullptr;
  REQUIRE(tlx_open("gpu:0", &machine) == TLX_OK);
  const std::string manifest = device::to_manifest(made), &code = made.code.cubin.empty() ? made.code.ptx : made.code.cubin;
  REQUIRE(tlx_load(machine, manifest.data(), manifest.size(), code.data(), code.size(), &loaded) == TLX_OK);
  const float alpha = 2;
  const tlx_value of_c[] = {{0x100000, 1, &n, nullptr, nullptr, 0}, {0x200000, 1, &n, nullptr, nullptr, 0}, {0, 0, nullptr, nullptr, &alpha, sizeof alpha}};
  costs_nothing("tlx_launch", [&] { CHECK(tlx_launch(loaded, of_c, 3, 0) == TLX_OK); });
  tlx_release(loaded);
  tlx_close(machine);
}

TEST_CASE("a GEMM at new addresses encodes its own maps and allocates nothing") {
  fake().reset();
  const std::unique_ptr<device::machine> gpu = runtime::open(0);
  host::session session(*gpu);
  device::address at = 0x300000;
  const auto launch = [&] {
    at += 16;
    host::gemm(session, {at, 64, 64}, {at + 0x100000, 64, 64, 0, true}, {at + 0x200000, 64, 64});
  };
  for (int i = 0; i < 3; ++i) launch();
  const std::size_t maps = session.find(host::gemm_kernel_name(session, {at, 64, 64}, {at, 64, 64, 0, true}, {at, 64, 64}))->maps.size();
  const std::uint64_t encoded = runtime::maps_encoded(*gpu);
  const long allocated = test::allocations;
  constexpr int times = 10;  // inside of allocations of 256 bytes that are known, but for one each
  for (int i = 0; i < times; ++i) launch();
  CHECK(test::allocations == allocated);
  CHECK(runtime::maps_encoded(*gpu) == encoded + times * maps);
}
