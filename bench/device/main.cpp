// Device benchmarks: tlx and its peers in one process, on the same buffers, in random order. See bench/README.md.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <regex>
#include <string>

#include "bench/device/bring_up.hpp"
#include "bench/device/cases.hpp"
#include "bench/device/cold.hpp"
#include "runtime/driver.hpp"
#include "tlx/jit/machines.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/version.hpp"

namespace {

using namespace tlx;

const char* const usage = R"(usage: bench_device [--filter RE] [--json FILE] [--device gpu:N] [--rounds N] [--sustained] [--cublas FOLDER|none] [--list]
       bench_device --cold gemm|attention [--device gpu:N]
       bench_device --host-path [--rounds N]    the launch cases alone, with whatever driver TLX_DRIVER names: with one that does nothing, the host's own share
       bench_device --bring-up [--device gpu:N|sim:sm_100a]    Blackwell: what has not been seen on one, see docs/bring-up.md
)";

struct options {
  std::string filter = ".*", json, device = "gpu:0", cublas, cold;
  int rounds = 31;
  bool sustained = false, list = false, bring_up = false, host_path = false;
};

struct job {
  std::string name;
  std::function<std::vector<bench::row>(const bench::setting&)> run;
};

std::vector<job> jobs() {
  std::vector<job> all;
  for (const bench::gemm_shape& s : bench::gemm_shapes()) all.push_back({s.name(), [s](const bench::setting& on) { return bench::measure_gemm(on, s); }});
  for (const bench::attention_shape& s : bench::attention_shapes()) all.push_back({s.name(), [s](const bench::setting& on) { return bench::measure_attention(on, s); }});
  all.push_back({"launch_host", [](const bench::setting& on) { return bench::measure_launch({on.gpu, on.session, on.rounds}); }});
  all.push_back({"launch_graph", [](const bench::setting& on) { return bench::measure_graphs({on.gpu, on.session, on.rounds}); }});
  return all;
}

std::string today() {
  char text[32] = {};
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

// The bare launches among the cases want the context current on this thread, as a program of the driver's own has it.
void host_path(device::machine& gpu, int rounds) {
  const runtime::driver& d = runtime::the_driver();
  runtime::cu::context primary = nullptr;
  runtime::check(d, d.context_retain(&primary, 0), "cuDevicePrimaryCtxRetain");
  runtime::check(d, d.context_push(primary), "cuCtxPushCurrent");
  host::session session(gpu);
  bench::measure_launch({gpu, session, rounds});
  bench::measure_graphs({gpu, session, rounds});
  std::puts("every launch and graph was made");
}

int run(const options& o, const std::string& command) {
  const std::regex wanted(o.filter);
  const std::vector<job> all = jobs();
  if (o.list) {
    for (const job& j : all) std::printf("%s\n", j.name.c_str());
    return 0;
  }
  if (o.bring_up) return bench::bring_up(o.device) ? 1 : 0;
  if (o.device.rfind("gpu", 0) != 0)
    raise(user_error({.id = "bench-device", .what = "device \"" + o.device + "\"", .because = "times are taken on a GPU", .fix = {"--device gpu:0", "for the simulator, bench_sim"}}));
  const std::unique_ptr<device::machine> gpu = jit::open_machine(o.device);
  if (o.host_path) return host_path(*gpu, o.rounds), 0;
  if (!o.cold.empty()) return bench::print_cold(*gpu, o.cold), 0;

  const bench::card card(o.device.size() > 4 ? std::atoi(o.device.c_str() + 4) : 0);
  std::unique_ptr<bench::cublas> peer;
  if (o.cublas != "none") peer = std::make_unique<bench::cublas>(o.cublas);
  host::session session(*gpu);
  const bench::pool values(1);
  const bench::setting on{*gpu, card, peer.get(), session, values, o.rounds, o.sustained};

  bench::facts about;
  about.text = {{"name", gpu->about().name}, {"driver", card.driver_version()}, {"tlx", version_string}, {"cublas", peer ? cat(peer->version()) : "none"}, {"date", today()}, {"command", command}};
  about.numbers = {{"processors", gpu->about().processor_count}, {"sm_clock_max_mhz", card.max_sm_clock_mhz()}, {"memory_clock_mhz", card.memory_clock_mhz()}};
  about.numbers.push_back({"copy_gbs", bench::copy_rate(on)});
  about.numbers.push_back({"cublas_tflops", bench::cublas_rate(on)});
  about.numbers.push_back({"sm_clock_after_cublas_mhz", card.sm_clock_mhz()});
  for (const auto& [name, value] : about.text) std::printf("%s: %s\n", name.c_str(), value.c_str());
  for (const auto& [name, value] : about.numbers) std::printf("%s: %.1f\n", name.c_str(), value);
  std::printf("%-30s %-22s %-32s %10s %10s\n", "case", "impl", "shape", "ms p50", "ms p99");

  std::vector<bench::row> rows;
  for (const job& j : all)
    if (std::regex_search(j.name, wanted)) {
      const std::vector<bench::row> more = j.run(on);
      rows.insert(rows.end(), more.begin(), more.end());
      if (!o.json.empty()) bench::write_file(o.json, bench::to_json(about, rows));  // after every case: a run that is cut short keeps what it has
    }
  bool ok = !rows.empty();
  for (const bench::row& r : rows) ok = ok && r.ok;
  std::printf("%s\n", rows.empty() ? "no case matches the filter" : ok ? "all results were right" : "WRONG RESULTS");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  std::string command = "bench_device";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    command += " " + word;
    const auto value = [&](std::string& into) {
      if (i + 1 >= argc) return false;
      into = argv[++i];
      command += " " + into;
      return true;
    };
    std::string number;
    bool good = true;
    if (word == "--help") return std::fputs(usage, stdout), 0;
    else if (word == "--filter") good = value(o.filter);
    else if (word == "--json") good = value(o.json);
    else if (word == "--device") good = value(o.device);
    else if (word == "--cublas") good = value(o.cublas);
    else if (word == "--cold") good = value(o.cold);
    else if (word == "--rounds") good = value(number) && (o.rounds = std::atoi(number.c_str())) > 0;
    else if (word == "--sustained") o.sustained = true;
    else if (word == "--host-path") o.host_path = true;
    else if (word == "--bring-up") o.bring_up = true;
    else if (word == "--list") o.list = true;
    else good = false;
    if (!good) return std::fprintf(stderr, "bench_device: cannot use \"%s\"\n%s", word.c_str(), usage), 2;
  }
  try {
    return run(o, command);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
