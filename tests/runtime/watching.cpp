// Watched modules and limited waits against the fake driver: what is read, what is reset, what is said.
#include <doctest/doctest.h>

#include <cstring>

#include "fake.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/watch_record.hpp"

using namespace tlx;

namespace {

device::watch_table names() {
  return {.seconds = 0.5,
          .sites = {{device::watch_site::kind::wait, "load", "", "gemm.cpp", 40}, {device::watch_site::kind::wait, "mma", "", "gemm.cpp", 44},
                    {device::watch_site::kind::require, "store", "rows are even", "gemm.cpp", 50}, {device::watch_site::kind::meet, "store", "named barrier 1", "", 0}},
          .rings = {{"ab", "full", 1024, 3}, {"ab", "empty", 1048, 3}}};
}

struct watched_machine {
  std::unique_ptr<device::machine> gpu;
  std::shared_ptr<device::module> code;
  watched_machine() {
    fake().reset();
    fake().watch_words()[0] = 0;
    gpu = runtime::open(0);
    code = gpu->load({.ptx = "fake ptx", .cubin = {}, .watch = names()});
  }
  // What the kernel would do.
  watch_records& records() { return *reinterpret_cast<watch_records*>(fake().watch_words()[1]); }
  void give_up(int slot, watch_record r) {
    records()[static_cast<size_t>(slot)] = r;
    fake().watch_words()[0] = 1;
  }
  void launch(const char* entry = "gemm") { gpu->run(*code, entry, {.grid = {4, 1, 1}, .block = {128, 1, 1}, .cluster = {}}); }
};

}  // namespace

TEST_CASE("a kernel that gave up is an error at the wait, with every name, and the module is fresh again") {
  watched_machine m;
  m.launch();
  m.launch();
  m.give_up(0, {.site = 2, .warp = 1, .cta = {3, 0, 0}, .place = 1024 + 16, .value = 1});
  m.give_up(1, {.site = 1, .warp = 0, .why = watch_record::cause::followed, .cta = {3, 0, 0}, .place = 1048, .value = 0});
  m.give_up(2, {.site = 4, .warp = 5, .why = watch_record::cause::followed, .cta = {3, 0, 0}, .place = 4000, .value = 0});
  m.give_up(3, {.site = 4, .warp = 6, .why = watch_record::cause::followed, .cta = {3, 0, 0}, .place = 4000, .value = 0});
  std::string text;
  CHECK(error_of([&] { m.gpu->wait(); }, &text) == "kernel-gave-up");
  for (const char* part : {"kernel \"gemm\"", "role \"mma\" waited 0.5 s for the full barrier of ring \"ab\", stage 2, phase 1", "gemm.cpp:44", "CTA (3,0,0), warp 1", "last 2 launches are void",
                           "role \"load\" waits for the empty barrier of ring \"ab\", stage 0, phase 0, at gemm.cpp:40, warp 0", "role \"store\" waits at named barrier 1 for the other warps, warps 5 6"}) {
    CAPTURE(part);
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  }
  CHECK(fake().watch_words()[0] == 0);
  CHECK_FALSE(gave_up(m.records()));
  m.launch();
  CHECK(error_of([&] { m.gpu->wait(); }) == "");
}

TEST_CASE("streams, events and copies find it as well") {
  watched_machine m;
  runtime::stream s(*m.gpu);
  runtime::event e(*m.gpu);
  std::uint32_t word = 0;
  const watch_record first{.site = 1, .place = 1024};
  m.give_up(0, first);
  CHECK(error_of([&] { s.wait(); }) == "kernel-gave-up");
  m.give_up(0, first);
  CHECK(error_of([&] { e.wait(); }) == "kernel-gave-up");
  m.give_up(0, first);
  device::buffer b(*m.gpu, 4);
  CHECK(error_of([&] { b.write(&word, 4); }) == "kernel-gave-up");
  CHECK(error_of([&] { b.write(&word, 4); }) == "");
}

