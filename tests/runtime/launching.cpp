// The launch path against the fake driver: what is asked of the driver, in which context, and what is said when it refuses.
#include <doctest/doctest.h>

#include <cstring>
#include <thread>

#include "fake.hpp"
#include "tlx/runtime/gpu.hpp"

using namespace tlx;

namespace {

struct seen_launch {
  runtime::cu::launch_config how{};
  runtime::cu::launch_attribute attributes[4]{};
  std::uint64_t first = 0;
  runtime::cu::tensor_map map{};
} seen;

void see(const runtime::cu::launch_config* how, void** arguments) {
  seen.how = *how;
  for (unsigned i = 0; i < how->attribute_count; ++i) seen.attributes[i] = how->attributes[i];
  std::memcpy(&seen.first, arguments[0], 8);
}
void see_map(const runtime::cu::launch_config* how, void** arguments) {
  CHECK(reinterpret_cast<std::uintptr_t>(arguments[1]) % 64 == 0);
  std::memcpy(&seen.map, arguments[1], 128);
  see(how, arguments);
}

struct machine_with_kernel {
  std::unique_ptr<device::machine> gpu;
  std::shared_ptr<device::module> code;
  machine_with_kernel() {
    fake().reset();
    gpu = runtime::open(0);
    code = gpu->load({.ptx = "fake ptx", .cubin = {}});
    fake().reset();
    seen = {};
    fake().on_launch(see);
  }
};

device::launch small() { return {.grid = {4, 2, 1}, .block = {128, 1, 1}, .cluster = {}, .arguments = {device::scalar(std::uint64_t{42})}}; }

device::tensor_map matrix(device::address base) {
  return {.base = base, .element = device::map_element::bf16, .rank = 2, .extents = {512, 300, 1, 1, 1}, .strides_bytes = {1024, 0, 0, 0},
          .box = {64, 128, 1, 1, 1}, .swizzle_bytes = 128};
}

}  // namespace

TEST_CASE("a machine says what the device is") {
  machine_with_kernel m;
  CHECK(m.gpu->about().name == "fake");
  CHECK(m.gpu->about().target == "sm_90a");
  CHECK(m.gpu->about().processor_count == 132);
  CHECK(m.gpu->about().shared_bytes_per_block == 232448);
}

TEST_CASE("a plain launch passes numbers and arguments through and needs no attributes") {
  machine_with_kernel m;
  device::launch how = small();
  how.stream = 0x77;
  how.dynamic_shared_bytes = 1000;
  m.gpu->run(*m.code, "k", how);
  CHECK(fake().calls("cuLaunchKernelEx") == 1);
  CHECK(seen.how.grid_x == 4);
  CHECK(seen.how.grid_y == 2);
  CHECK(seen.how.block_x == 128);
  CHECK(seen.how.shared_bytes == 1000);
  CHECK(reinterpret_cast<std::uint64_t>(seen.how.where) == 0x77);
  CHECK(seen.how.attribute_count == 0);
  CHECK(seen.first == 42);
  CHECK(fake().calls("cuFuncSetAttribute") == 0);
}

TEST_CASE("cluster and dependence become launch attributes") {
  machine_with_kernel m;
  device::launch how = small();
  how.cluster = {2, 1, 1};
  how.dependent = true;
  m.gpu->run(*m.code, "k", how);
  REQUIRE(seen.how.attribute_count == 2);
  CHECK(seen.attributes[0].id == runtime::cu::launch_attribute_cluster);
  CHECK(seen.attributes[0].value.cluster.x == 2);
  CHECK(seen.attributes[1].id == runtime::cu::launch_attribute_programmatic);
  CHECK(seen.attributes[1].value.programmatic_allowed == 1);
}

TEST_CASE("a warm launch asks for the launch and the current context only") {
  machine_with_kernel m;
  device::launch how = small();
  how.dynamic_shared_bytes = 200000;
  how.cluster = {2, 2, 4};
  how.grid = {4, 4, 4};
  how.arguments.push_back(matrix(0x1000));
  m.gpu->run(*m.code, "k", how);
  CHECK(fake().calls("cuFuncSetAttribute") == 2);
  CHECK(runtime::maps_encoded(*m.gpu) == 1);
  fake().reset();
  for (int i = 0; i < 10; ++i) m.gpu->run(*m.code, "k", how);
  CHECK(fake().calls("cuLaunchKernelEx") == 10);
  for (const char* symbol : {"cuFuncSetAttribute", "cuFuncGetAttribute", "cuModuleGetFunction", "cuTensorMapEncodeTiled", "cuCtxSynchronize", "cuMemAlloc_v2"}) {
    CAPTURE(symbol);
    CHECK(fake().calls(symbol) == 0);
  }
}

