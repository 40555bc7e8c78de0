// Makes the PTX of every shipped kernel wrong in every way of operators.cpp and runs it: each mutant must be caught within 32 schedules, or stand in
// equivalent.txt with the reason why it is no mistake. Mistakes of synchronisation must be reported at the right place.
//   test_mutation_ptx TARGET [--full | --every-site | --right-only N] [--schedules N] [--extent N] [--share K/N] [--subject NAME] [--operator NAME] [--line N] [--verbose] [--dump FILE]
// At most two places for each operator and kernel, and eight schedules of the right kernels. --every-site: all places, and the library's long list of
// similar kernels with two places of each operator; --full: those and 256 schedules;
// --right-only N: N schedules of the right kernels, no mutants. --subject NAME --every-site: all places of one kernel. --schedules N: at most so many of a mutant (32; 4 where it is listed as equivalent, unless --full)
// --extent N: rows and columns of the matrices that kernels of the library's list get (264). --share K/N: every N-th kernel from the K-th on, for several
// processes. --list: the names. --equivalents FILE: not the file of this source tree.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "operators.hpp"
#include "subject.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace mutation;
using tlx::cat;

namespace {

constexpr int near_lines = 40;

struct equivalent { std::string of, subject, site, reason; bool used = false; };

// operator || kernel.target (a regular expression) || site (parts of it, " ... " between them) || reason
std::vector<equivalent> read_equivalents(const std::string& path) {
  std::vector<equivalent> all;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> parts;
    std::size_t from = 0;
    for (int k = 0; k < 3; ++k) {
      const std::size_t at = line.find(" || ", from);
      if (at == std::string::npos) { std::fprintf(stderr, "%s: a line has no four parts: %s\n", path.c_str(), line.c_str()); std::exit(1); }
      parts.push_back(line.substr(from, at - from));
      from = at + 4;
    }
    all.push_back({parts[0], parts[1], parts[2], line.substr(from)});
  }
  return all;
}

/// Whether the parts of `pattern` between " ... " stand in `site` one after the other; from its start when the pattern begins with ^.
bool matches(const std::string& site, std::string pattern) {
  std::size_t at = 0;
  if (pattern[0] == '^') {
    pattern.erase(0, 1);
    if (site.rfind(pattern.substr(0, pattern.find(" ... ")), 0) != 0) return false;
  }
  for (std::size_t from = 0; from <= pattern.size();) {
    const std::size_t end = std::min(pattern.find(" ... ", from), pattern.size());
    const std::string part = pattern.substr(from, end - from);
    const std::size_t found = site.find(part, at);
    if (found == std::string::npos || (part.find('#') != std::string::npos && found + part.size() != site.size())) return false;
    at = found + part.size();
    from = end + 5;
  }
  return true;
}

std::set<int> numbers_after(const std::string& text, const char* words) {
  std::set<int> all;
  const std::regex pattern(std::string(words) + " (\\d+)");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), pattern); at != std::sregex_iterator(); ++at) all.insert(std::stoi((*at)[1]));
  return all;
}

