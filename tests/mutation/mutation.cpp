// Every mutant of every shipped kernel is caught: by the protocol check with a report that names the place, or by the simulator within 32 schedules,
// or it is listed with a proof that it changes nothing. Every kernel as it is passes.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>

#include "equivalent.hpp"
#include "operators.hpp"
#include "shipped.hpp"
#include "tests/pass/steps.hpp"
#include "tlx/check/protocol.hpp"
#include "tlx/support/text.hpp"
#include "trial.hpp"

using namespace tlx;

namespace {

bool full() { return std::getenv("TLX_TEST_FULL") != nullptr; }

std::vector<std::string> targets() {
  if (full()) return {"sm_90a", "sm_100a", "sm_103a"};
  return {"sm_90a", "sm_100a"};
}

std::string to_text(const check::verdict& v) { return v.findings.empty() ? "" : to_string(v.findings[0]); }

// The report speaks of the ring that was broken, or of the role and line.
bool names_the_place(const mutation::mutant& m, const std::string& report) {
  if (!m.ring.empty() && report.find("\"" + m.ring + "\"") != std::string::npos) return true;
  if (!m.line.empty() && report.find(m.line) != std::string::npos) return true;
  return report.find("role \"" + m.role + "\"") != std::string::npos;
}

const mutation::equivalent* proof_for(const mutation::mutant& m, const std::string& where) {
  for (const mutation::equivalent& e : mutation::equivalents)
    if (m.name == e.name && std::regex_match(where, std::regex(e.kernel)) && std::regex_match(m.site, std::regex(e.site))) return &e;
  return nullptr;
}

struct score { int sites = 0, check = 0, simulator = 0, equivalent = 0, missed = 0; };

}  // namespace

TEST_CASE("no shipped kernel is refused, on any target, and nothing of it is unchecked") {
  int kernels = 0;
  for (const mutation::shipped& each : mutation::shipped_kernels())
    for (const char* target : {"sm_90a", "sm_100a", "sm_103a"}) {
      CAPTURE(each.name);
      CAPTURE(target);
      const auto k = each.trace(target);
      test::run_passes(*k);
      const check::verdict v = check::check_protocol(*k);
      CHECK_MESSAGE(v.findings.empty(), to_text(v));
      CHECK_MESSAGE(v.unchecked.empty(), check::to_string(v));
      ++kernels;
    }
  CHECK(kernels >= 3 * 45);
}

TEST_CASE("every mutant is caught, with a report that names the place, or changes nothing") {
  std::map<std::string, score> table;
  score all;
  std::map<const mutation::equivalent*, int> used;
  const char* only = std::getenv("TLX_MUTATE");  // a kernel's name, to look at one
  for (const mutation::shipped& each : mutation::shipped_kernels())
    for (const std::string& target : targets()) {
      if (only ? each.name != only : !each.quick && !full()) continue;
      const std::string where = each.name + " " + target;
      const auto k = each.trace(target);
      test::run_passes(*k);
      std::unique_ptr<mutation::trial> on_simulator;
      mutation::for_each_mutant(*k, [&](mutation::mutant& m) {
        score& s = table[m.name];
        ++s.sites;
        ++all.sites;
        const std::string report = to_text(check::check_protocol(*m.kernel));
        if (!report.empty()) {
          ++s.check;
          ++all.check;
          CHECK_MESSAGE(names_the_place(m, report), where, ": ", m.name, " at ", m.site, " is caught by a report that does not name it:\n", report);
          return;
        }
        if (const mutation::equivalent* e = proof_for(m, where)) {
          ++used[e];
          ++s.equivalent;
          ++all.equivalent;
          return;
        }
        if (!on_simulator) on_simulator = std::make_unique<mutation::trial>(*k);
        if (const auto found = on_simulator->first_difference(*m.kernel, 32)) {
          if (only) std::printf("%s: %s at %s: %s\n", where.c_str(), m.name.c_str(), m.site.c_str(), found->text.c_str());
          if (found->fault) CHECK_MESSAGE(names_the_place(m, found->text), where, ": ", m.name, " at ", m.site, " is caught by a fault that does not name it:\n", found->text);
          ++s.simulator;
          ++all.simulator;
          return;
        }
        ++s.missed;
        ++all.missed;
        FAIL_CHECK(where, ": ", m.name, " at ", m.site, " is caught by nobody");
      });
    }
  std::printf("%-22s %6s %6s %10s %11s %7s\n", "operator", "sites", "check", "simulator", "equivalent", "missed");
  const auto row = [](const std::string& name, const score& s) {
    std::printf("%-22s %6d %6d %10d %11d %7d\n", name.c_str(), s.sites, s.check, s.simulator, s.equivalent, s.missed);
  };
  for (const std::string& name : mutation::operator_names()) row(name, table[name]);
  row("all", all);
  if (only) return;
  CHECK(all.missed == 0);
  CHECK(all.sites >= 300);
  for (const std::string& name : mutation::operator_names()) CHECK_MESSAGE(table[name].sites > 0, name, " applies nowhere");
  if (full())
    for (const mutation::equivalent& e : mutation::equivalents) CHECK_MESSAGE(used[&e] > 0, e.name, " at ", e.site, ": the proof is used by no mutant");
}
