#include <cstdio>

#include "tlx/sim/case.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

int run(const arguments& given) {
  tlx::sim::case_options how;
  how.seed = static_cast<std::uint64_t>(given.number("--seed", 1));
  how.schedules = static_cast<int>(given.number("--schedules", 1, 1));
  how.threads = static_cast<int>(given.number("--threads", 1, 1));
  how.dump = given.text("--dump");
  how.strict = given.has("--strict");
  const tlx::sim::case_result r = tlx::sim::run_case(given.words()[0], how);
  std::fputs(given.has("--json") ? (tlx::sim::to_json(r) + "\n").c_str() : tlx::sim::to_text(r).c_str(), stdout);
  return r.exit;
}

}  // namespace

verb sim_verb() {
  return {"sim",
          "CASE_DIR",
          1,
          1,
          "runs the PTX of a case folder on the simulator and compares with what the case expects",
          "Exit codes: 0 as expected, 1 wrong result, 2 the simulator found a fault that the case does not expect,\n"
          "3 unsupported or malformed input (a wrong command line too).",
          {{"--seed", "N", "which legal order of events to take (1)"},
           {"--schedules", "N", "how many seeds to try, from that one up (1)"},
           {"--threads", "N", "clusters that run at the same time; the results are those of one (1)"},
           {"--dump", "DIR", "write every buffer to DIR/NAME.bin"},
           {"--json", nullptr, "print one JSON object"},
           {"--strict", nullptr, "fences that the ISA asks for and known-good code leaves out are faults"}},
          run};
}

}  // namespace tlxc