/// Whether the report leads to line `line` of the PTX: it names a line near it, a barrier that an instruction near it uses, or the same line of the source.
bool names_the_place(const outcome& o, int line, const std::vector<int>& also, const std::map<int, std::uint64_t>& runs, const std::set<std::pair<int, std::uint32_t>>& barriers, const std::vector<std::string>& lines) {
  std::set<int> told = numbers_after(o.text, "ptx line");
  told.insert(o.report.ptx_line);
  for (const int t : told) if (t > 0 && std::abs(t - line) <= near_lines) return true;
  for (const int a : also) if (told.count(a)) return true;
  // The warp at fault, when the place belongs to some warps only.
  std::uint64_t everybody = 0;
  for (const auto& [l, warps] : runs) everybody |= warps;
  if (const auto mine = runs.find(line); mine != runs.end() && mine->second != everybody)
    for (const int w : numbers_after(o.report.threads, "warp")) if (mine->second >> w & 1U) return true;
  const std::set<int> offsets = numbers_after(o.text, "shared offset");
  const auto near = [&](int at) { return std::abs(at - line) <= near_lines || std::any_of(also.begin(), also.end(), [&](int a) { return std::abs(at - a) <= near_lines; }); };
  for (const auto& [at, offset] : barriers) if (near(at) && offsets.count(static_cast<int>(offset))) return true;
  // A ring: what the report names, and what instructions near the place work on, by the notes in the PTX.
  std::set<std::string> rings;
  for (const std::string& l : lines) {
    std::smatch m;
    if (l.rfind("// tlx.ring", 0) == 0 && std::regex_search(l, m, std::regex("name=(\"[^\"]*\") which=\\w+ offset=(\\d+) bytes=(\\d+) stages=(\\d+)"))) {
      const std::uint32_t first = 1024 + static_cast<std::uint32_t>(std::stoul(m[2])), bytes = static_cast<std::uint32_t>(std::stoul(m[3])), stages = static_cast<std::uint32_t>(std::stoul(m[4]));
      for (const auto& [at, offset] : barriers) if (near(at) && offset >= first && offset < first + bytes * stages) rings.insert("ring " + m[1].str());
    }
  }
  for (const std::string& r : rings) if (o.text.find(r) != std::string::npos) return true;
  const auto source_of = [&](int l) {
    std::smatch m;
    for (int k = std::min<int>(l, static_cast<int>(lines.size())) - 1; k >= 0 && k > l - 200; --k)
      if (std::regex_search(lines[static_cast<std::size_t>(k)], m, std::regex("\\.loc\\s+(\\d+) (\\d+)"))) return m[1].str() + ":" + m[2].str();
    return std::string();
  };
  const std::string mine = source_of(line);
  for (const int t : told) if (t > 0 && !mine.empty() && source_of(t) == mine) return true;
  return false;
}

struct row { int made = 0, fault = 0, differs = 0, stalled = 0, equivalent = 0, survived = 0, misplaced = 0, refused = 0, strict = 0, idle = 0; };

}  // namespace

