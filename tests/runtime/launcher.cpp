// Launches that repeat, against the fake driver: what each asks for and allocates, and that the driver gets what it would get from a launch made for the purpose.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "fake.hpp"
#include "runtime/driver.hpp"
#include "tests/support/allocations.hpp"
#include "tlx/device/launcher.hpp"
#include "tlx/runtime/gpu.hpp"

using namespace tlx;
using tlx::test::allocations;

namespace {

// Everything that the driver is given with a launch.
struct seen_launch {
  runtime::cu::launch_config how{};
  runtime::cu::launch_attribute attributes[2]{};
  std::array<std::uint64_t, 512> words{};  // of the parameters, each from a new word on
  size_t count = 0;
  bool operator==(const seen_launch& o) const {
    const auto numbers = [](const runtime::cu::launch_config& c) {
      return std::tuple(c.grid_x, c.grid_y, c.grid_z, c.block_x, c.block_y, c.block_z, c.shared_bytes, c.where, c.attribute_count);
    };
    bool same = numbers(how) == numbers(o.how) && count == o.count && words == o.words;
    for (unsigned i = 0; i < how.attribute_count && same; ++i) {
      same = attributes[i].id == o.attributes[i].id;
      same = same && (attributes[i].id != runtime::cu::launch_attribute_cluster || (attributes[i].value.cluster.x == o.attributes[i].value.cluster.x && attributes[i].value.cluster.y == o.attributes[i].value.cluster.y));
    }
    return same;
  }
};

thread_local seen_launch seen;
thread_local const device::kernel* launched = nullptr;  // null: nothing is looked at

void see(const runtime::cu::launch_config* how, void** arguments) {
  if (!launched) return;
  seen = {};
  seen.how = *how;
  for (unsigned i = 0; i < how->attribute_count; ++i) seen.attributes[i] = how->attributes[i];
  const auto take = [&](size_t bytes) {
    std::memcpy(&seen.words[seen.count], *arguments++, bytes);
    seen.count += (bytes + 7) / 8;
  };
  for (size_t i = 0; i < launched->maps.size(); ++i) take(128);
  for (const device::parameter& p : launched->parameters) {
    if (p.what == device::parameter::kind::scalar) {
      take(static_cast<size_t>(p.element_bits / 8));
      continue;
    }
    take(8);
    for (int d = 0; d < p.rank; ++d) take(4);
    for (int d = 0; d + 1 < p.rank; ++d) take(8);
  }
}

// Two matrices, one of them through two maps, a vector and a scalar.
device::kernel product() {
  using device::map_element;
  using kind = device::parameter::kind;
  device::kernel k;
  k.name = "product";
  k.entry = "product_entry";
  k.target = "sm_90a";
  k.parameters = {{.name = "a", .what = kind::view, .element = "bf16", .element_bits = 16, .rank = 2, .align_bytes = 16},
                  {.name = "b", .what = kind::view, .element = "bf16", .element_bits = 16, .rank = 2, .align_bytes = 16},
                  {.name = "v", .what = kind::view, .element = "f32", .element_bits = 32, .rank = 1, .align_bytes = 4},
                  {.name = "alpha", .what = kind::scalar, .element = "f32", .element_bits = 32}};
  k.maps = {{.parameter_index = 1, .element = map_element::bf16, .box = {64, 64}}, {.parameter_index = 0, .element = map_element::bf16, .box = {64, 128}}, {.parameter_index = 1, .element = map_element::bf16, .box = {64, 32}}};
  k.grid_x = "(ceil_div a.0 128)";
  k.grid_y = "(ceil_div b.1 64)";
  k.block = {128, 1, 1};
  k.dynamic_shared_bytes = 100000;
  return k;
}

struct launched_kernel {
  device::kernel kernel;
  std::unique_ptr<device::machine> gpu;
  std::shared_ptr<device::module> code;
  std::unique_ptr<device::launcher> launcher;

  explicit launched_kernel(device::kernel k = product()) : kernel(std::move(k)) {
    fake().reset();
    gpu = runtime::open(0);
    code = gpu->load({.ptx = "fake ptx", .cubin = {}});
    launcher = device::make_launcher(*gpu, kernel, code);
    fake().on_launch(see);
    launched = &kernel;
    seen = {};
  }
  ~launched_kernel() { launched = nullptr; }

  // What the driver is given by a launch that was made for these arguments alone.
  seen_launch plain(const std::vector<device::value>& values, std::uint64_t stream) {
    seen = {};
    gpu->run(*code, kernel.entry, device::bind(kernel, values, gpu->about(), stream));
    return seen;
  }
  seen_launch again(const std::vector<device::value>& values, std::uint64_t stream = 0) {
    seen = {};
    launcher->launch(values, stream);
    return seen;
  }
};

std::vector<device::value> matrices(device::address a, device::address b, std::int64_t m = 300, std::int64_t n = 200, float alpha = 1) {
  return {device::view_value(a, {m, 64}), device::view_value(b, {64, n}), device::view_value(0x700000, {n}), device::scalar_value(alpha)};
}

int calls_in_all() {
  int all = 0;
  for (const std::string& symbol : runtime::driver_symbols()) all += fake().calls(symbol.c_str());
  return all;
}

}  // namespace

