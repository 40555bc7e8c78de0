// Makes the PTX of every shipped kernel wrong in every way of operators.cpp and runs it: each mutant must be caught within 32 schedules, or stand in
// equivalent.txt with the reason why it is no mistake. Mistakes of synchronisation must be reported at the right place.
//   test_mutation_ptx TARGET [--full | --every-site | --right-only N] [--jobs N] [--seconds N] [--first N] [--from N] [--schedules N] [--extent N] [--share K/N]
//                            [--places N] [--subject NAME] [--operator NAMES] [--line N] [--verbose] [--rows] [--dump FILE]
// At most two places for each operator and kernel, and eight schedules of the right kernels. --every-site: all places, and the library's long list of
// similar kernels with two places of each operator; --full: those and 256 schedules, and 32 of what is listed as equivalent;
// --right-only N: N schedules of the right kernels, from --from N (1) on, no mutants. --subject NAME --every-site: all places of one kernel.
// --schedules N: at most so many of a mutant (32, and 4 where it is listed as equivalent). --extent N: rows and columns of the matrices that kernels of the
// library's list get (the smallest that take the kernel wherever 264 do, and each of its rings round more than twice). --share K/N: every N-th kernel from the
// K-th on. --jobs N: so many processes (1; all processors with --full or --right-only). --seconds N: no kernel is begun later; the last lines say which was the
// first that was not, for --first. --list: the names. --equivalents FILE: not the file of this source tree. --places N: so many of each operator. --operator a,b: these.
// --rows: for each mutant that is listed as equivalent, which line of the file says so.
#include <algorithm>
#include <atomic>
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
#include "tests/support/processes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace mutation;
using tlx::cat;

namespace {

constexpr int near_lines = 40;
constexpr int most_on_others = 8;  // schedules of a problem of another size

struct equivalent { std::string of, subject, site, reason; int line; };

// operator || kernel.target (a regular expression) || site (parts of it, " ... " between them; #2..5: any of these numbers) || reason
std::vector<equivalent> read_equivalents(const std::string& path) {
  std::vector<equivalent> all;
  std::ifstream in(path);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> parts;
    std::size_t from = 0;
    for (int k = 0; k < 3; ++k) {
      const std::size_t at = line.find(" || ", from);
      if (at == std::string::npos) { std::fprintf(stderr, "%s: a line has no four parts: %s\n", path.c_str(), line.c_str()); std::exit(1); }
      parts.push_back(line.substr(from, at - from));
      from = at + 4;
    }
    all.push_back({parts[0], parts[1], parts[2], line.substr(from), number});
  }
  return all;
}

