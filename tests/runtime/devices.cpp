// Contexts, other GPUs, graphs that change and forked processes, against the fake driver.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "fake.hpp"
#include "tlx/runtime/gpu.hpp"

using namespace tlx;

namespace {

using call0 = int (*)(void*);

void* in_fake(const char* symbol) { return dlsym(dlopen(TLX_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL), symbol); }

// A context of the caller's own, current as long as this lives. The fake driver has them on its second GPU.
struct own_context {
  int storage = 0;
  own_context() { reinterpret_cast<call0>(in_fake("cuCtxPushCurrent_v2"))(&storage); }
  ~own_context() {
    void* out = nullptr;
    reinterpret_cast<call0>(in_fake("cuCtxPopCurrent_v2"))(&out);
  }
  runtime::cu::context handle() { return reinterpret_cast<runtime::cu::context>(&storage); }
};

device::launch launch_of(std::uint64_t argument) { return {.grid = {4, 2, 1}, .block = {128, 1, 1}, .cluster = {}, .arguments = {device::scalar(argument)}}; }

device::kernel one_view() {
  device::kernel k;
  k.name = "scale";
  k.parameters = {{.name = "x", .what = device::parameter::kind::view, .element = "f32", .element_bits = 32, .rank = 1}};
  return k;
}

struct last_launch {
  unsigned grid_x = 0;
  std::uintptr_t node = 0;
  std::uint64_t first = 0;
} last;
void see(const runtime::cu::launch_config* how, void** arguments) {
  last.grid_x = how->grid_x;
  last.node = reinterpret_cast<std::uintptr_t>(how->where);
  std::memcpy(&last.first, arguments[0], 8);
}

constexpr device::address far_away = 0xff00000000001000;

}  // namespace

TEST_CASE("a machine in the caller's own context retains nothing and pushes nothing") {
  fake().reset();
  const int retained = fake().retained();
  {
    own_context own;
    const std::unique_ptr<device::machine> m = runtime::open_current();
    const auto code = m->load({.ptx = "fake ptx", .cubin = {}});
    m->run(*code, "k", launch_of(1));
    m->wait();
    CHECK(fake().calls("cuCtxPushCurrent_v2") == 1);  // the test's own
    CHECK(fake().calls("cuLaunchKernelEx") == 1);
    CHECK(fake().retained() == retained);
    const std::unique_ptr<device::machine> primary = runtime::open(0);
    CHECK(error_of([&] { primary->run(*code, "k", launch_of(1)); }) == "module-of-another-machine");
  }
  CHECK(fake().retained() == retained);
}

TEST_CASE("without a current context there is no machine in it") {
  fake().reset();
  std::string said;
  CHECK(error_of([] { runtime::open_current(); }, &said) == "no-current-context");
  CHECK(said.find("cuCtxSetCurrent") != std::string::npos);
}

TEST_CASE("C75: an argument that the GPU does not reach is named, and whose memory it is") {
  fake().reset();
  const auto m = runtime::open(0);
  const device::kernel k = one_view();
  std::string said;
  CHECK(error_of([&] { runtime::check_pointers(*m, k, {device::view_value(far_away, {8})}); }, &said) == "pointer-not-on-device");
  CHECK(said.find("argument \"x\" is at 0xff00000000001000, which is memory of gpu:1") != std::string::npos);
  CHECK(said.find("kernels on gpu:0 (fake)") != std::string::npos);
  CHECK(said.find("enable_peer()") != std::string::npos);
  CHECK(error_of([&] { runtime::check_pointers(*m, k, {device::view_value(0x10, {8})}); }, &said) == "pointer-not-on-device");
  CHECK(said.find("of the host, or released") != std::string::npos);
  CHECK(error_of([&] { runtime::check_pointers(*m, k, {device::view_value(0, {8})}); }) == "");      // an absent tensor
  CHECK(error_of([&] { runtime::check_pointers(*m, k, {device::view_value(0x10, {0})}); }) == "");   // an empty one
  const device::address freed = m->allocate(100);
  runtime::check_pointers(*m, k, {device::view_value(freed, {8})});
  m->release(freed);
  fake().fail("cuPointerGetAttribute", 1);  // what the driver answers for memory that was given back
  CHECK(error_of([&] { runtime::check_pointers(*m, k, {device::view_value(freed, {8})}); }, &said) == "pointer-not-on-device");
  CHECK(said.find("argument \"x\"") != std::string::npos);
}

TEST_CASE("the driver is asked once for an allocation, and again after memory was released") {
  fake().reset();
  const auto m = runtime::open(0);
  const device::kernel k = one_view();
  const device::address a = m->allocate(100), b = m->allocate(100);
  for (int i = 0; i < 10; ++i)
    for (const device::address x : {a, b, a + 64, b + 255}) runtime::check_pointers(*m, k, {device::view_value(x, {8})});
  CHECK(fake().calls("cuPointerGetAttribute") == 6);  // three questions for each of the two
  m->release(b);
  runtime::check_pointers(*m, k, {device::view_value(a, {8})});
  CHECK(fake().calls("cuPointerGetAttribute") == 9);
  for (device::address x = a + 256; x < a + 256 * 40; x += 256) runtime::check_pointers(*m, k, {device::view_value(x, {8})});  // more than are remembered
  runtime::check_pointers(*m, k, {device::view_value(a, {8})});
  m->release(a);
}

