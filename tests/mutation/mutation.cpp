// Every mutant of every shipped kernel is caught: by the protocol check with a report that names the place, or by the simulator within 32 schedules,
// or a rule proves that it changes nothing (proofs.hpp), or it is listed with a proof. Every kernel as it is passes.
// TLX_TEST_FULL=1: every kernel, on all processors. TLX_MUTATE=REGEX: kernels whose "NAME TARGET" matches, and what the simulator says.
// TLX_MUTATE_LIST=FILE: only mutants that a line of FILE begins with, as this program prints them: what an earlier run has found, say.
// With TLX_MUTATE, TLX_MUTATE_AT=REGEX: only mutants whose "OPERATOR at SITE" matches; TLX_MUTATE_SCHEDULES=N: N instead of 32, 0 to see soon what is left to the simulator.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <regex>
#include <set>

#include "equivalent.hpp"
#include "operators.hpp"
#include "proofs.hpp"
#include "shipped.hpp"
#include "tests/pass/steps.hpp"
#include "tests/support/processes.hpp"
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

bool has_line(const std::string& report, const std::string& line) {
  for (std::size_t at = report.find(line); at != std::string::npos; at = report.find(line, at + 1))
    if (const std::size_t end = at + line.size(); end == report.size() || report[end] < '0' || report[end] > '9') return true;
  return false;
}

// The report speaks of the ring that was broken, or of the role and line.
bool names_the_place(const mutation::mutant& m, const std::string& report) {
  if (!m.ring.empty() && report.find("\"" + m.ring + "\"") != std::string::npos) return true;
  if (std::any_of(m.lines.begin(), m.lines.end(), [&](const std::string& line) { return has_line(report, line); })) return true;
  return report.find("role \"" + m.role + "\"") != std::string::npos;
}

const mutation::equivalent* proof_for(const mutation::mutant& m, const std::string& where) {
  for (const mutation::equivalent& e : mutation::equivalents)
    if (m.name == e.name && std::regex_match(where, std::regex(e.kernel)) && std::regex_match(m.site, std::regex(e.site))) return &e;
  return nullptr;
}

enum column { sites, by_check, by_rule, by_simulator, listed, missed, columns };
constexpr const char* column_names[columns] = {"sites", "check", "rule", "simulator", "listed", "missed"};

/// What TLX_MUTATE_LIST names: "NAME TARGET: OPERATOR at SITE"; nothing: it names no file.
std::optional<std::set<std::string>> list() {
  const char* const file = std::getenv("TLX_MUTATE_LIST");
  if (!file) return std::nullopt;
  std::set<std::string> all;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (const std::size_t end = line.find(" is caught"); end != std::string::npos) all.insert(line.substr(0, end));
  return all;
}

/// What all processes count.
struct counts {
  std::atomic<int> table[64][columns]{}, used[std::size(mutation::equivalents)]{}, wrong{0};
};

/// A share of the mutants of one kernel.
class judge {
 public:
  judge(counts& all, bool tell_all) : all_(all), tell_all_(tell_all), operators_(mutation::operator_names()) {
    if (const char* at = tell_all ? std::getenv("TLX_MUTATE_AT") : nullptr) sites_.emplace(at);
    list_ = list();
    if (const char* n = tell_all ? std::getenv("TLX_MUTATE_SCHEDULES") : nullptr) schedules_ = std::atoi(n);
    REQUIRE(operators_.size() <= std::size(all_.table));
  }

