// run_case FOLDER [--seed N] [--schedules N] [--dump DIR] [--json] [--strict]: one case on the simulator; the exit code is the case's.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tlx/sim/case.hpp"

int main(int argc, char** argv) {
  std::string folder;
  tlx::sim::case_options how;
  bool json = false;
  for (int k = 1; k < argc; ++k) {
    const std::string a = argv[k];
    const auto next = [&] { return k + 1 < argc ? std::string(argv[++k]) : std::string(); };
    if (a == "--seed") how.seed = std::strtoull(next().c_str(), nullptr, 10);
    else if (a == "--schedules") how.schedules = std::atoi(next().c_str());
    else if (a == "--dump") how.dump = next();
    else if (a == "--json") json = true;
    else if (a == "--strict") how.strict = true;
    else if (a == "--threads") how.threads = std::atoi(next().c_str());
    else folder = a;
  }
  const tlx::sim::case_result r = tlx::sim::run_case(folder, how);
  std::fputs(json ? (tlx::sim::to_json(r) + "\n").c_str() : tlx::sim::to_text(r).c_str(), stdout);
  return r.exit;
}
