// Kernels made ready at start-up, and sessions that many threads use; on the simulator.
#include "tlx/host/warm_up.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <thread>

#include "tests/support/attention.hpp"
#include "tests/support/problems.hpp"
#include "tlx/bundle/write.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/jit/stored.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<float, 1>, x), (view<float, 1>, y));
};

host::library_kernel adds(int number) {
  const std::string name = cat("adds_", number);
  return {name, [=](const std::string& target) {
            return trace<arguments>(name, target, [=](block& cta, const arguments& in) {
              cta.warps(4_warps);
              store(in.y.at(0), fetch<1, 128>(in.x.at(0)) + constant(cta.home(), static_cast<float>(number)));
            });
          }};
}

std::vector<host::library_kernel> several(int first, int count) {
  std::vector<host::library_kernel> all;
  for (int i = first; i < first + count; ++i) all.push_back(adds(i));
  return all;
}

// The cache is opened once a process; this runs before the first compile.
const std::string cache_folder = [] {
  const std::string folder = cat(TLX_BINARY_DIR, "/test_warm_up_cache.", getpid());
  setenv("TLX_CACHE", folder.c_str(), 1);
  return folder;
}();
struct clean_up {
  ~clean_up() {
    std::error_code none;
    std::filesystem::remove_all(cache_folder, none);
  }
} at_the_end;

// y = x + number for 100 elements, NaN before the run and behind the end.
bool right_result(device::machine& m, host::session& s, int number) {
  constexpr std::size_t n = 100, room = 128;
  std::vector<float> x(room, std::numeric_limits<float>::quiet_NaN()), y = x;
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i) * 0.5f;
  device::buffer on_x(m, room * 4), on_y(m, room * 4);
  on_x.write(x.data(), room * 4);
  on_y.write(y.data(), room * 4);
  const host::library_kernel k = adds(number);
  s.run(k.name, k.trace, {device::view_value(on_x.where(), {n}), device::view_value(on_y.where(), {n})});
  on_y.read(y.data(), room * 4);
  for (std::size_t i = 0; i < n; ++i)
    if (y[i] != x[i] + static_cast<float>(number)) return false;
  return std::all_of(y.begin() + n, y.end(), [](float v) { return std::isnan(v); });
}

}  // namespace

TEST_CASE("a cold warm-up compiles, a second process's finds, and a third call has nothing to do") {
  const auto m = sim::open("sm_90a", {.processor_count = 2});
  host::session cold(*m), warm(*m);
  const auto kernels = several(0, 6);
  const host::warm_up_result first = host::warm_up(cold, kernels, {.threads = 3});
  CHECK(first.compiled == 6);
  CHECK(first.failed.empty());
  const host::warm_up_result second = host::warm_up(warm, kernels, {.threads = 3});
  CHECK(second.from_cache == 6);
  CHECK(second.compiled == 0);
  CHECK(host::warm_up(warm, kernels).ready_before == 6);
  CHECK(warm.counters().cache_hits == 6);
  CHECK(cold.counters().compiled == 6);
  for (int i = 0; i < 6; ++i) CHECK(right_result(*m, warm, i));
  CHECK(warm.counters().compiled == 0);
}

TEST_CASE("progress counts every kernel once, from one thread at a time") {
  const auto m = sim::open("sm_90a", {.processor_count = 2});
  host::session s(*m);
  std::vector<host::warm_up_step> steps;
  std::atomic<int> inside{0};
  bool alone = true;
  const host::warm_up_result all = host::warm_up(s, several(10, 8), {.threads = 4, .progress = [&](const host::warm_up_step& step) {
                                                                        alone = alone && ++inside == 1;
                                                                        steps.push_back(step);
                                                                        --inside;
                                                                      }});
  CHECK(alone);
  CHECK(all.seconds > 0);
  REQUIRE(steps.size() == 8);
  std::set<std::string> names;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].done == i + 1);
    CHECK(steps[i].total == 8);
    CHECK(steps[i].target == "sm_90a");
    CHECK(steps[i].ms > 0);
    names.insert(steps[i].kernel);
  }
  CHECK(names.size() == 8);
}

TEST_CASE("one kernel that cannot be made stops no other and says why") {
  const auto m = sim::open("sm_90a", {.processor_count = 2});
  host::session s(*m);
  auto kernels = several(20, 3);
  kernels[1] = {"broken", [](const std::string&) -> std::unique_ptr<ir::kernel> { raise(user_error({.id = "of-a-test", .what = "cannot be traced"})); }};
  const host::warm_up_result all = host::warm_up(s, kernels, {.threads = 2});
  CHECK(all.compiled == 2);
  REQUIRE(all.failed.size() == 1);
  CHECK(all.failed[0].kernel == "broken");
  CHECK(all.failed[0].error.find("[of-a-test]: cannot be traced") != std::string::npos);
  CHECK(right_result(*m, s, 22));
  CHECK(s.find("broken") == nullptr);
}