  void operator()(const mutation::shipped& each, const std::string& target, int share, int shares) {
    const std::string where = each.name + " " + target;
    if (list_)
      if (const auto first = list_->lower_bound(where + ":"); first == list_->end() || first->rfind(where + ":", 0) != 0) return;
    const auto k = each.trace(target);
    test::run_passes(*k);
    std::unique_ptr<mutation::trial> on_simulator;
    std::optional<check::verdict> whole;
    mutation::for_each_mutant(*k, share, shares, [&](mutation::mutant& m) {
      if (sites_ && !std::regex_match(m.name + " at " + m.site, *sites_)) return;
      if (list_ && list_->count(where + ": " + m.name + " at " + m.site) == 0) return;
      const auto row = static_cast<std::size_t>(std::find(operators_.begin(), operators_.end(), m.name) - operators_.begin());
      const auto count = [&](column c) { ++all_.table[row][c]; };
      const auto wrong = [&](const char* what, const std::string& report) {
        ++all_.wrong;
        std::printf("%s: %s at %s %s%s%s\n", where.c_str(), m.name.c_str(), m.site.c_str(), what, report.empty() ? "" : ":\n", report.c_str());
      };
      count(sites);
      const std::string report = to_text(check::check_protocol(*m.kernel));
      if (!whole) whole = check::check_protocol(*m.original);
      const std::string proof = mutation::proof_by_rule(m.name, *m.original, *m.at, whole->implied);
      if (!report.empty()) {
        count(by_check);
        if (!proof.empty()) wrong("is caught, and a rule says that it changes nothing: " , proof + "\n" + report);
        if (!names_the_place(m, report)) wrong("is caught by a report that does not name it", report);
      } else if (!proof.empty()) {
        count(by_rule);
        if (tell_all_) std::printf("%s: %s at %s: %s\n", where.c_str(), m.name.c_str(), m.site.c_str(), proof.c_str());
      } else if (const mutation::equivalent* e = proof_for(m, where)) {
        ++all_.used[e - mutation::equivalents];
        count(listed);
      } else {
        if (!on_simulator) on_simulator = std::make_unique<mutation::trial>(*k);
        const auto found = on_simulator->first_difference(*m.kernel, schedules_);
        count(found ? by_simulator : missed);
        if (!found) wrong("is caught by nobody", "");
        else if (found->fault && !names_the_place(m, found->text)) wrong("is caught by a fault that does not name it", found->text);
        else if (tell_all_) std::printf("%s: %s at %s: %s\n", where.c_str(), m.name.c_str(), m.site.c_str(), found->text.c_str());
      }
      std::fflush(stdout);
    });
  }

 private:
  counts& all_;
  bool tell_all_;
  std::optional<std::regex> sites_;
  std::optional<std::set<std::string>> list_;
  int schedules_ = 32;
  std::vector<std::string> operators_;
};

}  // namespace

TEST_CASE("no shipped kernel is refused, on any target, and nothing of it is unchecked") {
  int kernels = 0;
  for (const char* target : {"sm_90a", "sm_100a", "sm_103a"})
    for (const mutation::shipped& each : mutation::shipped_kernels(target)) {
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
  const char* only = std::getenv("TLX_MUTATE");
  std::vector<std::pair<mutation::shipped, std::string>> items;
  for (const std::string& target : targets())
    for (mutation::shipped& each : mutation::shipped_kernels(target))
      if (only ? std::regex_match(each.name + " " + target, std::regex(only)) : each.quick || full()) items.emplace_back(std::move(each), target);
  test::shared<counts> all;
  judge judged(*all, only != nullptr);
  // In shares, the longest kernels first, which stand last, so that all processors have work until the end.
  const int jobs = full() ? test::all_jobs() : 1, shares = jobs > 1 ? 6 : 1;
  const auto item = [&](int k) -> const auto& { return items[items.size() - 1 - static_cast<std::size_t>(k / shares)]; };
  const test::worked through = test::in_processes(jobs, 0, static_cast<int>(items.size()) * shares, [&](int k) { judged(item(k).first, item(k).second, k % shares, shares); });
  for (const int k : through.died) FAIL_CHECK(item(k).first.name, " ", item(k).second, ": the process died");
  const std::vector<std::string> names = mutation::operator_names();
  int sum[columns] = {};
  std::printf("%-22s", "operator");
  for (const char* name : column_names) std::printf(" %10s", name);
  for (std::size_t k = 0; k < names.size(); ++k) {
    std::printf("\n%-22s", names[k].c_str());
    for (int c = 0; c < columns; ++c) sum[c] += all->table[k][c], std::printf(" %10d", all->table[k][c].load());
  }
  std::printf("\n%-22s", "all");
  for (const int n : sum) std::printf(" %10d", n);
  std::printf("\n%zu kernels and targets\n", items.size());
  CHECK(all->wrong == 0);
  if (full())
    for (std::size_t k = 0; k < std::size(mutation::equivalents); ++k)
      if (all->used[k] == 0) std::printf("unused: %s of %s at %s\n", mutation::equivalents[k].name, mutation::equivalents[k].kernel, mutation::equivalents[k].site);
  if (only) return;
  CHECK(sum[missed] == 0);
  CHECK(sum[sites] >= 300);
  for (std::size_t k = 0; k < names.size(); ++k) CHECK_MESSAGE(all->table[k][sites] > 0, names[k], " applies nowhere");
  if (full())
    for (std::size_t k = 0; k < std::size(mutation::equivalents); ++k) CHECK_MESSAGE(all->used[k] > 0, mutation::equivalents[k].name, " of ", mutation::equivalents[k].kernel, " at ", mutation::equivalents[k].site, ": the proof is used by no mutant");
}