/// Whether the parts of `pattern` between " ... " stand in `site` one after the other; from its start when the pattern begins with ^. #2..5 at its end: any of these numbers.
bool matches(const std::string& site, std::string pattern) {
  if (const std::size_t range = pattern.rfind(".."), number = pattern.rfind('#'); range != std::string::npos && number != std::string::npos && range > number) {
    const int first = std::stoi(pattern.substr(number + 1)), last = std::stoi(pattern.substr(range + 2)), mine = std::stoi(site.substr(site.rfind('#') + 1));
    return mine >= first && mine <= last && matches(site, pattern.substr(0, number) + cat("#", mine));
  }
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

enum column { made, fault, strict, differs, stalled, equal, survived, misplaced, idle, columns };
constexpr const char* column_names[columns] = {"made", "fault", "(strict)", "differs", "stalled", "equivalent", "survived", "wrong place", "(idle)"};
constexpr std::size_t most_operators = 64, most_equivalents = 1024;

/// What all processes count, in memory that they share.
struct counts {
  std::atomic<int> bad{0}, mutants{0}, kernels{0}, runs{0};
  std::atomic<int> table[most_operators][columns]{};
  std::atomic<bool> used[most_equivalents]{};
};

struct work { std::string name, target; int first_seed = 1, schedules = 8; };

struct settings {
  std::vector<std::string> targets;
  std::string only_subject, only_operator, dump, listed = std::string(TLX_SOURCE_DIR) + "/tests/mutation/ptx/equivalent.txt";
  int only_line = 0, right_only = 0, share = 1, shares = 1, most_schedules = 32, equal_schedules = 4, extent = 0, first_seed = 1, jobs = 0, seconds = 0, first = 1, places = 0;
  bool full = std::getenv("TLX_TEST_FULL") != nullptr, every_site = full, verbose = false, list = false, rows = false;
};

settings settings_of(int argc, char** argv) {
  settings o;
  for (int k = 1; k < argc; ++k) {
    const std::string a = argv[k];
    const auto next = [&] { return k + 1 < argc ? std::string(argv[++k]) : std::string(); };
    const auto number = [&] { return std::atoi(next().c_str()); };
    if (a == "--full") o.full = o.every_site = true;
    else if (a == "--every-site") o.every_site = true;
    else if (a == "--right-only") o.right_only = number();
    else if (a == "--list") o.list = true;
    else if (a == "--equivalents") o.listed = next();
    else if (a == "--schedules") o.most_schedules = o.equal_schedules = number();
    else if (a == "--from") o.first_seed = number();
    else if (a == "--extent") o.extent = number();
    else if (a == "--jobs") o.jobs = number();
    else if (a == "--seconds") o.seconds = number();
    else if (a == "--first") o.first = number();
    else if (a == "--share") {
      const std::string which = next();
      if (std::sscanf(which.c_str(), "%d/%d", &o.share, &o.shares) != 2 || o.share < 1 || o.share > o.shares) { std::fprintf(stderr, "--share %s: not like 2/8\n", which.c_str()); std::exit(1); }
    } else if (a == "--verbose") o.verbose = true;
    else if (a == "--rows") o.rows = true;
    else if (a == "--places") o.places = number();
    else if (a == "--subject") o.only_subject = next();
    else if (a == "--operator") o.only_operator = next();
    else if (a == "--line") o.only_line = number();
    else if (a == "--dump") o.dump = next();
    else if (a.rfind("--", 0) == 0) { std::fprintf(stderr, "unknown option %s\n", a.c_str()); std::exit(1); }
    else o.targets.push_back(a);
  }
  if (o.full) o.equal_schedules = o.most_schedules;
  if (o.targets.empty()) { std::fprintf(stderr, "which target? sm_90a or sm_100a, or both\n"); std::exit(1); }
  if (o.jobs <= 0) o.jobs = o.full || o.right_only ? tlx::test::all_jobs() : 1;
  return o;
}

/// All kernels, or those of the library only where they are asked for: there are many.
std::vector<subject> subjects_of(const settings& o, const std::string& target, const wanted& is_wanted) {
  std::vector<subject> subjects = shipped(target, is_wanted);
  for (auto more : {mutation::examples, mutation::clusters})
    for (subject& s : more(target, is_wanted)) subjects.push_back(std::move(s));
  if (o.list || o.every_site || o.right_only || !o.only_subject.empty())
    for (subject& s : mutation::library(target, is_wanted, o.extent)) subjects.push_back(std::move(s));
  return subjects;
}

/// How long a kernel takes, roughly: the longest begin first, so that nobody waits for one at the end.
int weight(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return (has("flash_attention_d") && !has("_delta") ? 8 : has("flash_attention") ? 4 : has("attention") ? 1 : 0) + (has("backward") ? 2 : 0) + (has("_b256") ? 6 : has("_b128") ? 2 : 0) + (has("d128") || has("d256") ? 1 : 0);
}

std::vector<work> work_of(const settings& o) {
  std::vector<work> all;
  // Parts of the schedules of one kernel: each compiles the kernel anew, which takes as long as a few runs.
  const int schedules = o.right_only ? o.right_only : !o.only_operator.empty() ? 1 : o.full ? 256 : 8, part = o.right_only && o.jobs > 1 ? 128 : schedules;
  for (const std::string& target : o.targets) {
    int asked = 0;
    std::set<std::string> seen;  // a program may launch several kernels
    subjects_of(o, target, [&](const std::string& name) {
      if ((o.only_subject.empty() || name == o.only_subject) && seen.insert(name).second && asked++ % o.shares == o.share - 1)
        for (int from = 0; from < schedules; from += part) all.push_back({name, target, o.first_seed + from, std::min(part, schedules - from)});
      return false;
    });
  }
  std::stable_sort(all.begin(), all.end(), [](const work& a, const work& b) { return weight(a.name) > weight(b.name); });
  return all;
}

class trial {
 public:
  trial(const settings& how, const std::vector<equivalent>& equivalents, counts& all) : o_(how), equivalents_(equivalents), all_(all), operators_(operators()) {}

  void run(const work& item) {
    const auto begin = std::chrono::steady_clock::now();
    for (const subject& s : subjects_of(o_, item.target, [&](const std::string& name) { return name == item.name; })) {
      if (item.first_seed == o_.first_seed) ++all_.kernels;
      const int mutants = one(s, item);
      std::printf("%-40s %s %4d mutants, %3d schedules, %.3f s a run, %.1f s\n", s.name.c_str(), item.target.c_str(), mutants, item.schedules, each_, seconds_since(begin));
      std::fflush(stdout);
    }
  }

 private:
  using moment = std::chrono::steady_clock::time_point;
  static double seconds_since(moment from) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count(); }
  std::atomic<int>& count(const std::string& of, column c) { return all_.table[static_cast<std::size_t>(std::find(operators_.begin(), operators_.end(), of) - operators_.begin())][c]; }
  outcome once(const subject& s, tlx::device::module& code, int seed, bool strictly = false) {
    ++all_.runs;
    return mutation::run(s, code, static_cast<std::uint64_t>(seed), strictly);
  }

  /// The line that calls a mutant of `who` (kernel.target) equivalent, or the end.
  std::vector<equivalent>::const_iterator listed_at(const mutant& m, const std::string& who) const {
    return std::find_if(equivalents_.begin(), equivalents_.end(), [&](const equivalent& e) { return e.of == m.of && matches(m.site, e.site) && std::regex_match(who, std::regex(e.subject)); });
  }

  void fits(const equivalent& row, const std::string& who, const mutant& m) {
    all_.used[&row - equivalents_.data()] = true;
    if (o_.rows) std::printf("ROW %d: %s %d [%s]\n", row.line, who.c_str(), m.line, m.site.c_str());
  }

  /// The kernel as it is, then its mutants; how many there were.
  int one(const subject& s, const work& item) {
    const auto begin = std::chrono::steady_clock::now();
    const auto right = s.from->load({.ptx = s.launch.ptx, .cubin = {}});
    barriers_.clear(), reached_.clear(), guarded_.clear();
    s.from->on->set_trace(!o_.right_only);
    for (int seed = item.first_seed; seed < item.first_seed + item.schedules; ++seed) {
      const outcome o = once(s, *right, seed);
      const auto& seen = s.from->on->last_run();
      barriers_.insert(seen.barrier_lines.begin(), seen.barrier_lines.end());
      for (const auto& [l, warps] : seen.lines_run) reached_[l] |= warps;
      guarded_.insert(seen.lines_guarded.begin(), seen.lines_guarded.end());
      if (o.kind == outcome::what::same) continue;
      ++all_.bad;
      std::printf("FINDING in the unmutated kernel: %s on %s, seed %d: %s\n", s.name.c_str(), item.target.c_str(), seed, o.text.c_str());
      break;
    }
    each_ = seconds_since(begin) / item.schedules;
    if (o_.right_only) return 0;
    strict_is_quiet_ = true;
    if (const outcome o = once(s, *right, 1, true); o.kind != outcome::what::same) {
      strict_is_quiet_ = false;
      std::printf("note: %s on %s, strict: %s\n", s.name.c_str(), item.target.c_str(), o.text.c_str());
    }
    std::map<std::string, int> places;
    const std::vector<std::string> lines = lines_of(s.launch.ptx);
    int made_here = 0;
    for (const mutant& m : mutants(s.launch.ptx)) {
      if (!o_.only_operator.empty() && cat(",", o_.only_operator, ",").find(cat(",", m.of, ",")) == std::string::npos) continue;
      if (o_.only_line && m.line != o_.only_line) continue;
      // What this launch never executes cannot show.
      if (!(m.of == "drop-predicate" ? guarded_.count(m.line) : reached_.count(m.line))) { ++count(m.of, idle); continue; }
      const bool all_places = !o_.places && (!o_.only_operator.empty() || (o_.every_site && (!s.of_many || !o_.only_subject.empty())));
      if (!all_places && ++places[m.of] > (o_.places ? o_.places : 2)) {
        if (const auto row = listed_at(m, cat(s.name, ".", item.target)); row != equivalents_.end()) fits(*row, cat(s.name, ".", item.target), m);
        continue;
      }
      ++made_here;
      judge(s, item.target, m, lines);
    }
    return made_here;
  }

  void judge(const subject& s, const std::string& target, const mutant& m, const std::vector<std::string>& lines) {
    ++count(m.of, made);
    ++all_.mutants;
    const std::string changed = m.text(lines);
    if (!o_.dump.empty()) { std::ofstream out(o_.dump); out << changed; }
    const auto tell = [&](const char* what, const std::string& more) {
      ++all_.bad;
      std::printf("%s: %s.%s %s ptx line %d [%s]%s%s\n", what, s.name.c_str(), target.c_str(), m.of.c_str(), m.line, m.site.c_str(), more.empty() ? "" : ": ", more.c_str());
    };
    outcome o;
    try {
      const auto code = s.from->load({.ptx = changed, .cubin = {}});
      const std::string who = cat(s.name, ".", target);
      const auto known = listed_at(m, who);
      const int schedules = known != equivalents_.end() ? o_.equal_schedules : o_.most_schedules;
      for (int seed = 1; seed <= schedules; ++seed)
        if ((o = once(s, *code, seed)).kind != outcome::what::same) break;
      for (const subject& other : s.others) {
        if (o.kind != outcome::what::same) break;
        const auto there = other.from->load({.ptx = changed, .cubin = {}});
        for (int seed = 1; seed <= (known != equivalents_.end() ? 2 : std::min(most_on_others, o_.most_schedules)) && o.kind == outcome::what::same; ++seed) o = once(other, *there, seed);
      }
      // What is done, or where a wait goes, where a ring begins anew shows where it does: between other waits for each number of rounds.
      if ((m.of == "phase-not-flipped" || m.of == "wrong-barrier") && s.rounds && o.kind == outcome::what::same)
        for (const subject& other : s.rounds()) {
          const auto there = other.from->load({.ptx = changed, .cubin = {}});
          for (int seed = 1; seed <= (known != equivalents_.end() ? 2 : std::min(most_on_others, o_.most_schedules)) && o.kind == outcome::what::same; ++seed) o = once(other, *there, seed);
        }
      if (known != equivalents_.end()) {
        fits(*known, who, m);
        if (o.kind == outcome::what::same) { ++count(m.of, equal); return; }
        tell("NOT EQUIVALENT", cat("listed as equivalent, but seed ", o.seed, ": ", o.text));
      } else if (o.kind == outcome::what::same && strict_is_quiet_) {
        for (int seed = 1; seed <= 4 && o.kind == outcome::what::same; ++seed) o = once(s, *code, seed, true);
        if (o.kind == outcome::what::fault) ++count(m.of, strict);
      }
    } catch (const tlx::error& e) {
      tell("REFUSED", e.what());
      return;
    }
    switch (o.kind) {
      case outcome::what::fault:
        ++count(m.of, fault);
        if (m.protocol && !names_the_place(o, m.line, m.also, reached_, barriers_, lines_of(changed))) {
          ++count(m.of, misplaced);
          tell("WRONG PLACE", cat("seed ", o.seed, ": ", o.text));
        }
        break;
      case outcome::what::differs: ++count(m.of, differs); break;
      case outcome::what::stalled: ++count(m.of, stalled); break;
      case outcome::what::refused: tell("REFUSED", o.text); break;
      case outcome::what::same: ++count(m.of, survived); tell("SURVIVED", ""); break;
    }
    if (o_.verbose) std::printf("%s %s %d [%s] seed %ju: %s\n", s.name.c_str(), m.of.c_str(), m.line, m.site.c_str(), static_cast<std::uintmax_t>(o.seed), o.text.c_str());
  }

  const settings& o_;
  const std::vector<equivalent>& equivalents_;
  counts& all_;
  const std::vector<std::string> operators_;
  std::set<std::pair<int, std::uint32_t>> barriers_;
  std::map<int, std::uint64_t> reached_;
  std::set<int> guarded_;
  bool strict_is_quiet_ = true;
  double each_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  const settings o = settings_of(argc, argv);
  setenv("TLX_CACHE", "off", 1);  // the PTX of this build, not of an earlier one
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::vector<equivalent> equivalents = read_equivalents(o.listed);
  if (equivalents.size() > most_equivalents || operators().size() > most_operators) { std::fprintf(stderr, "more lines of equivalents or operators than there is room for\n"); return 1; }
  const std::vector<work> items = work_of(o);
  if (o.list) {
    for (const work& w : items) std::printf("%s %s\n", w.name.c_str(), w.target.c_str());
    return 0;
  }
  if (items.empty()) { std::fprintf(stderr, "no kernel is named %s\n", o.only_subject.c_str()); return 1; }
  tlx::test::shared<counts> shared;
  counts& all = *shared;
  trial each(o, equivalents, all);
  const auto start = std::chrono::steady_clock::now();
  const auto one = [&](int k) {
    const work& item = items[static_cast<std::size_t>(k)];
    try {
      each.run(item);
    } catch (const std::exception& e) {
      ++all.bad;
      std::printf("NOT RUN: %s on %s: %s\n", item.name.c_str(), item.target.c_str(), e.what());
    }
  };
  const tlx::test::worked through = tlx::test::in_processes(o.jobs, o.first - 1, static_cast<int>(items.size()), one, o.seconds);
  for (const int k : through.died) ++all.bad, std::printf("DIED: %s on %s\n", items[static_cast<std::size_t>(k)].name.c_str(), items[static_cast<std::size_t>(k)].target.c_str());
  const int done = through.begun;
  if (o.every_site && !o.right_only && o.only_subject.empty() && o.only_operator.empty() && o.shares == 1 && o.first == 1 && done == static_cast<int>(items.size()))
    for (std::size_t k = 0; k < equivalents.size(); ++k) {
      const equivalent& e = equivalents[k];
      const bool here = std::any_of(o.targets.begin(), o.targets.end(), [&](const std::string& t) { return std::regex_search(e.subject, std::regex("\\.\\*$|" + t)); });
      if (!all.used[k] && here) ++all.bad, std::printf("NO SUCH MUTANT: listed as equivalent: %s || %s || %s\n", e.of.c_str(), e.subject.c_str(), e.site.c_str());
    }
  if (!o.right_only) {
    int sum[columns] = {};
    const auto head = [&](const char* of, auto&& at) {
      std::printf("%-26s", of);
      for (int c = 0; c < columns; ++c) at(c);
      std::printf("\n");
    };
    head("operator", [](int c) { std::printf(" %11s", column_names[c]); });
    const std::vector<std::string> names = operators();
    for (std::size_t k = 0; k < names.size(); ++k) {
      for (int c = 0; c < columns; ++c) sum[c] += all.table[k][c];
      if (all.table[k][made]) head(names[k].c_str(), [&](int c) { std::printf(" %11d", all.table[k][c].load()); });
    }
    head("all", [&](int c) { std::printf(" %11d", sum[c]); });
  }
  std::printf("%d kernels as they are; %d mutants, %d runs, on %zu targets in %.0f s; findings: %d\n", all.kernels.load(), all.mutants.load(), all.runs.load(), o.targets.size(),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), all.bad.load());
  if (done < static_cast<int>(items.size())) {
    std::printf("no time for %d of %zu parts: go on with --first %d\n", static_cast<int>(items.size()) - done, items.size(), done + 1);
    return 2;
  }
  return all.bad ? 1 : 0;
} catch (const tlx::error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