TEST_CASE("the shared memory limit is raised once, and again only for more") {
  machine_with_kernel m;
  device::launch how = small();
  for (std::uint32_t bytes : {48u * 1024 - 512, 100000u, 100000u, 90000u, 120000u}) {
    how.dynamic_shared_bytes = bytes;
    m.gpu->run(*m.code, "k", how);
  }
  CHECK(fake().calls("cuFuncSetAttribute") == 2);
}

TEST_CASE("a tensor map reaches the kernel 64-byte aligned, and another address is another map") {
  machine_with_kernel m;
  fake().on_launch(see_map);
  device::launch how = small();
  how.arguments.push_back(matrix(0x1000));
  m.gpu->run(*m.code, "k", how);
  CHECK(seen.map.opaque[0] == 0x1000);
  CHECK(seen.map.opaque[1] == 512);
  CHECK(seen.map.opaque[3] == 1024);
  CHECK((seen.map.opaque[5] & 0xff) == runtime::cu::map_bf16);
  CHECK(((seen.map.opaque[5] >> 8) & 0xff) == runtime::cu::swizzle_128);
  CHECK(((seen.map.opaque[5] >> 16) & 0xff) == runtime::cu::promotion_256);
  how.arguments[1] = matrix(0x2000);
  m.gpu->run(*m.code, "k", how);
  CHECK(seen.map.opaque[0] == 0x2000);
  CHECK(runtime::maps_encoded(*m.gpu) == 2);
}

TEST_CASE("each of many alternating maps arrives as itself, cached or not") {
  machine_with_kernel m;
  fake().on_launch(see_map);
  device::launch how = small();
  how.arguments.push_back(matrix(0));
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 1; i < 2000; ++i) {
      how.arguments[1] = matrix(i * 16);
      m.gpu->run(*m.code, "k", how);
      REQUIRE(seen.map.opaque[0] == i * 16);
    }
  }
}

TEST_CASE("the map of an empty tensor is one element of zeros that the machine owns") {
  machine_with_kernel m;
  fake().on_launch(see_map);
  device::launch how = small();
  device::tensor_map empty = matrix(0);
  empty.extents[0] = 0;
  how.arguments.push_back(empty);
  m.gpu->run(*m.code, "k", how);
  CHECK(seen.map.opaque[0] != 0);
  CHECK(seen.map.opaque[1] == 1);
  CHECK(seen.map.opaque[2] == 1);
  CHECK(*reinterpret_cast<const std::uint64_t*>(seen.map.opaque[0]) == 0);
}

TEST_CASE("an illegal map is refused by rule before the driver sees it") {
  machine_with_kernel m;
  const auto refused = [&](auto change) {
    device::launch how = small();
    device::tensor_map map = matrix(0x1000);
    change(map);
    how.arguments.push_back(map);
    std::string text;
    CHECK(error_of([&] { m.gpu->run(*m.code, "k", how); }, &text) == "tensor-map-refused");
    return text;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has(refused([](auto& t) { t.base = 0x1008; }), "8 bytes past a multiple of 16"));
  CHECK(has(refused([](auto& t) { t.strides_bytes[0] = 1022; }), "stride 1022 bytes in dimension 1"));
  CHECK(has(refused([](auto& t) { t.strides_bytes[0] = std::uint64_t{1} << 40; }), "below 2^40"));
  CHECK(has(refused([](auto& t) { t.box[1] = 257; }), "box extent 257"));
  CHECK(has(refused([](auto& t) { t.box[0] = 128; }), "fits the swizzle span"));
  CHECK(has(refused([](auto& t) { t.box[0] = 4; }), "multiple of 16 bytes"));
  CHECK(has(refused([](auto& t) { t.rank = 6; }), "rank 6"));
  CHECK(has(refused([](auto& t) { t.swizzle_bytes = 96; t.box[0] = 32; }), "swizzle of 96 bytes"));
  CHECK(has(refused([](auto& t) { t.element_strides[1] = 9; }), "element stride 9"));
  CHECK(fake().calls("cuTensorMapEncodeTiled") == 0);
  CHECK(fake().calls("cuLaunchKernelEx") == 0);
  fake().fail("cuTensorMapEncodeTiled", 1);
  CHECK(has(refused([](auto& t) { t.base = 0x4000; }), "CUDA_ERROR_INVALID_VALUE"));
}

TEST_CASE("an empty grid launches nothing") {
  machine_with_kernel m;
  device::launch how = small();
  how.grid.y = 0;
  m.gpu->run(*m.code, "k", how);
  CHECK(fake().calls("cuLaunchKernelEx") == 0);
}

