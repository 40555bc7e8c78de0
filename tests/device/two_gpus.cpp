// Two GPUs of one host. --device=gpu:0,gpu:1 (the default); with gpu:0,gpu:0 what needs no second GPU runs on one, with sim:sm_90a,sim:sm_90a what needs none.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/driver.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/skip.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/host/attention.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/host/library.hpp"
#include "tlx/host/warm_up.hpp"
#include "tlx/jit/machines.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;

namespace {

using clock_type = std::chrono::steady_clock;

struct side {
  std::string name;
  std::unique_ptr<device::machine> on;
  std::unique_ptr<host::session> with;
  bool is_gpu() const { return name.rfind("gpu", 0) == 0; }
  int ordinal() const { return name.size() > 4 ? std::atoi(name.c_str() + 4) : 0; }
};

side open_side(const std::string& name) {
  side s;
  s.name = name;
  s.on = s.is_gpu() ? jit::open_machine(name) : sim::open(name.substr(4), {.processor_count = 2});
  s.with = std::make_unique<host::session>(*s.on);
  return s;
}

std::vector<std::string> names() { return std::getenv("TLX_DEVICE") ? test::machine_names() : std::vector<std::string>{"gpu:0", "gpu:1"}; }

std::string why_not() {
  const std::vector<std::string> two = names();
  if (two.size() != 2) return cat(two.size(), " machines were named, two are needed");
  int needed = 0;
  for (const std::string& n : two)
    if (n.rfind("gpu", 0) == 0) needed = std::max(needed, (n.size() > 4 ? std::atoi(n.c_str() + 4) : 0) + 1);
  const int have = needed ? runtime::gpu_count() : 0;
  if (have < needed) return cat("needs ", needed, " GPUs, the driver shows ", have);
  return {};
}

side& first() {
  static side s = open_side(names()[0]);
  return s;
}
side& second() {
  static side s = open_side(names()[1]);
  return s;
}

bool on_gpus() { return first().is_gpu() && second().is_gpu(); }
bool apart() { return on_gpus() && first().ordinal() != second().ordinal(); }

#define TLX_TWO_MACHINES() TLX_SKIP_UNLESS(why_not().empty(), why_not())
#define TLX_TWO_SIDES_ON_GPUS() \
  TLX_TWO_MACHINES();           \
  TLX_SKIP_UNLESS(on_gpus(), "needs GPUs")
#define TLX_TWO_GPUS() \
  TLX_TWO_MACHINES();  \
  TLX_SKIP_UNLESS(apart(), "needs two different GPUs")

using tlx::test::error_of;

runtime::cu::context current_context() {
  runtime::cu::context now = nullptr;
  runtime::the_driver().context_current(&now);
  return now;
}

// The primary context of a GPU, current on this thread as long as this lives: what a caller who works on that GPU has.
struct with_current {
  explicit with_current(int ordinal) : ordinal_(ordinal) {
    const runtime::driver& d = runtime::the_driver();
    runtime::check(d, d.context_retain(&context, ordinal), "cuDevicePrimaryCtxRetain");
    runtime::check(d, d.context_push(context), "cuCtxPushCurrent");
  }
  ~with_current() {
    runtime::cu::context out = nullptr;
    runtime::the_driver().context_pop(&out);
    runtime::the_driver().context_release(ordinal_);
  }
  runtime::cu::context context = nullptr;

 private:
  int ordinal_;
};

problems::gemm_case small_gemm() {
  problems::gemm_case c;
  c.m = 192;
  c.n = 136;
  c.k = 128;
  return c;
}

problems::attention_case small_attention() {
  problems::attention_case c;
  c.lengths = {100, 1, 64, 0, 130};
  return c;
}

bool right(side& s, std::uint64_t seed) {
  problems::gemm_problem g(*s.on, small_gemm(), seed);
  g.run(*s.with);
  problems::attention_problem a(*s.on, small_attention(), seed);
  a.run(*s.with);
  const problems::verdict one = g.check(), two = a.check();
  if (!one.ok) MESSAGE(s.name, ": gemm: ", one.why);
  if (!two.ok) MESSAGE(s.name, ": attention: ", two.why);
  return one.ok && two.ok;
}

std::vector<std::uint16_t> downloaded(device::machine& m, device::address from, std::size_t elements) {
  std::vector<std::uint16_t> out(elements);
  m.read(out.data(), from, elements * 2);
  return out;
}

device::buffer uploaded(device::machine& m, const std::vector<std::uint16_t>& values) {
  device::buffer b(m, values.size() * 2);
  b.write(values.data(), values.size() * 2);
  return b;
}

double milliseconds(const std::function<void()>& go) {
  const auto start = clock_type::now();
  go();
  return std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
}

// The best of several runs.
double best_ms(const std::function<void()>& go) {
  double best = 1e30;
  for (int i = 0; i < 7; ++i) best = std::min(best, milliseconds(go));
  return best;
}

// How many times sooner both halves are done on their GPUs than the whole on the first.
template <class Part>
double speed_up(const std::string& what, int repeats, Part& whole, Part& one, Part& two) {
  const double alone = best_ms([&] {
    for (int i = 0; i < repeats; ++i) whole.run();
    first().on->wait();
  });
  const double split = best_ms([&] {
    for (int i = 0; i < repeats; ++i) {
      one.run();
      two.run();
    }
    first().on->wait();
    second().on->wait();
  });
  MESSAGE(what, ": one GPU ", alone / repeats, " ms, both ", split / repeats, " ms, ", alone / split, " times");
  return alone / split;
}

}  // namespace

