#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels.hpp"
#include "runtime/driver.hpp"
#include "tests/support/error_of.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;

namespace {

device::machine& gpu() {
  static const std::unique_ptr<device::machine> one = runtime::open(0);
  return *one;
}

using tlx::test::error_of;

template <class T>
std::vector<T> contents(const device::buffer& b, size_t count) {
  std::vector<T> out(count);
  b.read(out.data(), count * sizeof(T));
  return out;
}

struct addition {
  static constexpr std::uint32_t n = 1000;
  device::buffer a{gpu(), n * 4}, b{gpu(), n * 4}, c{gpu(), (n + 24) * 4};
  std::shared_ptr<device::module> code = gpu().load({.ptx = ptx::add, .cubin = {}});
  device::launch how;

  addition() {
    std::vector<float> x(n), y(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      x[i] = static_cast<float>(i);
      y[i] = 0.5f;
    }
    a.write(x.data(), n * 4);
    b.write(y.data(), n * 4);
    gpu().fill(c.where(), 0xff, c.size_bytes());
    how.grid = {8, 1, 1};
    how.block = {128, 1, 1};
    how.arguments = {device::scalar(a.where()), device::scalar(b.where()), device::scalar(c.where()), device::scalar(n)};
  }
  void run() { gpu().run(*code, "add", how); }
  bool right() const {
    const auto out = contents<std::uint32_t>(c, n + 24);
    for (std::uint32_t i = 0; i < n; ++i) {
      const float expected = static_cast<float>(i) + 0.5f;
      std::uint32_t bits = 0;
      __builtin_memcpy(&bits, &expected, 4);
      if (out[i] != bits) return false;
    }
    return std::all_of(out.begin() + n, out.end(), [](std::uint32_t guard) { return guard == 0xffffffffu; });
  }
};

// 100 x 50 f32 with rows of 112 elements; boxes of 32 x 8 cover it with edges hanging over.
struct copy {
  static constexpr std::uint64_t columns = 100, rows = 50, pitch = 112;
  device::buffer from{gpu(), pitch * rows * 4}, to{gpu(), pitch * rows * 4};
  std::shared_ptr<device::module> code = gpu().load({.ptx = ptx::tma_copy, .cubin = {}});
  device::launch how;
  std::vector<std::uint32_t> input;

  copy() {
    for (std::uint32_t i = 0; i < pitch * rows; ++i) input.push_back(i + 1);
    from.write(input.data(), from.size_bytes());
    gpu().fill(to.where(), 0, to.size_bytes());
    how.grid = {4, 7, 1};
    how.block = {32, 1, 1};
    how.dynamic_shared_bytes = 1024;
    how.arguments = {map(from.where()), map(to.where())};
  }
  static device::tensor_map map(device::address base) {
    return {.base = base, .element = device::map_element::f32, .rank = 2, .extents = {columns, rows, 1, 1, 1}, .strides_bytes = {pitch * 4, 0, 0, 0}, .box = {32, 8, 1, 1, 1}};
  }
  bool right() const {
    const auto out = contents<std::uint32_t>(to, pitch * rows);
    for (std::uint64_t r = 0; r < rows; ++r) {
      for (std::uint64_t c = 0; c < pitch; ++c) {
        if (out[r * pitch + c] != (c < columns ? input[r * pitch + c] : 0u)) return false;
      }
    }
    return true;
  }
};

}  // namespace

TEST_CASE("the machine describes itself") {
  CHECK(gpu().about().processor_count > 0);
  CHECK(gpu().about().shared_bytes_per_block == 232448);
  MESSAGE(gpu().about().name, ", ", gpu().about().target, ", ", gpu().about().processor_count, " processors");
}

TEST_CASE("memory: addresses are 256-byte aligned, 0 bytes is an allocation, fill and copies agree") {
  device::buffer none(gpu(), 0), also_none(gpu(), 0), some(gpu(), 1000);
  CHECK(none.where() != 0);
  CHECK(none.where() != also_none.where());
  for (const device::buffer* b : {&none, &also_none, &some}) CHECK(b->where() % 256 == 0);
  gpu().fill(some.where(), 0x5a, 1000);
  const std::uint32_t word = 7;
  gpu().write(some.where() + 996, &word, 4);
  const auto out = contents<std::uint8_t>(some, 1000);
  CHECK(out[0] == 0x5a);
  CHECK(out[995] == 0x5a);
  CHECK(out[996] == 7);
}

TEST_CASE("a masked vector addition writes its elements and nothing behind them") {
  addition work;
  work.run();
  CHECK(work.right());
}

