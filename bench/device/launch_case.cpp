// Host time of launches, with arguments unchanged and with new ones every time, and wall time of twenty small kernels with and without a graph.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bench/device/bare.hpp"
#include "bench/device/cases.hpp"
#include "bench/device/streaming.hpp"
#include "tlx/bundle/arguments.hpp"
#include "tlx/bundle/library.hpp"
#include "tlx/bundle/write.hpp"
#include "tlx/c.h"
#include "tlx/device/binder.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bench {

namespace {

using clock = std::chrono::steady_clock;

struct way {
  const char* name;
  const char* note;
  std::function<void(int)> go;  // the number of the launch, never the same twice
  std::vector<double> ms = {};
};

// Milliseconds of host time a launch. Fewer launches than the queue holds, so that the host never waits for the GPU.
std::vector<row> race(const host_setting& on, const char* name, std::vector<way> ways, runtime::stream& stream) {
  constexpr int batch = 200;
  int number = 0;
  for (int round = 0; round < on.rounds + 2; ++round)
    for (way& w : ways) {
      stream.wait();
      const auto start = clock::now();
      for (int i = 0; i < batch; ++i) w.go(number++);
      const double ms = std::chrono::duration<double, std::milli>(clock::now() - start).count() / batch;
      if (round >= 2) w.ms.push_back(ms);
    }
  stream.wait();
  std::vector<row> rows;
  for (const way& w : ways) {
    row r{name, w.name, {{"batch", batch}}, quantile(w.ms, 0.5), quantile(w.ms, 0.99), 0, 0, true, cat(w.note, "; ", quantile(w.ms, 0.5) / quantile(ways[0].ms, 0.5), " of ", ways[0].name)};
    print_row(r);
    rows.push_back(std::move(r));
  }
  return rows;
}

// The GEMM of 64 x 64 x 64 and everything to launch it with, at addresses that differ by 1 KiB from one launch to the next if asked for.
struct small_gemm {
  static constexpr std::int64_t n = 64;
  static constexpr std::uint64_t places = 1 << 16;
  const host_setting& on;
  device::buffer a{on.gpu, places * 1024 + n * n * 2}, b{on.gpu, places * 1024 + n * n * 2}, c{on.gpu, places * 1024 + n * n * 2};
  runtime::stream stream{on.gpu};
  host::gemm_options options;
  std::string name;
  std::vector<device::value> values;
  std::vector<std::pair<size_t, device::address>> moving;  // which values are the matrices, and where those begin

  explicit small_gemm(const host_setting& s) : on(s) {
    options.stream = stream.handle();
    for (const device::buffer* x : {&a, &b}) on.gpu.fill(x->where(), 0, x->size_bytes());
    gemm(0);
    name = host::gemm_kernel_name(on.session, {a.where(), n, n}, {b.where(), n, n, 0, true}, {c.where(), n, n}, options);
    // What the kernel calls its arguments decides what it gets: where the library chose a kernel for few rows, a is the weights.
    const bool swapped = name.find("_swapped") != std::string::npos;
    for (const device::parameter& p : on.session.find(name)->parameters) {
      const device::buffer* matrix = p.name == "a" ? (swapped ? &b : &a) : p.name == "b" ? (swapped ? &a : &b) : p.name == "c" ? &c : nullptr;
      if (matrix) moving.push_back({values.size(), matrix->where()});
      if (matrix) values.push_back(device::view_value(matrix->where(), {n, n}));
      else if (p.what == device::parameter::kind::view) values.push_back(device::view_value(0, std::vector<std::int64_t>(static_cast<size_t>(p.rank))));
      else values.push_back(device::scalar_value(p.name == "alpha" ? 1.0f : 0.0f));
    }
  }
  static std::uint64_t shift(int number) { return static_cast<std::uint64_t>(number) % places * 1024; }
  void gemm(std::uint64_t by) { host::gemm(on.session, {a.where() + by, n, n}, {b.where() + by, n, n, 0, true}, {c.where() + by, n, n}, options); }
  const std::vector<device::value>& shifted(std::uint64_t by) {
    for (const auto& [which, start] : moving) values[which].base = start + by;
    return values;
  }
  void session(std::uint64_t by) {
    on.session.run(name, [](const std::string&) -> std::unique_ptr<ir::kernel> { return nullptr; }, shifted(by), stream.handle());
  }
};

// The struct that `tlxc build --header` writes for the GEMM, but for its signature, which this program learns when it runs.
struct gemm_struct {
  static constexpr const char* tlx_kernel = "gemm";
  static inline std::string signature;
  static inline const char* tlx_signature = "";
  bundle::tensor<2> a, b, c;
  bundle::tensor<1> bias;
  bundle::tensor<2> residual;
  float alpha = 1;
  bundle::tensor<1> scale_a, scale_b;
  bundle::tensor<2> before;
  float low = 0, high = 0;
  std::array<device::value_ref, 11> tlx_arguments() const {
    using bundle::refer;
    return {refer(a), refer(b), refer(c), refer(bias), refer(residual), refer(alpha), refer(scale_a), refer(scale_b), refer(before), refer(low), refer(high)};
  }
};

// The same kernel through a bundle and through the C interface.
struct other_doors {
  small_gemm& g;
  std::string bytes;
  std::optional<bundle::library> library;
  gemm_struct typed;
  tlx_machine* machine = nullptr;
  tlx_kernel* kernel = nullptr;
  std::vector<tlx_value> values;

