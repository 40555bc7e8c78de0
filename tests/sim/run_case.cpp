// run_case FOLDER [--seed N] [--schedules N] [--starts N] [--dump DIR] [--json] [--strict]: one case on the simulator; the exit code is the case's.
// --starts N: once from each of N seeds, which a planted fault must not escape. TLX_TEST_FULL=1: of a number of schedules or starts that is given, 256.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tlx/sim/case.hpp"

int main(int argc, char** argv) {
  std::string folder;
  tlx::sim::case_options how;
  bool json = false;
  int starts = 1;
  const bool full = std::getenv("TLX_TEST_FULL") != nullptr;
  for (int k = 1; k < argc; ++k) {
    const std::string a = argv[k];
    const auto next = [&] { return k + 1 < argc ? std::string(argv[++k]) : std::string(); };
    if (a == "--seed") how.seed = std::strtoull(next().c_str(), nullptr, 10);
    else if (a == "--schedules") how.schedules = std::atoi(next().c_str()), how.schedules = full ? 256 : how.schedules;
    else if (a == "--starts") starts = std::atoi(next().c_str()), starts = full ? 256 : starts;
    else if (a == "--dump") how.dump = next();
    else if (a == "--json") json = true;
    else if (a == "--strict") how.strict = true;
    else if (a == "--threads") how.threads = std::atoi(next().c_str());
    else folder = a;
  }
  for (int k = 0; k < starts; ++k, ++how.seed) {
    const tlx::sim::case_result r = tlx::sim::run_case(folder, how);
    if (r.exit || k + 1 == starts) std::fputs(json ? (tlx::sim::to_json(r) + "\n").c_str() : tlx::sim::to_text(r).c_str(), stdout);
    if (r.exit) return r.exit;
  }
  return 0;
}