TEST_CASE("the same kernels are right on both, each with modules and tensor maps of its own") {
  TLX_TWO_MACHINES();
  CHECK(right(first(), 1));
  CHECK(right(second(), 2));
  if (!on_gpus()) return;
  CHECK(runtime::maps_encoded(*first().on) > 0);
  CHECK(runtime::maps_encoded(*second().on) > 0);
  const std::uint64_t a = runtime::maps_encoded(*first().on), b = runtime::maps_encoded(*second().on);
  const auto larger = [] {
    problems::gemm_case c = small_gemm();
    c.m = 320;  // no map is as before
    c.k = 192;
    return c;
  };
  problems::gemm_problem g(*second().on, larger(), 3);
  g.run(*second().with);
  CHECK(g.check().ok);
  if (apart()) CHECK(runtime::maps_encoded(*first().on) == a);
  CHECK(runtime::maps_encoded(*second().on) > b);
}

TEST_CASE("a module of one is refused by the other") {
  TLX_TWO_GPUS();
  REQUIRE(right(first(), 1));
  const device::kernel* k = first().with->find(host::gemm_kernel_name(*first().with, {256, 192, 128}, {256, 128, 136, 0, true}, {256, 192, 136}));
  REQUIRE(k);
  const auto code = first().on->load(k->code);
  std::string said;
  CHECK(error_of([&] { second().on->run(*code, k->entry, {}); }, &said) == "module-of-another-machine");
  CHECK(said.find(cat("device ", second().ordinal())) != std::string::npos);
}

TEST_CASE("two threads launch on two GPUs at once, and have no context afterwards") {
  TLX_TWO_MACHINES();
  std::atomic<int> wrong{0};
  const auto work = [&](side& s, std::uint64_t seed) {
    for (std::uint64_t i = 0; i < (s.is_gpu() ? 20 : 1); ++i)
      if (!right(s, seed + i)) ++wrong;
    if (s.is_gpu() && current_context()) ++wrong;
  };
  std::thread other([&] { work(second(), 100); });
  std::thread one([&] { work(first(), 200); });
  one.join();
  other.join();
  CHECK(wrong == 0);
}

TEST_CASE("many threads share both sessions") {
  TLX_TWO_MACHINES();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < (on_gpus() ? 6 : 1); ++i)
        if (!right((t + i) % 2 ? first() : second(), t * 100 + i)) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("C70: one thread switches between the two, and what it has current stays current") {
  TLX_TWO_MACHINES();
  for (int i = 0; i < 3; ++i) {
    CHECK(right(first(), 10));
    CHECK(right(second(), 11));
  }
  if (!on_gpus()) return;
  const with_current mine(first().ordinal());
  for (int i = 0; i < 3; ++i) {
    CHECK(right(second(), 12));
    CHECK(current_context() == mine.context);
    CHECK(right(first(), 13));
    CHECK(current_context() == mine.context);
  }
}

TEST_CASE("C70: data and stream on GPU 1 while GPU 0 is current: right on the session of GPU 1") {
  TLX_TWO_SIDES_ON_GPUS();
  const with_current mine(first().ordinal());
  runtime::stream s(*second().on);
  problems::attention_problem a(*second().on, small_attention(), 21);
  a.run(*second().with, s.handle());
  s.wait();
  CHECK(a.check().ok);
  CHECK(current_context() == mine.context);
}