TEST_CASE("a stream of another context is the cause that a refused launch names") {
  fake().reset();
  const auto m = runtime::open(0);
  const auto code = m->load({.ptx = "fake ptx", .cubin = {}});
  own_context own;
  fake().own_streams(own.handle());
  fake().fail("cuLaunchKernelEx", 400);
  device::launch how = launch_of(1);
  how.stream = 0x77;
  std::string said;
  CHECK(error_of([&] { m->run(*code, "k", how); }, &said) == "launch-failed");
  CHECK(said.find("the stream belongs to gpu:1, the kernel was loaded on gpu:0") != std::string::npos);
}

TEST_CASE("peer access is enabled once, and refused with a reason") {
  fake().reset();
  const auto m = runtime::open(0);
  own_context own;
  const auto other = runtime::open_current();
  runtime::enable_peer(*m, *other);
  CHECK(fake().calls("cuCtxEnablePeerAccess") == 1);
  fake().fail("cuCtxEnablePeerAccess", 704);  // by another library, earlier
  runtime::enable_peer(*m, *other);
  fake().fail("cuCtxEnablePeerAccess", 217);
  CHECK(error_of([&] { runtime::enable_peer(*m, *other); }) == "peer-access-unavailable");
  fake().peers(0);
  std::string said;
  CHECK(error_of([&] { runtime::enable_peer(*m, *other); }, &said) == "peer-access-unavailable");
  CHECK(said.find("gpu:0 cannot reach the memory of gpu:1") != std::string::npos);
  fake().reset();
  runtime::enable_peer(*m, *m);
  CHECK(fake().calls("cuCtxEnablePeerAccess") == 0);
}

TEST_CASE("a graph's kernels take other arguments, each by its place in the recording") {
  fake().reset();
  const auto m = runtime::open(0);
  const auto code = m->load({.ptx = "fake ptx", .cubin = {}});
  runtime::stream s(*m);
  device::launch how = launch_of(1);
  how.stream = s.handle();
  m->run(*code, "k", how);  // before: not recorded, and not asked for
  CHECK(fake().calls("cuStreamGetCaptureInfo_v2") == 0);
  s.begin_capture();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    how.arguments = {device::scalar(i)};
    m->run(*code, "k", how);
  }
  runtime::graph g = s.end_capture();
  CHECK(g.kernel_count() == 3);
  m->run(*code, "k", how);
  CHECK(g.kernel_count() == 3);
  fake().on_launch(see);
  how = launch_of(42);
  how.grid.x = 9;
  g.update(1, *m, *code, "k", how);
  CHECK(last.node == 2);
  CHECK(last.first == 42);
  CHECK(last.grid_x == 9);
  CHECK(error_of([&] { g.update(3, *m, *code, "k", how); }) == "graph-kernel-index");
  fake().fail("cuGraphExecKernelNodeSetParams", 1);
  std::string said;
  CHECK(error_of([&] { g.update(0, *m, *code, "k", how); }, &said) == "launch-failed");
  CHECK(said.find("cuGraphExecKernelNodeSetParams returned") != std::string::npos);
}

TEST_CASE("a forked child is told, and its destructors leave the driver alone") {
  fake().reset();
  auto m = runtime::open(0);
  const auto code = m->load({.ptx = "fake ptx", .cubin = {}});
  auto s = std::make_unique<runtime::stream>(*m);
  const pid_t child = fork();
  if (child == 0) {
    std::string said;
    bool right = error_of([&] { m->run(*code, "k", launch_of(1)); }, &said) == "driver-after-fork";
    right &= said.find("after the fork only") != std::string::npos;
    right &= error_of([] { runtime::open(0); }) == "driver-after-fork";
    fake().reset();
    s.reset();
    m.reset();
    right &= fake().calls("cuStreamDestroy_v2") == 0 && fake().calls("cuMemFree_v2") == 0 && fake().calls("cuCtxPushCurrent_v2") == 0;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  m->run(*code, "k", launch_of(1));  // the parent goes on
}

TEST_CASE("a buffer that outlives its machine releases nothing") {
  fake().reset();
  auto m = runtime::open(0);
  device::address where = 0;
  {
    device::buffer b(*m, 100), moved = std::move(b);
    where = moved.where();
    m.reset();
    fake().reset();
  }
  CHECK(fake().calls("cuMemFree_v2") == 0);
  std::free(reinterpret_cast<void*>(where));  // the fake driver's memory is the host's
}

TEST_CASE("threads that allocate, load, launch, check pointers, capture and wait at the same time") {
  fake().reset();
  const auto m = runtime::open(0);
  const device::kernel k = one_view();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto code = m->load({.ptx = "fake ptx", .cubin = {}});
        const device::buffer b(*m, 256);
        runtime::check_pointers(*m, k, {device::view_value(b.where(), {8})});
        runtime::stream s(*m);
        runtime::event e(*m);
        device::launch how = launch_of(static_cast<std::uint64_t>(i));
        how.stream = s.handle();
        if (t == 0) s.begin_capture();  // the fake driver has one capture at a time
        m->run(*code, i % 2 ? "k" : "l", how);
        if (t == 0) {
          runtime::graph g = s.end_capture();
          if (g.kernel_count() == 0) ++wrong;
          g.update(0, *m, *code, "k", how);
          g.launch(s.handle());
        }
        e.record(s.handle());
        s.wait_for(e);
        s.wait();
      }
    });
  for (std::thread& t : threads) t.join();
  m->wait();
  CHECK(wrong == 0);
}