TEST_CASE("a launch that repeats asks for the current context and the launch, and allocates nothing") {
  launched_kernel k;
  const std::vector<device::value> values = matrices(0x100000, 0x200000);
  k.launcher->launch(values, 0x77);
  CHECK(fake().calls("cuTensorMapEncodeTiled") == 3);
  for (int i = 0; i < 3; ++i) k.launcher->launch(values, 0x77);  // the fake driver's own counters are there now
  fake().reset();
  k.launcher->launch(values, 0x77);
  const int before = calls_in_all(), launches = fake().calls("cuLaunchKernelEx");
  const long allocated = allocations;
  for (int i = 0; i < 100; ++i) k.launcher->launch(values, static_cast<std::uint64_t>(i));  // another stream is no other launch
  CHECK(allocations == allocated);
  CHECK(fake().calls("cuLaunchKernelEx") == launches + 100);
  CHECK(fake().calls("cuCtxGetCurrent") == 101);
  // A thread without a context gets it for the launch.
  CHECK(calls_in_all() - before == 100 * (2 + fake().calls("cuCtxPushCurrent_v2") / 101));
  CHECK(fake().calls("cuTensorMapEncodeTiled") == 0);
}

TEST_CASE("a new address is looked at once, and encodes the maps of its own view and no others") {
  launched_kernel k;
  k.launcher->launch(matrices(0x100000, 0x200000), 0);
  std::vector<device::value> values = matrices(0x100000, 0x200000);
  const std::uint64_t encoded = runtime::maps_encoded(*k.gpu);
  for (int i = 1; i <= 3; ++i) {
    values[0].base = 0x100000 + static_cast<device::address>(i) * 16;  // of the allocation that is known
    k.launcher->launch(values, 0);
    CHECK(runtime::maps_encoded(*k.gpu) == encoded + static_cast<std::uint64_t>(i));
  }
  const int asked = fake().calls("cuPointerGetAttribute");
  values[1].base = 0x900000;  // of another one
  const long allocated = allocations;
  k.launcher->launch(values, 0);
  CHECK(allocations == allocated);
  CHECK(fake().calls("cuPointerGetAttribute") == asked + 3);
  CHECK(runtime::maps_encoded(*k.gpu) == encoded + 5);
  values[3] = device::scalar_value(2.5f);
  k.launcher->launch(values, 0);
  CHECK(fake().calls("cuPointerGetAttribute") == asked + 3);
  CHECK(runtime::maps_encoded(*k.gpu) == encoded + 5);
}

TEST_CASE("whatever changes from launch to launch, the driver gets what a launch made for it alone would give") {
  for (const bool grid_by_scalar : {false, true}) {
    device::kernel sample = product();
    if (grid_by_scalar) {
      sample.parameters.push_back({.name = "rounds", .what = device::parameter::kind::scalar, .element = "s32", .element_bits = 32});
      sample.grid_z = "rounds";
      sample.dependent = true;
    }
    launched_kernel k(sample);
    std::mt19937 random(5);
    const auto one_of = [&](auto... choices) {
      const std::int64_t all[] = {static_cast<std::int64_t>(choices)...};
      return all[random() % std::size(all)];
    };
    std::vector<device::value> values = matrices(0x100000, 0x200000);
    if (grid_by_scalar) values.push_back(device::scalar_value(std::int32_t{1}));
    int launches = 0, nothing = 0;
    for (int step = 0; step < 3000; ++step) {
      switch (random() % 9) {
        case 0: values[0].base = static_cast<device::address>(one_of(0x100000, 0x100010, 0x300000)); break;
        case 1: values[1].base = static_cast<device::address>(one_of(0x200000, 0x200100)); break;
        case 2: values[2].base = static_cast<device::address>(one_of(0x700000, 0x700004)); break;
        case 3: values[3] = device::scalar_value(static_cast<float>(one_of(1, 2, 3))); break;
        case 4: values[0].extents[0] = one_of(300, 300, 1, 0, 511); break;
        case 5: values[1].extents[1] = values[2].extents[0] = one_of(200, 8, 0); break;
        case 6: values[0].strides = one_of(0, 1) ? std::vector<std::int64_t>{one_of(64, 72), 1} : std::vector<std::int64_t>{}; break;
        case 7:
          if (grid_by_scalar) values[4] = device::scalar_value(static_cast<std::int32_t>(one_of(1, 2, 3, 0)));
          break;
        default: break;  // nothing
      }
      const std::uint64_t stream = random() % 2;
      const seen_launch wanted = k.plain(values, stream), got = k.again(values, stream);
      CAPTURE(step);
      REQUIRE(got == wanted);
      (wanted.count ? launches : nothing)++;
    }
    CHECK(launches > 500);
    CHECK(nothing > 100);
  }
}