TEST_CASE("a bundle is asked first, then the cache, then the compiler, and each is counted") {
  const auto m = sim::open("sm_90a", {.processor_count = 2});
  const device::kernel in_bundle = jit::compile(*adds(30).trace("sm_90a"), {.assemble = false, .use_cache = false});
  jit::compile(*adds(31).trace("sm_90a"), {.assemble = false});  // into the cache
  std::atomic<int> asked{0};
  host::session s(*m, {.bundle = [&](const std::string& name, const std::string& target) -> std::optional<device::kernel> {
                    ++asked;
                    if (name == "adds_30" && target == "sm_90a") return in_bundle;
                    return std::nullopt;
                  }});
  const host::warm_up_result all = host::warm_up(s, several(30, 3), {.threads = 3});
  CHECK(all.from_bundle == 1);
  CHECK(all.from_cache == 1);
  CHECK(all.compiled == 1);
  CHECK(asked == 3);
  CHECK(s.counters().bundle_hits == 1);
  CHECK(s.counters().bundle_misses == 2);
  for (int i = 30; i < 33; ++i) CHECK(right_result(*m, s, i));
}

TEST_CASE("a bundle of the library's kernels, as tlxc build makes it, serves the one-call functions: nothing is compiled") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    CAPTURE(target);
    const std::string with_activation = target == std::string("sm_90a") ? "gemm_bf16_128x128_nt_turns_bias_silu" : "gemm_bf16_128x256_nt_bias_silu";
    std::vector<bundle::compiled> made;
    for (const host::library_kernel& k : host::library_kernels())
      if (k.name == "gemm_bf16_128x128_nt" || k.name == with_activation || k.name == "block_attention_bf16_d64")
        made.push_back({k.name, "", jit::compile(*k.trace(target), {.assemble = false, .use_cache = false})});
    REQUIRE(made.size() == 3);
    const std::string file = bundle::pack({}, std::move(made), {.cubin = false, .ptx = true});
    const auto m = sim::open(target, {.processor_count = 2});
    host::session s(*m, {.bundle = bundle::by_name(bundle::bundle::of_memory(file.data(), file.size()))});
    problems::gemm_problem plain(*m, {.m = 136, .n = 72, .k = 80}), with_bias(*m, {.m = 136, .n = 512, .k = 80, .bias = true, .activate = host::activation::silu});
    problems::attention_problem scores(*m, {.lengths = {0, 65, 7}});
    plain.run(s);
    with_bias.run(s);
    scores.run(s);
    CHECK(plain.check().ok);
    CHECK(with_bias.check().ok);
    CHECK(scores.check().ok);
    CHECK(s.counters().bundle_hits == 3);
    CHECK(s.counters().bundle_misses + s.counters().cache_hits + s.counters().compiled == 0);
  }
}

TEST_CASE("what takes long is a line in the log, what does not is none") {
  const auto m = sim::open("sm_90a", {.processor_count = 2});
  std::vector<std::string> lines;
  host::session quick(*m, {.log = [&](const std::string& line) { lines.push_back(line); }});
  quick.prepare("adds_40", adds(40).trace);
  CHECK(lines.empty());
  host::session slow(*m, {.slow_seconds = 0, .log = [&](const std::string& line) { lines.push_back(line); }});
  slow.prepare("adds_41", adds(41).trace);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("kernel \"adds_41\" took ") != std::string::npos);
  CHECK(lines[0].find("it was compiled") != std::string::npos);
}

TEST_CASE("two machines of one target are warmed by one compilation, another target by its own") {
  const auto a = sim::open("sm_90a", {.processor_count = 2}), b = sim::open("sm_90a", {.processor_count = 2}), c = sim::open("sm_100a", {.processor_count = 2});
  host::session on_a(*a), on_b(*b), on_c(*c);
  const host::warm_up_result all = host::warm_up({&on_a, &on_b, &on_c}, several(50, 2), {.threads = 4});
  CHECK(all.compiled == 4);
  CHECK(on_a.counters().compiled == 2);
  CHECK(on_b.counters().compiled + on_b.counters().cache_hits == 0);
  CHECK(right_result(*a, on_a, 51));
  CHECK(right_result(*b, on_b, 51));
  CHECK(right_result(*c, on_c, 51));
  CHECK(on_b.counters().compiled + on_b.counters().cache_hits == 0);
}

TEST_CASE("threads that use one session at once each get their results, and a kernel is made once") {
  const auto m = sim::open("sm_90a", {.processor_count = 2});
  host::session s(*m);
  std::atomic<int> traced{0}, wrong{0};
  const host::library_kernel k = adds(60);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&] {
      s.prepare(k.name, [&](const std::string& target) {
        ++traced;
        return k.trace(target);
      });
      for (int i = 60; i < 63; ++i)
        if (!right_result(*m, s, i)) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  CHECK(traced == 1);
  CHECK(wrong == 0);
}

TEST_CASE("kernels compiled side by side are those that are compiled one after the other") {
  const auto library = host::library_kernels();
  std::vector<const host::library_kernel*> some;
  for (const host::library_kernel& k : library)
    if (k.name.find("attention") != std::string::npos || k.name.find("128x256_nt") != std::string::npos) some.push_back(&k);
  REQUIRE(some.size() >= 6);
  constexpr jit::compile_options text_only{.assemble = false, .use_cache = false};
  std::vector<std::string> alone, together(some.size());
  for (const auto* k : some) alone.push_back(jit::compile(*k->trace("sm_90a"), text_only).code.ptx);
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < some.size(); i = next++) together[i] = jit::compile(*some[i]->trace("sm_90a"), text_only).code.ptx;
    });
  for (std::thread& t : threads) t.join();
  for (std::size_t i = 0; i < some.size(); ++i) CHECK(alone[i] == together[i]);
}