TEST_CASE("a requirement shows its text, lane, value and bound") {
  watched_machine m;
  m.launch();
  m.give_up(0, {.site = 3, .warp = 2, .lane = 7, .why = watch_record::cause::requirement, .place = 500, .value = static_cast<std::uint32_t>(-4)});
  std::string text;
  CHECK(error_of([&] { m.gpu->wait(); }, &text) == "requirement-failed");
  for (const char* part : {"role \"store\": \"rows are even\" does not hold in lane 7, value -4, bound 500", "gemm.cpp:50", "its results are void"}) CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  m.give_up(0, {.site = 3, .why = watch_record::cause::requirement, .place = watch_no_value, .value = watch_no_value});
  CHECK(error_of([&] { m.gpu->wait(); }, &text) == "requirement-failed");
  CHECK(text.find(", value ") == std::string::npos);
}

TEST_CASE("a place that no table names is still told") {
  watched_machine m;
  m.give_up(0, {.site = 99, .place = 4000, .value = 1});
  std::string text;
  CHECK(error_of([&] { m.gpu->wait(); }, &text) == "kernel-gave-up");
  CHECK(text.find("the mbarrier at shared offset 4000, phase 1") != std::string::npos);
}

TEST_CASE("a module that is not watched is asked for no variables and given no memory") {
  fake().reset();
  const auto gpu = runtime::open(0);
  fake().reset();
  gpu->load({.ptx = "fake ptx", .cubin = {}});
  CHECK(fake().calls("cuModuleGetGlobal_v2") == 0);
  CHECK(fake().calls("cuMemHostAlloc") == 0);
}

TEST_CASE("a module without the variables of its table is refused, and unloaded") {
  fake().reset();
  const auto gpu = runtime::open(0);
  fake().reset();
  fake().fail("cuModuleGetGlobal_v2", 500);
  CHECK(error_of([&] { gpu->load({.ptx = "fake ptx", .cubin = {}, .watch = names()}); }) == "driver-call-failed");
  CHECK(fake().calls("cuModuleUnload") == 1);
}

TEST_CASE("a limited wait names what has not finished, stops nothing, and a later one goes on") {
  watched_machine m;
  runtime::set_wait_limit(*m.gpu, 0.05);
  fake().fail("cuEventQuery", runtime::cu::error_not_ready);
  m.launch("first");
  m.launch("second");
  m.launch("second");
  CHECK(fake().calls("cuEventRecord") == 3);
  std::string text;
  const int before = fake().calls("cuCtxSynchronize");
  CHECK(error_of([&] { m.gpu->wait(); }, &text) == "wait-limit");
  CHECK_MESSAGE(text.find("has lasted 0.05 s; not finished: kernel \"first\" (behind it: 2 launches, \"second\", \"second\")") != std::string::npos, text);
  CHECK(fake().calls("cuCtxSynchronize") == before);  // it would have waited for ever
  runtime::stream s(*m.gpu);
  CHECK(error_of([&] { s.wait(); }, &text) == "wait-limit");
  CHECK(text.find("the wait for a stream") != std::string::npos);
  runtime::event e(*m.gpu);
  CHECK(error_of([&] { e.wait(); }) == "wait-limit");
  fake().fail("cuEventQuery", 0);
  CHECK(error_of([&] { m.gpu->wait(); }) == "");
  CHECK(error_of([&] { s.wait(); }) == "");
  fake().fail("cuEventQuery", runtime::cu::error_not_ready);
  CHECK(error_of([&] { m.gpu->wait(); }) == "");  // all known launches are done
  fake().reset();
}

TEST_CASE("without a limit a launch records no event") {
  watched_machine m;
  fake().reset();
  m.launch();
  m.gpu->wait();
  CHECK(fake().calls("cuEventRecord") == 0);
  CHECK(fake().calls("cuEventQuery") == 0);
}

TEST_CASE("TLX_WAIT_SECONDS sets the limit of new machines; nonsense is refused") {
  fake().reset();
  setenv("TLX_WAIT_SECONDS", "0.02", 1);
  const auto gpu = runtime::open(0);
  setenv("TLX_WAIT_SECONDS", "soon", 1);
  CHECK(error_of([] { runtime::open(0); }) == "wait-limit-invalid");
  unsetenv("TLX_WAIT_SECONDS");
  const auto code = gpu->load({.ptx = "fake ptx", .cubin = {}});
  gpu->run(*code, "slow", {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {}});
  fake().fail("cuEventQuery", runtime::cu::error_not_ready);
  CHECK(error_of([&] { gpu->wait(); }) == "wait-limit");
  fake().reset();
  CHECK(error_of([&] { runtime::set_wait_limit(*gpu, -1); }) == "wait-limit-invalid");
  gpu->wait();
}