TEST_CASE("an address that cannot be is an error between two launches, which are right") {
  launched_kernel k;
  std::vector<device::value> values = matrices(0x100000, 0x200000);
  const seen_launch good = k.plain(values, 0);
  const auto refused = [&](size_t which, device::address where) {
    std::vector<device::value> wrong = values;
    wrong[0].base = 0x100100;  // good, and not to be taken over half
    wrong[which].base = where;
    std::string said;
    seen = {};
    const std::string id = error_of([&] { k.launcher->launch(wrong, 0); }, &said);
    CHECK(seen.count == 0);
    CHECK(k.again(values) == good);
    return id;
  };
  CHECK(k.again(values) == good);
  CHECK(refused(1, 0x200008) == "pointer-misaligned");
  CHECK(refused(1, 0) == "pointer-null");
  CHECK(refused(1, 0x10) == "pointer-not-on-device");
  CHECK(refused(2, 0xff00000000001000) == "pointer-not-on-device");
  fake().fail("cuTensorMapEncodeTiled", 1);
  CHECK(error_of([&] { k.launcher->launch(matrices(0x400000, 0x200000), 0); }) == "tensor-map-refused");
  fake().reset();
  fake().on_launch(see);
  const seen_launch elsewhere = k.again(matrices(0x400000, 0x200000));  // whose map was not made
  CHECK(elsewhere == k.plain(matrices(0x400000, 0x200000), 0));
  CHECK(k.again(values) == good);
  fake().fail("cuLaunchKernelEx", 1);
  std::string said;
  CHECK(error_of([&] { k.launcher->launch(values, 0); }, &said) == "launch-failed");
  CHECK(said.find("kernel \"" + k.kernel.entry + "\"") != std::string::npos);
  CHECK(error_of([&] { k.launcher->launch({values[0]}, 0); }) == "argument-count");
}

TEST_CASE("C75: after memory was given back, addresses of a launch that repeats are asked for again") {
  device::kernel plain;
  plain.name = plain.entry = "scale";
  plain.parameters = {{.name = "x", .what = device::parameter::kind::view, .element = "f32", .element_bits = 32, .rank = 1}};
  launched_kernel k(plain);
  const device::address mine = k.gpu->allocate(100), other = k.gpu->allocate(100);
  const std::vector<device::value> values{device::view_value(mine, {8})};
  for (int i = 0; i < 5; ++i) k.launcher->launch(values, 0);
  CHECK(fake().calls("cuPointerGetAttribute") == 3);
  k.gpu->release(other);
  for (int i = 0; i < 5; ++i) k.launcher->launch(values, 0);
  CHECK(fake().calls("cuPointerGetAttribute") == 6);
  k.gpu->release(mine);
  fake().fail("cuPointerGetAttribute", 1);  // what the driver answers for memory that was given back
  CHECK(error_of([&] { k.launcher->launch(values, 0); }) == "pointer-not-on-device");
}

TEST_CASE("launches that repeat are recorded by a capture, counted by a limit of waits and named by a fault, like any other") {
  launched_kernel k;
  const std::vector<device::value> values = matrices(0x100000, 0x200000);
  k.launcher->launch(values, 0);
  runtime::stream stream(*k.gpu);
  stream.begin_capture();
  for (int i = 0; i < 3; ++i) k.launcher->launch(values, stream.handle());
  runtime::graph graph = stream.end_capture();
  CHECK(graph.kernel_count() == 3);
  runtime::set_wait_limit(*k.gpu, 5);
  const int events = fake().calls("cuEventRecord");
  k.launcher->launch(values, 0);
  CHECK(fake().calls("cuEventRecord") == events + 1);
  runtime::set_wait_limit(*k.gpu, 0);
  fake().fail("cuCtxSynchronize", 700);
  std::string said;
  CHECK(error_of([&] { k.gpu->wait(); }, &said) == "kernel-failed");
  CHECK(said.find("last launch: kernel \"product_entry\"") != std::string::npos);
}

TEST_CASE("many threads launch one kernel, each with its own arguments") {
  launched_kernel k;
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < 12; ++t)  // more than there are places for
    all.emplace_back([&, t] {
      launched = &k.kernel;
      for (int i = 0; i < 300; ++i) {
        const device::address a = 0x100000 + static_cast<device::address>(t) * 0x1000 + static_cast<device::address>(i % 3) * 16;
        const std::vector<device::value> values = matrices(a, 0x200000, 100 + t, 200, static_cast<float>(t));
        k.launcher->launch(values, static_cast<std::uint64_t>(t));
        // the second map is a's, and the fake driver's maps begin with the address
        if (seen.words[16] != a || reinterpret_cast<std::uint64_t>(seen.how.where) != static_cast<std::uint64_t>(t)) ++wrong;
      }
      launched = nullptr;
    });
  for (std::thread& t : all) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a launcher of an entry that is not there, or of more shared memory than there is, is refused when it is made") {
  launched_kernel k;
  device::kernel other = k.kernel;
  other.entry = "absent";
  CHECK(error_of([&] { device::make_launcher(*k.gpu, other, k.code); }) == "entry-missing");
  other = k.kernel;
  other.dynamic_shared_bytes = 300000;
  CHECK(error_of([&] { device::make_launcher(*k.gpu, other, k.code); }) == "shared-memory-exceeded");
}