  other_doors(small_gemm& of, const device::kernel& k) : g(of) {
    bytes = bundle::pack({"bench", "1", "", "", ""}, {{"gemm", "", k}}, {.ptx = k.code.cubin.empty()});
    library.emplace(g.on.gpu, bundle::bundle::of_memory(bytes.data(), bytes.size()));
    gemm_struct::signature = bundle::signature_of(k);
    gemm_struct::tlx_signature = gemm_struct::signature.c_str();
    for (bundle::tensor<2>* m : {&typed.a, &typed.b, &typed.c}) m->extents = {small_gemm::n, small_gemm::n};

    const std::string manifest = device::to_manifest(k), &code = k.code.cubin.empty() ? k.code.ptx : k.code.cubin;
    check(tlx_open("gpu:0", &machine));
    check(tlx_load(machine, manifest.data(), manifest.size(), code.data(), code.size(), &kernel));
    for (const device::value& v : g.shifted(0))
      values.push_back(v.bytes.empty() ? tlx_value{.address = v.base, .rank = static_cast<int>(v.extents.size()), .extents = v.extents.data(), .strides = nullptr, .scalar = nullptr, .scalar_bytes = 0}
                                       : tlx_value{.address = 0, .rank = 0, .extents = nullptr, .strides = nullptr, .scalar = v.bytes.data(), .scalar_bytes = v.bytes.size()});
  }
  ~other_doors() {
    tlx_release(kernel);
    tlx_close(machine);
  }
  other_doors(const other_doors&) = delete;
  other_doors& operator=(const other_doors&) = delete;
  static void check(tlx_status s) {
    if (s != TLX_OK) raise(device_error({.id = "bench-device", .what = tlx_last_error()}));
  }
  void through_library(std::uint64_t by) {
    for (const auto& [which, start] : g.moving) (which == 0 ? typed.a : which == 1 ? typed.b : typed.c).data = start + by;
    library->launch(typed, "", g.stream.handle());
  }
  void through_c(std::uint64_t by) {
    for (const auto& [which, start] : g.moving) values[which].address = start + by;
    check(tlx_launch(kernel, values.data(), values.size(), g.stream.handle()));
  }
};

std::vector<row> launches_of_one_gemm(const host_setting& on) {
  small_gemm g(on);
  const device::kernel& k = *on.session.find(g.name);
  device::binder bind(k, on.gpu.about());
  const device::launch how = bind(g.shifted(0), g.stream.handle());
  const std::shared_ptr<device::module> code = on.gpu.load(k.code);
  bare_kernel bare(k, how);
  other_doors doors(g, k);
  // Entry parameters: the maps, then each view's address, extents and strides but the innermost, and each scalar.
  const int maps = static_cast<int>(k.maps.size());
  std::vector<int> address_of;
  int next = maps;
  for (const device::parameter& p : k.parameters) {
    address_of.push_back(next);
    next += p.what == device::parameter::kind::view ? 2 * p.rank : 1;
  }
  const auto bare_at = [&, maps](std::uint64_t by) {
    const std::vector<device::value>& at = g.shifted(by);
    for (int m = 0; m < maps; ++m) bare.encode(m, at[static_cast<size_t>(k.maps[static_cast<size_t>(m)].parameter_index)].base);
    for (const auto& [which, start] : g.moving) bare.set_address(address_of[which], start + by);
    bare.launch();
  };
  std::vector<row> rows = race(on, "launch_host",
                               {{"driver", "cuLaunchKernelEx of the GEMM, parameters and maps ready", [&](int) { bare.launch(); }},
                                {"tlx_machine", "machine::run of a bound launch", [&](int) { on.gpu.run(*code, k.entry, how); }},
                                {"tlx_session", "session::run: checks, binding, maps", [&](int) { g.session(0); }},
                                {"tlx_bundle", "library::launch of a typed struct", [&](int) { doors.through_library(0); }},
                                {"tlx_c", "tlx_launch", [&](int) { doors.through_c(0); }},
                                {"tlx_gemm", "host::gemm: choosing the kernel, too", [&](int) { g.gemm(0); }}},
                               g.stream);
  const std::vector<row> changing = race(on, "launch_host_new",
                                         {{"driver", "three maps encoded, then cuLaunchKernelEx", [&](int i) { bare_at(small_gemm::shift(i)); }},
                                          {"tlx_machine", "bound, encoded and launched", [&](int i) { on.gpu.run(*code, k.entry, bind(g.shifted(small_gemm::shift(i)), g.stream.handle())); }},
                                          {"tlx_session", "session::run with new addresses", [&](int i) { g.session(small_gemm::shift(i)); }},
                                          {"tlx_bundle", "library::launch with new addresses", [&](int i) { doors.through_library(small_gemm::shift(i)); }},
                                          {"tlx_c", "tlx_launch with new addresses", [&](int i) { doors.through_c(small_gemm::shift(i)); }},
                                          {"tlx_gemm", "host::gemm with new addresses", [&](int i) { g.gemm(small_gemm::shift(i)); }}},
                                         g.stream);
  rows.insert(rows.end(), changing.begin(), changing.end());
  return rows;
}

// Wall time until all is done.
double wall_ms(const std::function<void()>& go, runtime::stream& stream) {
  stream.wait();
  const auto start = clock::now();
  go();
  stream.wait();
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

constexpr int count = 20;

// A chain as a user writes it: row i + 1 is row i plus one, by a kernel of the language, which is set up while the one before it ends.
struct chain_arguments {
  TLX_ARGUMENTS(chain_arguments, (view<float, 1>, x), (view<float, 1>, y));
};
void one_more(block& cta, const chain_arguments& in) {
  cta.warps(warp_count{4});
  cta.tile(lines_of<512>(in.y), [&](const line_box& t) { store(in.y[t], fetch<1, 512>(in.x[t]) + 1.0f); });
}

struct chain {
  static constexpr std::int64_t n = 3000;
  const host_setting& on;
  device::buffer rows{on.gpu, (count + 1) * n * 4};
  std::vector<std::vector<device::value>> steps;

  explicit chain(const host_setting& s) : on(s) {
    on.gpu.fill(rows.where(), 0xff, rows.size_bytes());  // NaN, but for the zeros of the first row
    on.gpu.fill(rows.where(), 0, n * 4);
    for (int i = 0; i < count; ++i) {
      const device::address from = rows.where() + static_cast<std::uint64_t>(i) * n * 4;
      steps.push_back({device::view_value(from, {n}), device::view_value(from + n * 4, {n})});
    }
    launch(0);
  }
  void launch(std::uint64_t stream) {
    for (const std::vector<device::value>& step : steps) host::launch<chain_arguments>(on.session, "one_more", one_more, step, stream);
  }
  bool right() const {
    std::vector<float> got((count + 1) * n);
    rows.read(got.data(), got.size() * 4);
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != static_cast<float>(i / n)) return false;
    return true;
  }
};

// Twenty kernels that each wait for the one before, and twenty that wait for nobody: as launches, and as a captured graph.
std::vector<row> twenty_kernels(const host_setting& on) {
  constexpr std::uint64_t bytes = 64 * 64 * 2;
  runtime::stream stream(on.gpu), other[3] = {runtime::stream(on.gpu), runtime::stream(on.gpu), runtime::stream(on.gpu)};
  const streaming_shape shape{256, 1, false};
  const std::shared_ptr<device::module> code = on.gpu.load({.ptx = streaming_ptx(shape), .cubin = {}});
  const device::buffer in(on.gpu, bytes), out(on.gpu, bytes * count);
  on.gpu.fill(in.where(), 0x5a, bytes);
  small_gemm g(on);
  chain of_tlx(on);
  const device::kernel& k = *on.session.find(g.name);
  const std::shared_ptr<device::module> gemm_code = on.gpu.load(k.code);
  device::binder bind(k, on.gpu.about());

  const auto streaming = [&](std::uint64_t where) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const device::launch how = streaming_launch(shape, {in.where(), in.where(), i ? out.where() + (i - 1) * bytes : in.where(), out.where() + i * bytes}, bytes, where);
      on.gpu.run(*code, "stream", how);
    }
  };
  const auto gemms = [&](std::uint64_t where) {
    for (std::uint64_t i = 0; i < count; ++i) on.gpu.run(*gemm_code, k.entry, bind(g.shifted(i * 8192), where));
  };
  const auto captured = [&](const auto& launches) {
    stream.begin_capture();
    launches(stream.handle());
    return stream.end_capture();
  };
  const auto steps = [&](std::uint64_t where) { of_tlx.launch(where); };
  runtime::graph streaming_graph = captured(streaming), gemm_graph = captured(gemms), chain_graph = captured(steps);
  runtime::event fork(on.gpu), join[3] = {runtime::event(on.gpu), runtime::event(on.gpu), runtime::event(on.gpu)};
  const auto side_by_side = [&](std::uint64_t) {
    fork.record(stream.handle());
    for (runtime::stream& s : other) s.wait_for(fork);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t where = i % 4 ? other[i % 4 - 1].handle() : stream.handle();
      on.gpu.run(*code, "stream", streaming_launch(shape, {in.where(), in.where(), in.where(), out.where() + i * bytes}, bytes, where));
    }
    for (int i = 0; i < 3; ++i) {
      join[i].record(other[i].handle());
      stream.wait_for(join[i]);
    }
  };
  runtime::graph wide_graph = captured(side_by_side);

  struct pair {
    const char* name;
    std::function<void()> launches;
    runtime::graph* graph;
    std::vector<double> a = {}, b = {};
  };
  pair pairs[] = {{"twenty_small_kernels", [&] { steps(stream.handle()); }, &chain_graph},  // of the language: target 3
                  {"twenty_in_a_chain_of_ptx", [&] { streaming(stream.handle()); }, &streaming_graph},
                  {"twenty_gemms", [&] { gemms(stream.handle()); }, &gemm_graph},
                  {"twenty_independent", [&] { streaming(stream.handle()); }, &wide_graph}};
  const int rounds = 3 * on.rounds;  // a round takes less than half a millisecond
  for (int round = 0; round < rounds + 2; ++round)
    for (pair& p : pairs) {
      const double a = wall_ms(p.launches, stream), b = wall_ms([&] { p.graph->launch(stream.handle()); }, stream);
      if (round >= 2) {
        p.a.push_back(a);
        p.b.push_back(b);
      }
    }
  // Every byte of every result: 0x5a ^ 0x5a ^ what was before.
  std::vector<std::uint8_t> got(bytes * count);
  on.gpu.read(got.data(), out.where(), got.size());
  const bool right = std::all_of(got.begin(), got.end(), [](std::uint8_t v) { return v == 0x5a; }) && of_tlx.right();
  std::vector<row> rows;
  for (const pair& p : pairs) {
    row launches{p.name, "launches", {{"kernels", count}}, quantile(p.a, 0.5), quantile(p.a, 0.99), 0, 0, right, p.graph == &chain_graph ? "host::launch, then a wait" : "machine::run, then a wait"};
    row graph{p.name, "graph", {{"kernels", count}}, quantile(p.b, 0.5), quantile(p.b, 0.99), 0, 0, right, cat("one graph launch, then a wait; ", quantile(p.a, 0.5) / quantile(p.b, 0.5), " times less")};
    for (row* r : {&launches, &graph}) {
      print_row(*r);
      rows.push_back(std::move(*r));
    }
  }
  return rows;
}

}  // namespace

std::vector<row> measure_launch(const host_setting& on) { return launches_of_one_gemm(on); }
std::vector<row> measure_graphs(const host_setting& on) { return twenty_kernels(on); }

}  // namespace tlx::bench