int main(int argc, char** argv) try {
  std::string target, only_subject, only_operator, dump;
  int only_line = 0, right_only = 0, share = 1, shares = 1, most_schedules = 32, equal_schedules = 4, extent = 264;
  std::string listed = std::string(TLX_SOURCE_DIR) + "/tests/mutation/ptx/equivalent.txt";
  bool full = std::getenv("TLX_TEST_FULL") != nullptr, every_site = full, verbose = false, list = false;
  for (int k = 1; k < argc; ++k) {
    const std::string a = argv[k];
    const auto next = [&] { return k + 1 < argc ? std::string(argv[++k]) : std::string(); };
    if (a == "--full") full = every_site = true;
    else if (a == "--every-site") every_site = true;
    else if (a == "--right-only") right_only = std::atoi(next().c_str());
    else if (a == "--list") list = true;
    else if (a == "--equivalents") listed = next();
    else if (a == "--schedules") most_schedules = equal_schedules = std::atoi(next().c_str());
    else if (a == "--extent") extent = std::atoi(next().c_str());
    else if (a == "--share") {
      const std::string which = next();
      if (std::sscanf(which.c_str(), "%d/%d", &share, &shares) != 2 || share < 1 || share > shares) { std::fprintf(stderr, "--share %s: not like 2/8\n", which.c_str()); return 1; }
    } else if (a == "--verbose") verbose = true;
    else if (a == "--subject") only_subject = next();
    else if (a == "--operator") only_operator = next();
    else if (a == "--line") only_line = std::atoi(next().c_str());
    else if (a == "--dump") dump = next();
    else target = a;
  }
  if (full) equal_schedules = most_schedules;
  setenv("TLX_CACHE", "off", 1);  // the PTX of this build, not of an earlier one
  std::vector<equivalent> equivalents = read_equivalents(listed);
  int asked = 0;
  const wanted is_wanted = [&](const std::string& name) {
    if (list) std::puts(name.c_str());
    return !list && (only_subject.empty() || name == only_subject) && asked++ % shares == share - 1;
  };
  std::vector<subject> subjects = shipped(target, is_wanted);
  for (auto more : {mutation::examples, mutation::clusters})
    for (subject& s : more(target, is_wanted)) subjects.push_back(std::move(s));
  if (list || every_site || right_only || !only_subject.empty())
    for (subject& s : mutation::library(target, is_wanted, extent)) subjects.push_back(std::move(s));
  if (list) return 0;
  if (subjects.empty()) { std::fprintf(stderr, "no kernel is named %s\n", only_subject.c_str()); return 1; }

  std::map<std::string, row> table;
  int bad = 0, total = 0;
  const int unmutated = right_only ? right_only : full ? 256 : 8;
  const auto start = std::chrono::steady_clock::now();
  for (const subject& s : subjects) {
    const auto begin = std::chrono::steady_clock::now();
    const auto right = s.from->load({.ptx = s.launch.ptx, .cubin = {}});
    std::set<std::pair<int, std::uint32_t>> barriers;
    std::map<int, std::uint64_t> reached;
    std::set<int> guarded;
    bool strict_is_quiet = true;
    const int schedules_of_right = !only_operator.empty() ? 1 : unmutated;
    for (int seed = 1; seed <= schedules_of_right; ++seed) {
      const outcome o = run(s, *right, static_cast<std::uint64_t>(seed));
      const auto& seen = s.from->on->last_run().barrier_lines;
      barriers.insert(seen.begin(), seen.end());
      for (const auto& [l, warps] : s.from->on->last_run().lines_run) reached[l] |= warps;
      guarded.insert(s.from->on->last_run().lines_guarded.begin(), s.from->on->last_run().lines_guarded.end());
      if (o.kind == outcome::what::same) continue;
      ++bad;
      std::printf("FINDING in the unmutated kernel: %s on %s, seed %d: %s\n", s.name.c_str(), target.c_str(), seed, o.text.c_str());
      break;
    }
    if (const outcome o = run(s, *right, 1, true); o.kind != outcome::what::same) {
      strict_is_quiet = false;
      std::printf("note: %s on %s, strict: %s\n", s.name.c_str(), target.c_str(), o.text.c_str());
    }
    const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / schedules_of_right;
    std::map<std::string, int> places;
    const std::vector<std::string> lines = lines_of(s.launch.ptx);
    int made = 0;
    for (const mutant& m : right_only ? std::vector<mutant>{} : mutants(s.launch.ptx)) {
      if (!only_operator.empty() && m.of != only_operator) continue;
      if (only_line && m.line != only_line) continue;
      row& r = table[m.of];
      // What this launch never executes cannot show.
      if (!(m.of == "drop-predicate" ? guarded.count(m.line) : reached.count(m.line))) { ++r.idle; continue; }
      const bool all_places = !only_operator.empty() || (every_site && (!s.of_many || !only_subject.empty()));
      if (!all_places && ++places[m.of] > 2) continue;
      ++r.made;
      ++total;
      ++made;
      const std::string changed = m.text(lines);
      if (!dump.empty()) { std::ofstream out(dump); out << changed; }
      outcome o;
      try {
        const auto code = s.from->load({.ptx = changed, .cubin = {}});
        equivalent* known = nullptr;
        for (equivalent& e : equivalents) if (e.of == m.of && std::regex_match(cat(s.name, ".", target), std::regex(e.subject)) && matches(m.site, e.site)) known = &e;
        const int schedules = known ? equal_schedules : most_schedules;
        for (int seed = 1; seed <= schedules; ++seed) {
          o = run(s, *code, static_cast<std::uint64_t>(seed));
          if (o.kind != outcome::what::same) break;
        }
        if (o.kind == outcome::what::same && !known && strict_is_quiet) {
          for (int seed = 1; seed <= 4 && o.kind == outcome::what::same; ++seed) o = run(s, *code, static_cast<std::uint64_t>(seed), true);
          if (o.kind == outcome::what::fault) ++r.strict;
        }
        if (known) {
          known->used = true;
          if (o.kind == outcome::what::same) { ++r.equivalent; continue; }
          ++bad;
          std::printf("NOT EQUIVALENT: %s %s ptx line %d [%s]: listed as equivalent, but %s\n", s.name.c_str(), m.of.c_str(), m.line, m.site.c_str(), o.text.c_str());
        }
      } catch (const tlx::error& e) {
        o.kind = outcome::what::refused;
        o.text = e.what();
      }
      bool right_place = true;
      switch (o.kind) {
        case outcome::what::fault:
          ++r.fault;
          right_place = !m.protocol || names_the_place(o, m.line, m.also, reached, barriers, lines_of(changed));
          break;
        case outcome::what::differs: ++r.differs; break;
        case outcome::what::stalled: ++r.stalled; break;
        case outcome::what::refused: ++r.refused; ++bad; std::printf("REFUSED: %s %s ptx line %d [%s]: %s\n", s.name.c_str(), m.of.c_str(), m.line, m.site.c_str(), o.text.c_str()); break;
        case outcome::what::same: ++r.survived; ++bad; std::printf("SURVIVED: %s.%s %s ptx line %d [%s]\n", s.name.c_str(), target.c_str(), m.of.c_str(), m.line, m.site.c_str()); break;
      }
      if (!right_place) {
        ++r.misplaced;
        ++bad;
        std::printf("WRONG PLACE: %s.%s %s ptx line %d [%s]: seed %ju: %s\n", s.name.c_str(), target.c_str(), m.of.c_str(), m.line, m.site.c_str(), static_cast<std::uintmax_t>(o.seed), o.text.c_str());
      }
      if (verbose) std::printf("%s %s %d [%s] seed %ju: %s\n", s.name.c_str(), m.of.c_str(), m.line, m.site.c_str(), static_cast<std::uintmax_t>(o.seed), o.text.c_str());
    }
    std::printf("%-20s %s %4d mutants, %.3f s a run, %.1f s\n", s.name.c_str(), target.c_str(), made, each, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
  }
  if (every_site && !right_only && only_subject.empty() && only_operator.empty() && shares == 1)
    for (const equivalent& e : equivalents)
      if (!e.used && std::regex_search(e.subject, std::regex("\\.\\*$|" + target))) std::printf("note: no mutant on %s is like the one listed as equivalent: %s || %s || %s\n", target.c_str(), e.of.c_str(), e.subject.c_str(), e.site.c_str());
  std::printf("%-26s %6s %6s %10s %7s %7s %10s %8s %11s %8s\n", "operator", "made", "fault", "(strict)", "differs", "stalled", "equivalent", "survived", "wrong place", "(idle)");
  row all;
  for (const std::string& name : operators()) {
    const row& r = table[name];
    if (!r.made) continue;
    std::printf("%-26s %6d %6d %10d %7d %7d %10d %8d %11d %8d\n", name.c_str(), r.made, r.fault, r.strict, r.differs, r.stalled, r.equivalent, r.survived, r.misplaced, r.idle);
    all.made += r.made; all.fault += r.fault; all.differs += r.differs; all.stalled += r.stalled; all.equivalent += r.equivalent; all.survived += r.survived; all.misplaced += r.misplaced; all.strict += r.strict; all.idle += r.idle;
  }
  std::printf("%-26s %6d %6d %10d %7d %7d %10d %8d %11d %8d\n", "all", all.made, all.fault, all.strict, all.differs, all.stalled, all.equivalent, all.survived, all.misplaced, all.idle);
  std::printf("%zu kernels as they are, %d schedules each; %d mutants on %s in %.0f s\n", subjects.size(), only_operator.empty() ? unmutated : 1, total, target.c_str(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return bad ? 1 : 0;
} catch (const tlx::error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