TEST_CASE("a refused launch names call, error, kernel and numbers, and the cause when the numbers prove it") {
  machine_with_kernel m;
  fake().fail("cuLaunchKernelEx", 1);
  const auto refused = [&](auto change) {
    device::launch how = small();
    change(how);
    std::string text;
    CHECK(error_of([&] { m.gpu->run(*m.code, "scale", how); }, &text) == "launch-failed");
    return text;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string plain = refused([](auto&) {});
  CHECK(has(plain, "cuLaunchKernelEx returned CUDA_ERROR_INVALID_VALUE (a fake error, 1)"));
  CHECK(has(plain, "kernel \"scale\", grid 4x2x1, block 128x1x1, cluster 1x1x1, 0 + 512 bytes of shared memory"));
  CHECK_FALSE(has(plain, "because"));
  CHECK(has(refused([](auto& h) { h.grid.x = 63; h.cluster.x = 2; }), "because grid x = 63 is not a multiple of cluster x = 2"));
  CHECK(has(refused([](auto& h) { h.grid.y = 65536; }), "grid y = 65536 is over the limit of 65535"));
  CHECK(has(refused([](auto& h) { h.block.x = 1025; }), "1 to 1024 threads, not 1025"));
  CHECK(has(refused([](auto& h) { h.dynamic_shared_bytes = 232448; }), "232448 dynamic and 512 static bytes"));
}

TEST_CASE("C71: the caller's own context stays current, and a thread without one can launch") {
  machine_with_kernel m;
  CHECK(fake().pushed() == 0);
  std::thread([&] { m.gpu->run(*m.code, "k", small()); CHECK(fake().pushed() == 0); }).join();
  CHECK(fake().calls("cuLaunchKernelEx") == 1);
  int other = 0;
  void* library = dlopen(TLX_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  const auto push = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuCtxPushCurrent_v2"));
  const auto get = reinterpret_cast<int (*)(void**)>(dlsym(library, "cuCtxGetCurrent"));
  const auto pop = reinterpret_cast<int (*)(void**)>(dlsym(library, "cuCtxPopCurrent_v2"));
  push(&other);
  m.gpu->run(*m.code, "k", small());
  m.gpu->wait();
  {
    device::buffer b(*m.gpu, 100);
    runtime::stream s(*m.gpu);
    runtime::event e(*m.gpu);
  }
  fake().fail("cuLaunchKernelEx", 1);
  CHECK(error_of([&] { m.gpu->run(*m.code, "k", small()); }) == "launch-failed");
  void* now = nullptr;
  get(&now);
  CHECK(now == &other);
  CHECK(fake().pushed() == 1);
  pop(&now);
}

TEST_CASE("with the primary context current already nothing is pushed") {
  machine_with_kernel m;
  void* library = dlopen(TLX_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  const auto push = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuCtxPushCurrent_v2"));
  const auto pop = reinterpret_cast<int (*)(void**)>(dlsym(library, "cuCtxPopCurrent_v2"));
  push(fake().primary());
  m.gpu->run(*m.code, "k", small());
  CHECK(fake().calls("cuCtxPushCurrent_v2") == 1);
  void* out = nullptr;
  pop(&out);
}

TEST_CASE("memory of 0 bytes has an address, copies of 0 bytes ask nothing") {
  machine_with_kernel m;
  const device::address a = m.gpu->allocate(0), b = m.gpu->allocate(0);
  CHECK(a != 0);
  CHECK(a != b);
  m.gpu->write(a, nullptr, 0);
  m.gpu->read(nullptr, a, 0);
  m.gpu->fill(a, 1, 0);
  CHECK(fake().calls("cuMemcpyHtoD_v2") == 0);
  m.gpu->release(a);
  m.gpu->release(b);
}

TEST_CASE("what is written is read back, and a fill fills") {
  machine_with_kernel m;
  device::buffer b(*m.gpu, 8);
  m.gpu->fill(b.where(), 0xab, 8);
  const std::uint32_t one = 0x01020304;
  b.write(&one, 4);
  std::uint64_t both = 0;
  b.read(&both, 8);
  CHECK(both == 0xabababab01020304);
}

TEST_CASE("out of memory names what was asked and what is free") {
  machine_with_kernel m;
  fake().fail("cuMemAlloc_v2", 2);
  std::string text;
  CHECK(error_of([&] { m.gpu->allocate(5000); }, &text) == "out-of-memory");
  CHECK(text.find("cannot allocate 5000 bytes on fake: 10 of 1000 bytes are free") != std::string::npos);
}

TEST_CASE("a failing release does not throw; the next wait does, once") {
  machine_with_kernel m;
  fake().fail("cuMemFree_v2", 1);
  m.gpu->release(0x1234);
  fake().reset();
  std::string text;
  CHECK(error_of([&] { m.gpu->wait(); }, &text) == "release-failed");
  CHECK(text.find("cuMemFree(0x1234)") != std::string::npos);
  m.gpu->wait();
}

TEST_CASE("a fault is reported at the wait with the last kernel's name") {
  machine_with_kernel m;
  m.gpu->run(*m.code, "culprit", small());
  fake().fail("cuCtxSynchronize", 700);
  std::string text;
  CHECK(error_of([&] { m.gpu->wait(); }, &text) == "kernel-failed");
  CHECK(text.find("last launch: kernel \"culprit\"") != std::string::npos);
  CHECK(error_of([&] { char c; m.gpu->read(&c, 0x1000, 1); }) == "kernel-failed");
}

TEST_CASE("modules: nothing, half a cubin, a refused one, a missing entry and another machine's module are told apart") {
  machine_with_kernel m;
  std::string text;
  CHECK(error_of([&] { m.gpu->load({}); }) == "image-empty");
  CHECK(error_of([&] { m.gpu->load({.ptx = "x", .cubin = "\x7f" "ELF and then nothing"}); }) == "image-malformed");
  CHECK(error_of([&] { m.gpu->run(*m.code, "absent", small()); }, &text) == "entry-missing");
  CHECK(text.find("no entry \"absent\"") != std::string::npos);
  fake().fail("cuModuleLoadDataEx", 218);
  CHECK(error_of([&] { m.gpu->load({.ptx = "bad", .cubin = {}}); }, &text) == "module-rejected");
  CHECK(text.find("ptxas line 7: syntax error") != std::string::npos);
  struct foreign : device::module {} other;
  CHECK(error_of([&] { m.gpu->run(other, "k", small()); }) == "module-of-another-machine");
}

TEST_CASE("measured resources include the advisories of the driver's assembler") {
  machine_with_kernel m;
  const device::resources r = runtime::measure(*m.gpu, *m.code, "k");
  CHECK(r.registers == 40);
  CHECK(r.static_shared_bytes == 512);
  CHECK(r.assembler == "driver for CUDA 13.0");
  REQUIRE(r.advisories.size() == 1);
  CHECK(r.advisories[0].find("C7508") != std::string::npos);
}

TEST_CASE("the context is released when machine, modules, streams and events are gone, in any order") {
  const int before = fake().retained();
  std::shared_ptr<device::module> code;
  {
    machine_with_kernel m;
    code = m.code;
    runtime::stream s(*m.gpu);
    m.gpu.reset();
    s.wait();
  }
  CHECK(fake().retained() == before + 1);
  code.reset();
  CHECK(fake().retained() == before);
  CHECK(fake().calls("cuModuleUnload") == 1);
}

TEST_CASE("a graph is captured, launched and destroyed") {
  machine_with_kernel m;
  {
    runtime::stream s(*m.gpu);
    s.begin_capture();
    device::launch how = small();
    how.stream = s.handle();
    m.gpu->run(*m.code, "k", how);
    runtime::graph g = s.end_capture();
    g.launch(s.handle());
    runtime::graph moved = std::move(g);
    moved.launch(s.handle());
  }
  CHECK(fake().calls("cuGraphLaunch") == 2);
  CHECK(fake().calls("cuGraphDestroy") == 1);
  CHECK(fake().calls("cuGraphExecDestroy") == 1);
  CHECK(fake().calls("cuStreamDestroy_v2") == 1);
}

TEST_CASE("two threads may launch with different maps at once") {
  machine_with_kernel m;
  fake().on_launch(nullptr);
  const auto work = [&](std::uint64_t base) {
    device::launch how = small();
    how.arguments.push_back(matrix(base));
    for (std::uint64_t i = 0; i < 3000; ++i) {
      std::get<device::tensor_map>(how.arguments[1]).base = base + i % 100 * 16;
      m.gpu->run(*m.code, i % 2 ? "k" : "other", how);
    }
  };
  std::thread one(work, 0x10000), two(work, 0x90000);
  one.join();
  two.join();
  CHECK(fake().calls("cuLaunchKernelEx") == 6000);
}

TEST_CASE("streams need a GPU and say so for another machine") {
  struct not_gpu : device::machine {
    device::properties p{.name = "simulator", .target = "sm_90a"};
    const device::properties& about() const override { return p; }
    device::address allocate(std::size_t) override { return 0; }
    void release(device::address) override {}
    void write(device::address, const void*, std::size_t) override {}
    void read(void*, device::address, std::size_t) override {}
    void fill(device::address, std::uint8_t, std::size_t) override {}
    std::shared_ptr<device::module> load(const device::image&) override { return nullptr; }
    void run(device::module&, const std::string&, const device::launch&) override {}
    void wait() override {}
  } other;
  std::string text;
  CHECK(error_of([&] { runtime::stream s(other); }, &text) == "not-a-gpu");
  CHECK(text.find("\"simulator\"") != std::string::npos);
}