TEST_CASE("data on GPU 1 for a kernel on GPU 0: an error that names the argument and both GPUs") {
  TLX_TWO_GPUS();
  problems::gemm_problem there(*second().on, small_gemm(), 31);
  std::string said;
  CHECK(error_of([&] { there.run(*first().with); }, &said) == "pointer-not-on-device");
  CHECK(said.find("argument \"a\"") != std::string::npos);
  CHECK(said.find(cat("memory of gpu:", second().ordinal())) != std::string::npos);
  CHECK(said.find(cat("kernels on gpu:", first().ordinal())) != std::string::npos);
  MESSAGE(said);
  CHECK(right(first(), 32));  // and nothing is broken by it
  CHECK(right(second(), 33));
}

TEST_CASE("a stream of GPU 1 for a kernel on GPU 0: an error that says so") {
  TLX_TWO_GPUS();
  runtime::stream there(*second().on);
  problems::attention_problem here(*first().on, small_attention(), 41);
  std::string said;
  CHECK(error_of([&] { here.run(*first().with, there.handle()); }, &said) == "launch-failed");
  CHECK(said.find(cat("the stream belongs to gpu:", second().ordinal())) != std::string::npos);
  MESSAGE(said);
  CHECK(right(first(), 42));
}

TEST_CASE("contexts of the caller's own on both, next to the primary ones") {
  TLX_TWO_SIDES_ON_GPUS();
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  const auto create = reinterpret_cast<int (*)(void**, unsigned, int)>(dlsym(library, "cuCtxCreate_v2"));
  const auto destroy = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuCtxDestroy_v2"));
  for (side* s : {&first(), &second()}) {
    void* own = nullptr;
    REQUIRE(create(&own, 0, s->ordinal()) == 0);  // current now
    {
      side inside;
      inside.name = s->name;
      inside.on = runtime::open_current();
      inside.with = std::make_unique<host::session>(*inside.on);
      CHECK(right(inside, 51));
      CHECK(current_context() == own);
      CHECK(right(*s, 52));  // in the primary one
      CHECK(current_context() == own);
      // Memory of the primary context is not the own one's.
      problems::gemm_problem primary(*s->on, small_gemm(), 53);
      std::string said;
      const std::string id = error_of([&] { primary.run(*inside.with); }, &said);
      if (id.empty()) {  // a driver that maps the memory of all contexts of a process: then it has to be right
        inside.on->wait();
        CHECK(primary.check().ok);
      } else {
        CHECK(id == "pointer-not-on-device");
      }
      MESSAGE("memory of the primary context in an own one: ", id.empty() ? std::string("usable") : said);
    }
    REQUIRE(destroy(own) == 0);
    CHECK(right(*s, 54));
  }
}

TEST_CASE("launches are captured on each, and the graphs run at the same time, with other arguments too") {
  TLX_TWO_SIDES_ON_GPUS();
  struct part {
    side* s;
    problems::attention_problem problem;
    runtime::stream stream;
    std::unique_ptr<runtime::graph> graph;
    part(side& which, std::uint64_t seed) : s(&which), problem(*which.on, small_attention(), seed), stream(*which.on) {}
  };
  part parts[] = {part(first(), 61), part(second(), 62)};
  for (part& p : parts) p.problem.run(*p.s->with);  // compiled and loaded
  for (part& p : parts) p.s->on->wait();
  for (part& p : parts) {
    p.stream.begin_capture();
    for (int i = 0; i < 10; ++i) p.problem.run(*p.s->with, p.stream.handle());
    p.graph = std::make_unique<runtime::graph>(p.stream.end_capture());
    CHECK(p.graph->kernel_count() == 10);
  }
  for (int i = 0; i < 5; ++i)
    for (part& p : parts) p.graph->launch(p.stream.handle());
  for (part& p : parts) p.stream.wait();
  for (part& p : parts) CHECK(p.problem.check().ok);

  // One GEMM in a graph, then the same graph for other matrices.
  for (side* s : {&first(), &second()}) {
    problems::gemm_problem one(*s->on, small_gemm(), 63), two(*s->on, small_gemm(), 64);
    one.run(*s->with);
    s->on->wait();
    const device::kernel* k = s->with->find(host::gemm_kernel_name(*s->with, one.a(), one.b(), one.out(), one.options()));
    REQUIRE(k);
    const auto code = s->on->load(k->code);
    device::binder bind(*k, s->on->about());
    const auto values = [](problems::gemm_problem& p) {
      const host::matrix a = p.a(), b = p.b(), c = p.out();
      return std::vector<device::value>{device::view_value(a.data, {a.rows, a.cols}, {a.stride, 1}), device::view_value(b.data, {b.cols, b.rows}, {b.stride, 1}),
                                        device::view_value(c.data, {c.rows, c.cols}, {c.stride, 1}), device::view_value(0, {0}), device::view_value(0, {0, 0}), device::scalar_value(1.0f),
                                        device::view_value(0, {0}), device::view_value(0, {0}), device::view_value(0, {0, 0}), device::scalar_value(0.0f), device::scalar_value(0.0f)};
    };
    runtime::stream stream(*s->on);
    stream.begin_capture();
    s->on->run(*code, k->entry, bind(values(one), stream.handle()));
    runtime::graph g = stream.end_capture();
    REQUIRE(g.kernel_count() == 1);
    g.update(0, *s->on, *code, k->entry, bind(values(two), stream.handle()));
    g.launch(stream.handle());
    stream.wait();
    CHECK(two.check().ok);
  }
}