TEST_CASE("a box copy through two tensor maps respects every edge") {
  copy work;
  gpu().run(*work.code, "tma_copy", work.how);
  CHECK(work.right());
}

TEST_CASE("repeating a launch encodes no further maps") {
  copy work;
  gpu().run(*work.code, "tma_copy", work.how);
  const std::uint64_t before = runtime::maps_encoded(gpu());
  for (int i = 0; i < 100; ++i) gpu().run(*work.code, "tma_copy", work.how);
  gpu().wait();
  CHECK(runtime::maps_encoded(gpu()) == before);
}

TEST_CASE("more dynamic shared memory than 48 KiB is opted into, up to the device's limit and no further") {
  copy work;
  work.how.dynamic_shared_bytes = 232448 - 1024;
  gpu().run(*work.code, "tma_copy", work.how);
  CHECK(work.right());
  work.how.dynamic_shared_bytes = 232449;
  std::string text;
  CHECK(error_of([&] { gpu().run(*work.code, "tma_copy", work.how); }, &text) == "launch-failed");
  CHECK(text.find("more than the 232448 that a block may have") != std::string::npos);
  work.how.dynamic_shared_bytes = 1024;
  gpu().run(*work.code, "tma_copy", work.how);
  CHECK(work.right());
}

TEST_CASE("a map of an empty tensor loads zeros") {
  copy work;
  std::get<device::tensor_map>(work.how.arguments[0]).extents[1] = 0;
  std::get<device::tensor_map>(work.how.arguments[0]).base = 0;
  gpu().fill(work.to.where(), 0xff, work.to.size_bytes());
  gpu().run(*work.code, "tma_copy", work.how);
  const auto out = contents<std::uint32_t>(work.to, copy::pitch * copy::rows);
  CHECK(out[0] == 0);
  CHECK(out[copy::columns - 1] == 0);
  CHECK(out[copy::columns] == 0xffffffffu);
}

TEST_CASE("setmaxnreg survives the driver's own assembler") {
  const auto code = gpu().load({.ptx = ptx::trade, .cubin = {}});
  device::buffer out(gpu(), 384 * 4);
  device::launch how;
  how.block = {384, 1, 1};
  how.arguments = {device::scalar(out.where())};
  gpu().run(*code, "trade", how);
  const auto ids = contents<std::uint32_t>(out, 384);
  for (std::uint32_t i = 0; i < 384; ++i) CHECK(ids[i] == i);
  const device::resources used = runtime::measure(gpu(), *code, "trade");
  CHECK(used.registers == 168);  // 65536 registers over 384 threads: what setmaxnreg starts from
  CHECK(used.advisories.empty());
}

TEST_CASE("streams order their work and events time it") {
  addition work;
  runtime::stream s(gpu());
  runtime::event start(gpu()), stop(gpu());
  work.how.stream = s.handle();
  start.record(s.handle());
  for (int i = 0; i < 10; ++i) work.run();
  stop.record(s.handle());
  stop.wait();
  CHECK(stop.ms_since(start) > 0.0f);
  CHECK(stop.ms_since(start) < 1000.0f);
  s.wait();
  CHECK(work.right());
}

TEST_CASE("launches are captured into a graph, the first one of a kernel included") {
  addition sum;
  copy box;
  runtime::stream s(gpu());
  sum.how.stream = box.how.stream = s.handle();
  box.how.dynamic_shared_bytes = 100000;
  s.begin_capture();
  sum.run();
  gpu().run(*box.code, "tma_copy", box.how);
  runtime::graph both = s.end_capture();
  s.wait();
  CHECK_FALSE(sum.right());  // recorded, not run
  both.launch(s.handle());
  s.wait();
  CHECK(sum.right());
  CHECK(box.right());
}

TEST_CASE("a dependent launch gives the same result") {
  addition work;
  work.run();
  work.how.dependent = true;
  work.run();
  CHECK(work.right());
}

TEST_CASE("bad PTX is refused with the assembler's words") {
  std::string bad = ptx::add;
  bad.replace(bad.find("add.f32"), 7, "frobnic");
  std::string text;
  CHECK(error_of([&] { gpu().load({.ptx = bad, .cubin = {}}); }, &text) == "module-rejected");
  CHECK(text.find("line") != std::string::npos);
}

