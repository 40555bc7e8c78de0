// Choosing and launching, on the simulator.
#include "tlx/bundle/library.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <thread>

#include "tests/bundle/sample.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace sample;

namespace {

std::string packed() {
  return bundle::pack(maker(), {{"scale", "", scale("sm_90a")}, {"scale", "", scale("sm_100a")}, {"scale", "", scale("sm_100f")}, {"sum", "16x64", scale("sm_90a", "sum_16x64")},
                                {"sum", "32x64", scale("sm_90a", "sum_32x64")}, {"late", "", scale("sm_100a", "late")}},
                      {.ptx = true});
}

// 70 values between two guard bands; everything starts as NaN.
struct values {
  static constexpr size_t guard = 32, count = 70;
  std::vector<float> host;
  device::buffer on;
  explicit values(device::machine& m) : host(count + 2 * guard, std::numeric_limits<float>::quiet_NaN()), on(m, host.size() * sizeof(float)) {
    for (size_t i = 0; i < count; ++i) host[guard + i] = static_cast<float>(i) - 20;
    on.write(host.data(), host.size() * sizeof(float));
  }
  device::address where() const { return on.where() + guard * sizeof(float); }
  bool scaled_by(float alpha) {
    std::vector<float> got(host.size());
    on.read(got.data(), got.size() * sizeof(float));
    bool right = true;
    for (size_t i = 0; i < count; ++i) right = right && got[guard + i] == host[guard + i] * alpha;
    for (size_t i = 0; i < guard; ++i) right = right && got[i] != got[i] && got[guard + count + i] != got[guard + count + i];
    return right;
  }
};

}  // namespace

TEST_CASE("code for the very target goes before code for its family") {
  const std::string bytes = packed();
  const bundle::bundle b = opened(bytes);
  CHECK(b.choose("scale", "", "sm_100a").target == "sm_100a");
  CHECK(b.choose("scale", "", "sm_103a").target == "sm_100f");
  CHECK(b.choose("scale", "", "sm_90a").target == "sm_90a");
  CHECK(b.choose("sum", "32x64", "sm_90a").configuration == "32x64");
}

TEST_CASE("what the bundle has not is an error that says what it has") {
  const std::string bytes = packed();
  const bundle::bundle b = opened(bytes);
  std::string text;
  CHECK(error_of([&] { b.choose("scales", "", "sm_90a"); }, &text) == "bundle-kernel-missing");
  CHECK(text.find("late, scale, sum") != std::string::npos);
  CHECK(error_of([&] { b.choose("sum", "", "sm_90a"); }, &text) == "bundle-configuration-missing");
  CHECK(text.find("16x64, 32x64") != std::string::npos);
  CHECK(error_of([&] { b.choose("sum", "64x64", "sm_90a"); }) == "bundle-configuration-missing");
  CHECK(error_of([&] { b.choose("late", "", "sm_90a"); }, &text) == "bundle-target-missing");
  CHECK(text.find("\"late\" is not in the bundle for sm_90a\n  because it was built for: sm_100a") != std::string::npos);
}

TEST_CASE("a kernel of a bundle runs, by values and by a struct") {
  const std::string bytes = packed();
  for (const char* target : {"sm_90a", "sm_100a", "sm_103a"}) {
    CAPTURE(target);
    const auto machine = sim::open(target);
    bundle::library kernels(*machine, opened(bytes));
    values by_values(*machine), by_struct(*machine);
    kernels.kernel("scale").launch({device::view_value(by_values.where(), {70}), device::scalar_value(2.5f)});
    CHECK(by_values.scaled_by(2.5f));
    kernels.launch(scale_arguments{.x = {.data = by_struct.where(), .extents = {70}}, .alpha = -3});
    CHECK(by_struct.scaled_by(-3));
    CHECK(kernels.kernel("scale").about().code.ptx.empty());
  }
}

TEST_CASE("a struct of another bundle is refused") {
  device::kernel changed = scale("sm_90a");
  changed.parameters[1].element = "s32";
  const std::string bytes = bundle::pack(maker(), {{"scale", "", changed}}, {.ptx = true});
  const auto machine = sim::open("sm_90a");
  bundle::library kernels(*machine, opened(bytes));
  std::string text;
  CHECK(error_of([&] { kernels.launch(scale_arguments{}); }, &text) == "argument-struct-differs");
  CHECK(text.find("x:f32[1] alpha:f32 in the program and x:f32[1] alpha:s32 in the bundle") != std::string::npos);
}

TEST_CASE("load_all loads what the machine can run and leaves the rest") {
  const std::string bytes = packed();
  const auto hopper = sim::open("sm_90a"), blackwell = sim::open("sm_100a");
  CHECK(bundle::library(*hopper, opened(bytes)).load_all() == 3);
  CHECK(bundle::library(*blackwell, opened(bytes)).load_all() == 2);
}

TEST_CASE("threads that ask for kernels at the same time get the same ones") {
  const std::string bytes = packed();
  const auto machine = sim::open("sm_90a");
  bundle::library kernels(*machine, opened(bytes));
  std::vector<std::vector<bundle::loaded_kernel*>> got(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < got.size(); ++t)
    threads.emplace_back([&kernels, &got, t] {
      for (int i = 0; i < 50; ++i) got[t] = {&kernels.kernel("scale"), &kernels.kernel("sum", "16x64"), &kernels.kernel("sum", "32x64")};
    });
  for (std::thread& t : threads) t.join();
  for (const auto& each : got) CHECK(each == got[0]);
  CHECK(got[0][1] != got[0][2]);
}