TEST_CASE("a bundle is asked for each machine's own target") {
  TLX_TWO_MACHINES();
  const auto library = host::library_kernels();
  const auto wanted = std::find_if(library.begin(), library.end(), [](const auto& k) { return k.name == "block_attention_bf16_d64"; });
  REQUIRE(wanted != library.end());
  for (side* s : {&first(), &second()}) {
    host::session plain(*s->on);
    plain.prepare(wanted->name, wanted->trace);
    const device::kernel made = *plain.find(wanted->name);
    std::string asked;
    side bundled;
    bundled.name = s->name;
    bundled.with = std::make_unique<host::session>(*s->on, host::session_options{.bundle = [&](const std::string& name, const std::string& target) -> std::optional<device::kernel> {
      asked = target;
      if (name == made.name && target == made.target) return made;
      return std::nullopt;
    }});
    problems::attention_problem a(*s->on, small_attention(), 71);
    a.run(*bundled.with);
    CHECK(a.check().ok);
    CHECK(asked == s->on->about().target);
    CHECK(bundled.with->counters().bundle_hits == 1);
    CHECK(bundled.with->counters().compiled == 0);
  }
}

TEST_CASE("the warm-up readies both by one compilation for each target") {
  TLX_TWO_MACHINES();
  std::vector<host::library_kernel> kernels;
  for (const host::library_kernel& k : host::library_kernels())
    if (k.name == "block_attention_bf16_d64" || k.name == "block_attention_bf16_d128" || k.name == "block_attention_f16_d64" || k.name == "block_attention_f16_d128" || k.name == host::gemm_kernel_name(*first().with, {256, 192, 128}, {256, 128, 136, 0, true}, {256, 192, 136})) kernels.push_back(k);
  REQUIRE(kernels.size() == 5);
  host::session a(*first().on), b(*second().on);
  const host::warm_up_result all = host::warm_up({&a, &b}, kernels);
  for (const host::warm_up_step& f : all.failed) MESSAGE(f.kernel, ": ", f.error);
  CHECK(all.failed.empty());
  const bool same_target = first().on->about().target == second().on->about().target;
  CHECK(all.compiled + all.from_cache == (same_target ? 5 : 10));
  for (host::session* s : {&a, &b})
    for (const host::library_kernel& k : kernels) CHECK(s->find(k.name) != nullptr);
  MESSAGE("warm-up of ", kernels.size(), " kernels on both: ", all.seconds, " s");
}

TEST_CASE("a GEMM split over both by rows gives the bits of one") {
  TLX_TWO_MACHINES();
  const std::int64_t m = on_gpus() ? 16384 : 256, n = on_gpus() ? 8192 : 256, k = on_gpus() ? 4096 : 128, half = m / 2;
  const auto a = problems::random_values(static_cast<std::size_t>(m * k), tile::element::bf16, 81), b = problems::random_values(static_cast<std::size_t>(n * k), tile::element::bf16, 82);
  struct part {
    side* s;
    std::int64_t rows;
    device::buffer a, b, c;
    void run() { host::gemm(*s->with, {a.where(), rows, k_}, {b.where(), k_, n_, 0, true}, {c.where(), rows, n_}); }
    std::int64_t n_, k_;
  };
  const auto make = [&](side& s, std::int64_t from, std::int64_t rows) {
    const std::vector<std::uint16_t> mine(a.begin() + from * k, a.begin() + (from + rows) * k);
    part p{&s, rows, uploaded(*s.on, mine), uploaded(*s.on, b), device::buffer(*s.on, static_cast<std::size_t>(rows * n) * 2), n, k};
    s.on->fill(p.c.where(), 0xff, p.c.size_bytes());
    return p;
  };
  part whole = make(first(), 0, m), one = make(first(), 0, half), two = make(second(), half, half);
  whole.run();
  one.run();
  two.run();
  const auto all = downloaded(*first().on, whole.c.where(), static_cast<std::size_t>(m * n));
  auto joined = downloaded(*first().on, one.c.where(), static_cast<std::size_t>(half * n));
  const auto rest = downloaded(*second().on, two.c.where(), static_cast<std::size_t>(half * n));
  joined.insert(joined.end(), rest.begin(), rest.end());
  CHECK(all == joined);
  CHECK(std::none_of(all.begin(), all.end(), [](std::uint16_t v) { return std::isnan(problems::decode(v, tile::element::bf16)); }));
  if (!on_gpus()) return;
  const double faster = speed_up(cat("gemm ", m, " x ", n, " x ", k), 10, whole, one, two);
  if (apart()) CHECK(faster > 1.6);
}