TEST_CASE("a missing entry, a grid of broken clusters and a misaligned map are named, and the machine works on") {
  addition work;
  CHECK(error_of([&] { gpu().run(*work.code, "subtract", work.how); }) == "entry-missing");
  device::launch odd = work.how;
  odd.grid = {63, 1, 1};
  odd.cluster = {2, 1, 1};
  std::string text;
  CHECK(error_of([&] { gpu().run(*work.code, "add", odd); }, &text) == "launch-failed");
  CHECK(text.find("grid x = 63 is not a multiple of cluster x = 2") != std::string::npos);
  copy box;
  std::get<device::tensor_map>(box.how.arguments[0]).base += 4;
  CHECK(error_of([&] { gpu().run(*box.code, "tma_copy", box.how); }) == "tensor-map-refused");
  odd.block = {256, 1, 1};
  odd.cluster = {};
  CHECK(error_of([&] { gpu().run(*work.code, "add", odd); }) == "launch-failed");
  work.run();
  CHECK(work.right());
}

TEST_CASE("clusters launch when the grid holds whole ones") {
  addition work;
  work.how.cluster = {8, 1, 1};
  work.run();
  CHECK(work.right());
}

TEST_CASE("a context of the caller's own stays current while tlx uses the primary one") {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  const auto create = reinterpret_cast<int (*)(void**, unsigned, int)>(dlsym(library, "cuCtxCreate_v2"));
  const auto destroy = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuCtxDestroy_v2"));
  addition work;
  const runtime::driver& d = runtime::the_driver();
  void* own = nullptr;
  REQUIRE(create(&own, 0, 0) == 0);
  runtime::cu::context now = nullptr;
  work.run();
  gpu().wait();
  CHECK(work.right());
  CHECK_THROWS_AS(gpu().load({.ptx = "nonsense", .cubin = {}}), device_error);
  d.context_current(&now);
  CHECK(now == own);
  REQUIRE(destroy(own) == 0);
}

TEST_CASE("a thread that has no context can launch, and has none afterwards") {
  addition work;
  std::thread([&] {
    work.run();
    runtime::cu::context here = nullptr;
    runtime::the_driver().context_current(&here);
    CHECK(here == nullptr);
  }).join();
  CHECK(work.right());
}

TEST_CASE("two threads launch at once, each on its own stream") {
  addition one, two;
  const auto work = [](addition& mine) {
    runtime::stream s(gpu());
    mine.how.stream = s.handle();
    for (int i = 0; i < 500; ++i) mine.run();
    s.wait();
  };
  std::thread other([&] { work(two); });
  work(one);
  other.join();
  CHECK(one.right());
  CHECK(two.right());
}

TEST_CASE("a launch costs at most 1.5 times a bare driver launch on the host") {
  copy work;
  runtime::stream s(gpu());
  work.how.stream = s.handle();
  gpu().run(*work.code, "tma_copy", work.how);
  gpu().wait();
  const runtime::driver& d = runtime::the_driver();
  runtime::cu::context primary = nullptr;
  d.context_retain(&primary, 0);
  d.context_push(primary);
  runtime::cu::module module = nullptr;
  runtime::cu::function function = nullptr;
  REQUIRE(d.module_load(&module, ptx::tma_copy, 0, nullptr, nullptr) == 0);
  REQUIRE(d.module_function(&function, module, "tma_copy") == 0);
  runtime::cu::tensor_map maps[2];
  const auto& recipe = std::get<device::tensor_map>(work.how.arguments[0]);
  for (auto& m : maps) {
    REQUIRE(d.encode_tiled(&m, runtime::cu::map_f32, 2, reinterpret_cast<void*>(work.to.where()), recipe.extents.data(), recipe.strides_bytes.data(),
                           recipe.box.data(), recipe.element_strides.data(), 0, 0, 3, 0) == 0);
  }
  void* arguments[] = {&maps[0], &maps[1]};
  const runtime::cu::launch_config config{4, 7, 1, 32, 1, 1, 1024, reinterpret_cast<runtime::cu::stream>(s.handle()), nullptr, 0};
  constexpr int batch = 200;  // below the queue's depth, so that the host never waits for the GPU
  double bare = 1e30, ours = 1e30;
  for (int round = 0; round < 30; ++round) {
    const auto t0 = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) d.launch(&config, function, arguments, nullptr);
    const auto t1 = std::chrono::steady_clock::now();
    s.wait();
    const auto t2 = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) gpu().run(*work.code, "tma_copy", work.how);
    const auto t3 = std::chrono::steady_clock::now();
    s.wait();
    bare = std::min(bare, std::chrono::duration<double>(t1 - t0).count());
    ours = std::min(ours, std::chrono::duration<double>(t3 - t2).count());
  }
  d.module_unload(module);
  d.context_pop(&primary);
  d.context_release(0);
  MESSAGE("bare ", bare / batch * 1e6, " us, tlx ", ours / batch * 1e6, " us");
  CHECK(ours < 1.5 * bare);
}
