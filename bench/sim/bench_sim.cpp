// How long the simulator takes for whole kernels, checks on: GEMMs and block attention, with the results checked against float64. The note of a row has the
// best processor time of its rounds, which another program on the machine disturbs less than the clock on the wall.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/report.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/problems.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/text.hpp"
#include "tlx/version.hpp"

namespace {

using namespace tlx;

class runner {
 public:
  explicit runner(int rounds) : rounds_(rounds) {}

  template <class Problem, class Case>
  void run(const std::string& name, const std::string& target, const Case& c, std::vector<std::pair<std::string, std::int64_t>> shape) {
    const std::unique_ptr<sim::machine> m = sim::open(target);
    host::session session(*m);
    Problem problem(*m, c);
    problem.run(session);  // compiled here
    const problems::verdict v = problem.check();
    std::vector<double> ms;
    double best = 0;
    for (int i = 0; i < rounds_; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const std::clock_t busy = std::clock();
      problem.run(session);
      const double used = static_cast<double>(std::clock() - busy) * 1e3 / CLOCKS_PER_SEC;
      best = i == 0 ? used : std::min(best, used);
      ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    const double instructions = static_cast<double>(m->last_run().warp_instructions);
    bench::row r{name, "sim:" + target, std::move(shape), bench::quantile(ms, 0.5), bench::quantile(ms, 0.99), 0, 0, v.ok, v.why};
    if (v.ok) r.note = cat("processor time ", best, " ms, ", instructions / 1e6, " M warp instructions, ", instructions / best / 1e3, " M/s");
    bench::print_row(r);
    rows.push_back(std::move(r));
  }
  std::vector<bench::row> rows;

 private:
  int rounds_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  int rounds = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" && i + 1 < argc) json = argv[++i];
    else if (word == "--rounds" && i + 1 < argc) rounds = std::max(1, std::atoi(argv[++i]));
    else return std::fprintf(stderr, "usage: bench_sim [--rounds N] [--json FILE]\n"), word == "--help" ? 0 : 2;
  }
  try {
    runner r(rounds);
    for (const std::string target : {"sm_100a", "sm_90a"}) {
      r.run<problems::gemm_problem>("gemm_512", target, problems::gemm_case{.m = 512, .n = 512, .k = 512}, {{"m", 512}, {"n", 512}, {"k", 512}});
      r.run<problems::attention_problem>("attention_d64", target, problems::attention_case{.lengths = {64, 200, 1, 640, 119}, .heads = 4, .dimension = 64}, {{"tokens", 1024}, {"heads", 4}, {"dimension", 64}});
      r.run<problems::gemm_problem>("gemm_1024", target, problems::gemm_case{.m = 1024, .n = 1024, .k = 1024, .sample_rows = 64}, {{"m", 1024}, {"n", 1024}, {"k", 1024}});
      r.run<problems::attention_problem>("attention_64_blocks", target, problems::attention_case{.lengths = {4096}, .heads = 1, .dimension = 128}, {{"tokens", 4096}, {"heads", 1}, {"dimension", 128}});
    }
    if (!json.empty()) bench::write_file(json, bench::to_json({{{"name", "simulator"}, {"tlx", version_string}}, {}}, r.rows));
    for (const bench::row& row : r.rows)
      if (!row.ok) return 1;
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