TEST_CASE("a block attention split over both by batch gives the bits of one") {
  TLX_TWO_MACHINES();
  const std::int64_t heads = 4, width = 64 * heads;
  const int batch = on_gpus() ? 1024 : 6;
  std::vector<std::int32_t> offsets{0};
  for (int i = 0; i < batch; ++i) offsets.push_back(offsets.back() + (on_gpus() ? 1 + (i * 389) % 1024 : 40 + 7 * i));
  const std::int64_t tokens = offsets.back(), middle = offsets[static_cast<std::size_t>(batch) / 2];
  std::vector<std::uint16_t> in[3];
  for (std::uint64_t i = 0; i < 3; ++i) in[i] = problems::random_values(static_cast<std::size_t>(tokens * width), tile::element::bf16, 91 + i);
  struct part {
    side* s;
    std::int64_t count;
    device::buffer q, k, v, o, offsets;
    std::int64_t sequences;
    void run() {
      host::attention_problem p;
      p.token_count = count;
      p.heads = 4;
      p.dimension = 64;
      p.offsets = offsets.where();
      p.batch = sequences;
      host::block_attention(*s->with, {q.where()}, {k.where()}, {v.where()}, {o.where()}, p);
    }
  };
  const auto make = [&](side& s, int from, int to) {
    const std::int64_t begin = offsets[static_cast<std::size_t>(from)], end = offsets[static_cast<std::size_t>(to)];
    std::vector<std::int32_t> mine;
    for (int i = from; i <= to; ++i) mine.push_back(offsets[static_cast<std::size_t>(i)] - static_cast<std::int32_t>(begin));
    const auto piece = [&](int i) { return uploaded(*s.on, {in[i].begin() + begin * width, in[i].begin() + end * width}); };
    part p{&s, end - begin, piece(0), piece(1), piece(2), device::buffer(*s.on, static_cast<std::size_t>((end - begin) * width) * 2), device::buffer(*s.on, mine.size() * 4), to - from};
    p.offsets.write(mine.data(), mine.size() * 4);
    s.on->fill(p.o.where(), 0xff, p.o.size_bytes());
    return p;
  };
  part whole = make(first(), 0, batch), one = make(first(), 0, batch / 2), two = make(second(), batch / 2, batch);
  whole.run();
  one.run();
  two.run();
  const auto all = downloaded(*first().on, whole.o.where(), static_cast<std::size_t>(tokens * width));
  auto joined = downloaded(*first().on, one.o.where(), static_cast<std::size_t>(middle * width));
  const auto rest = downloaded(*second().on, two.o.where(), static_cast<std::size_t>((tokens - middle) * width));
  joined.insert(joined.end(), rest.begin(), rest.end());
  CHECK(all == joined);
  CHECK(std::none_of(all.begin(), all.end(), [](std::uint16_t v) { return std::isnan(problems::decode(v, tile::element::bf16)); }));
  if (!on_gpus()) return;
  const double faster = speed_up(cat("block attention of ", tokens, " tokens"), 20, whole, one, two);
  if (apart()) CHECK(faster > 1.5);
}

// Last: what is enabled stays enabled for the process.
TEST_CASE("with peer access a kernel on GPU 0 works on the data of GPU 1, without it the refusal says so") {
  TLX_TWO_GPUS();
  std::string said;
  const std::string id = error_of([&] { runtime::enable_peer(*first().on, *second().on); }, &said);
  if (!id.empty()) {
    CHECK(id == "peer-access-unavailable");
    MESSAGE(said);
    return;
  }
  problems::gemm_problem there(*second().on, small_gemm(), 95);
  there.run(*first().with);
  first().on->wait();
  CHECK(there.check().ok);
  runtime::enable_peer(*first().on, *second().on);  // again: nothing to do
  // One way only.
  problems::gemm_problem here(*first().on, small_gemm(), 96);
  CHECK(error_of([&] { here.run(*second().with); }) == "pointer-not-on-device");
}
