#include "operators.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <regex>

#include "tlx/support/text.hpp"

namespace mutation {

using tlx::cat;

namespace {

struct program {
  std::vector<std::string> lines;

  explicit program(const std::string& ptx) { lines = lines_of(ptx); }
  // Index of the instruction that last wrote `name` before line `at`, in text order; -1 none.
  int definition(const std::string& name, std::size_t at) const {
    const std::regex writes("(^|[\\s;])[a-z][\\w.:]*\\s+" + escaped(name) + "\\s*,");
    for (std::size_t k = at; k-- > 0 && at - k < 400;) if (std::regex_search(lines[k], writes)) return static_cast<int>(k);
    return -1;
  }
  static std::string escaped(const std::string& name) { return std::regex_replace(name, std::regex("[%$]"), "\\$&"); }
};

bool has(const std::string& s, const char* part) { return s.find(part) != std::string::npos; }
bool is_code(const std::string& l) {
  const std::size_t at = l.find_first_not_of(" \t");
  return at != std::string::npos && l[at] != '/' && l[at] != '.' && l[at] != '$' && l[at] != '}' && (l[at] != '{' || l.find(';') != std::string::npos);
}

std::string normal(std::string l) {
  l = std::regex_replace(l, std::regex("%[a-z]+\\d+"), "%");
  l = std::regex_replace(l, std::regex("\\{(%, )+%\\}"), "{%...}");
  l = std::regex_replace(l, std::regex("\\$L\\w+"), "L");
  l = std::regex_replace(l, std::regex("[ \\t]+"), " ");
  const std::size_t from = l.find_first_not_of(' '), to = l.find_last_not_of(' ');
  return from == std::string::npos ? std::string() : l.substr(from, to - from + 1);
}

/// Numbers that are places of barriers, by what the PTX calls them: "<ab.empty>" in additions, "[<ab.full>]" in addresses.
class barrier_names {
 public:
  explicit barrier_names(const program& p) {
    std::smatch m;
    for (const std::string& l : p.lines)
      if (l.rfind("// tlx.ring", 0) == 0 && std::regex_search(l, m, std::regex("name=\"([^\"]*)\" which=(\\w+) offset=(\\d+)")) && m[2] != "slots" && m[2] != "columns" && std::stol(m[3]) >= 1024) names_[m[3]] = cat("<", m[1].str(), ".", m[2].str(), ">");
  }
  std::string in(const std::string& plain) const {
    std::smatch m;
    if (!std::regex_search(plain, m, std::regex("add\\.s32 %, %, (\\d+);|\\[tlx_shared\\+(\\d+)\\]"))) return plain;
    const int which = m[1].matched ? 1 : 2;
    const auto found = names_.find(m[static_cast<std::size_t>(which)]);
    if (found == names_.end()) return plain;
    std::string named = plain;
    const std::size_t from = which == 1 ? static_cast<std::size_t>(m.position(1)) : static_cast<std::size_t>(m.position(0)) + 1;
    return named.replace(from, which == 1 ? m[1].str().size() : m[0].str().size() - 2, found->second);
  }

 private:
  std::map<std::string, std::string> names_;
};

// What an operator does at one line: the lines that stand in its place (one string, perhaps with several instructions), or nothing when it does not apply.
using change = std::function<std::vector<std::string>(const program&, std::size_t, const std::string&)>;
struct rule { const char* name; bool protocol; change apply; };

std::vector<std::string> none() { return {}; }
std::vector<std::string> drop_if(bool yes) { return yes ? std::vector<std::string>{"\t"} : none(); }

std::string replaced(const std::string& l, const char* what, const std::string& by) { return std::regex_replace(l, std::regex(what), by, std::regex_constants::format_first_only); }

// `l` with register `name` replaced by a scratch one that `make` (PTX with `mut` and the name) computes first. Only one instruction may stand in `l`.
std::string with_scratch(const std::string& l, std::size_t at, const std::string& name, const std::string& make) {
  std::string changed = l;
  changed.replace(at, name.size(), "mut");
  return cat("{ .reg .b32 mut; ", make, " ", changed, " }");
}

const std::vector<rule>& rules() {
  static const std::vector<rule> all = {
      {"drop-arrive", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "mbarrier.arrive.") && !has(l, "expect_tx")); }},
      {"drop-expect", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "mbarrier.arrive.expect_tx")); }},
      {"drop-commit", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "tcgen05.commit")); }},
      {"wrong-bytes", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "expect_tx") || !std::regex_search(l, m, std::regex(", (\\d+);"))) return {};
         const long n = std::stol(m[1]);
         return {replaced(l, ", \\d+;", cat(", ", n / 2, ";")), replaced(l, ", \\d+;", cat(", ", n + 16, ";"))};
       }},
      {"wrong-count", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "mbarrier.init") || !std::regex_search(l, m, std::regex(", (\\d+);"))) return {};
         const long n = std::stol(m[1]);
         std::vector<std::string> out{replaced(l, ", \\d+;", cat(", ", n + 1, ";"))};
         if (n > 1) out.push_back(replaced(l, ", \\d+;", cat(", ", n - 1, ";")));
         return out;
       }},
      {"phase-not-flipped", true, [](const program& p, std::size_t at, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "xor.b32") || !std::regex_search(l, m, std::regex("xor\\.b32\\s+(%r\\d+), (%r\\d+), (%r\\d+);"))) return {};
         const int made = p.definition(m[3], at);
         if (made < 0 || !std::regex_search(p.lines[static_cast<std::size_t>(made)], std::regex("selp\\.b32\\s+%r\\d+, 1, 0,"))) return {};
         return {cat("\tmov.b32 \t", m[1].str(), ", ", m[2].str(), ";")};
       }},
      {"wrong-parity", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "mbarrier.try_wait.parity") || !std::regex_search(l, m, std::regex("\\], (%r\\d+);"))) return {};
         return {with_scratch(l, static_cast<std::size_t>(m.position(1)), m[1], cat("xor.b32 mut, ", m[1].str(), ", 1;"))};
       }},
      {"drop-wait", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "mbarrier.try_wait") || !std::regex_search(l, m, std::regex("(%p\\d+), \\["))) return {};
         return {cat("\tmov.pred ", m[1].str(), ", -1;")};
       }},
      {"early-exit", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         if (!has(l, "mbarrier.try_wait")) return {};
         return {"\texit;"};
       }},
      {"wrong-barrier", true, [](const program& p, std::size_t at, const std::string& l) -> std::vector<std::string> {
         // The neighbour's barrier: the address of an mbarrier operation, eight bytes on.
         if (!(has(l, "mbarrier.") || has(l, "tcgen05.commit")) || has(l, "fence") || has(l, "cp.async")) return {};
         (void)p; (void)at;
         return {std::regex_replace(l, std::regex("\\[(%r\\d+)\\]"), "[$1+8]", std::regex_constants::format_first_only)};
       }},
      {"drop-copy", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "cp.async.bulk") && (has(l, "shared::cluster.global") || has(l, "global.shared::cta"))); }},
      {"wrong-slot", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         if (has(l, "cp.async.bulk") && has(l, "shared::cluster.global")) return {replaced(l, "\\[(%r\\d+)\\]", "[$1+1024]")};
         if (has(l, "cp.async.bulk") && has(l, "global.shared::cta")) return {replaced(l, "\\[(%r\\d+)\\];", "[$1+1024];")};
         return {};
       }},
      {"off-by-one-tile", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "cp.async.bulk.tensor") || !std::regex_search(l, m, std::regex("\\{((?:[%\\w]+, )*)(%r\\d+)\\}"))) return {};
         return {with_scratch(l, static_cast<std::size_t>(m.position(2)), m[2], cat("add.s32 mut, ", m[2].str(), ", 1;"))};
       }},
      {"drop-proxy-fence", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "fence.proxy.async")); }},
      {"drop-init-fence", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "fence.mbarrier_init")); }},
      {"drop-tcgen05-fence", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "tcgen05.fence")); }},
      {"drop-wgmma-fence", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "wgmma.fence")); }},
      {"drop-wgmma-commit", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "wgmma.commit_group")); }},
      {"late-wgmma-wait", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "wgmma.wait_group") || !std::regex_search(l, m, std::regex("wgmma\\.wait_group\\.sync\\.aligned (\\d+);"))) return {};
         return {"\t", replaced(l, "aligned \\d+;", cat("aligned ", std::stoi(m[1]) + 1, ";"))};
       }},
      {"drop-store-commit", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "cp.async.bulk.commit_group")); }},
      {"late-store-wait", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "bulk.wait_group") || !std::regex_search(l, m, std::regex("cp\\.async\\.bulk\\.wait_group(\\.read)? (\\d+);"))) return {};
         return {"\t", replaced(l, " \\d+;", cat(" ", std::stoi(m[2]) + 1, ";"))};
       }},
      {"drop-cta-barrier", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "bar.sync") || has(l, "barrier.sync")); }},
      {"drop-warp-barrier", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "bar.warp.sync")); }},
      {"drop-cluster-barrier", true, [](const program& p, std::size_t at, const std::string& l) -> std::vector<std::string> {
         if (has(l, "barrier.cluster.arrive") && has(l, "barrier.cluster.wait")) return {"\t"};
         (void)p; (void)at;
         return drop_if(has(l, "barrier.cluster.wait"));
       }},
      {"relaxed-cluster-barrier", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         if (!has(l, "barrier.cluster.arrive") || has(l, "arrive.relaxed")) return {};
         return {replaced(l, "arrive(\\.release)?", "arrive.relaxed")};
       }},
      {"own-memory", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!std::regex_search(l, m, std::regex("mapa\\.shared::cluster\\.u32\\s+(%r\\d+), (%r\\d+),"))) return {};
         return {cat("\tmov.u32 ", m[1].str(), ", ", m[2].str(), ";")};
       }},
      {"wrong-mask", false, [](const program& p, std::size_t at, const std::string& l) -> std::vector<std::string> {
         // One CTA of a multicast is left out.
         std::smatch m;
         if (!std::regex_search(l, m, std::regex("mov\\.u16\\s+(%\\w+), (\\d+);"))) return {};
         for (std::size_t k = at; k < p.lines.size() && k < at + 60; ++k)
           if (has(p.lines[k], "multicast") && std::regex_search(p.lines[k], std::regex(program::escaped(m[1].str()) + "\\b"))) return {replaced(l, ", \\d+;", cat(", ", std::stoul(m[2]) & ~1UL, ";"))};
         return {};
       }},
      {"wrong-swizzle", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "or.b64") || !std::regex_search(l, m, std::regex("or\\.b64\\s+%rd\\d+, %rd\\d+, (46\\d{17});"))) return {};
         return {replaced(l, "46\\d{17};", cat(std::stoull(m[1]) ^ (std::uint64_t{3} << 62), ";"))};
       }},
      {"wrong-stride", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "or.b64") || !std::regex_search(l, m, std::regex("or\\.b64\\s+%rd\\d+, %rd\\d+, (46\\d{17});"))) return {};
         return {replaced(l, "46\\d{17};", cat(std::stoull(m[1]) ^ (std::uint64_t{32} << 32), ";"))};
       }},
      {"wrong-operand", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "or.b64") || !std::regex_search(l, m, std::regex("or\\.b64\\s+%rd\\d+, %rd\\d+, (46\\d{17});"))) return {};
         return {replaced(l, "46\\d{17};", cat(std::stoull(m[1]) ^ 2U, ";"))};
       }},
      {"wrong-instruction-word", false, [](const program& p, std::size_t at, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "mov.b32") || !std::regex_search(l, m, std::regex("mov\\.b32\\s+(%r\\d+), (\\d{8,9});"))) return {};
         bool used = false;
         const std::regex use("tcgen05\\.mma.*" + program::escaped(m[1].str()) + "\\b");
         for (std::size_t k = at; k < p.lines.size() && k < at + 60; ++k) used = used || std::regex_search(p.lines[k], use);
         if (!used) return {};
         return {replaced(l, ", \\d+;", cat(", ", std::stoul(m[2]) ^ (1U << 17), ";")), replaced(l, ", \\d+;", cat(", ", std::stoul(m[2]) ^ (1U << 7), ";"))};
       }},
      {"drop-accumulate", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         if (!has(l, "setp.ne.b32 p, 1, 0;")) return {};
         return {replaced(l, "setp\\.ne\\.b32 p, 1, 0;", "setp.ne.b32 p, 0, 0;")};
       }},
      {"drop-mma", false, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "tcgen05.mma") || has(l, "wgmma.mma_async")); }},
      {"alias-columns", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!(has(l, "tcgen05.ld") || has(l, "tcgen05.st") || has(l, "tcgen05.mma")) || !std::regex_search(l, m, std::regex("\\[(%r\\d+)\\]"))) return {};
         return {with_scratch(l, static_cast<std::size_t>(m.position(1)), m[1], cat("add.s32 mut, ", m[1].str(), ", 16;"))};
       }},
      {"wrong-lane", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!(has(l, "tcgen05.ld") || has(l, "tcgen05.st")) || !std::regex_search(l, m, std::regex("\\[(%r\\d+)\\]"))) return {};
         return {with_scratch(l, static_cast<std::size_t>(m.position(1)), m[1], cat("xor.b32 mut, ", m[1].str(), ", 2097152;"))};
       }},
      {"small-allocation", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "tcgen05.alloc") || !std::regex_search(l, m, std::regex(", (\\d+);")) || std::stoi(m[1]) <= 32) return {};
         return {replaced(l, ", \\d+;", cat(", ", std::stoi(m[1]) / 2, ";"))};
       }},
      {"drop-dealloc", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "tcgen05.dealloc")); }},
      {"drop-relinquish", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "tcgen05.relinquish")); }},
      {"drop-tmem-wait", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "tcgen05.wait")); }},
      {"drop-predicate", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "@") || has(l, " bra") || has(l, "\tbra") || !std::regex_search(l, m, std::regex("^(\\s*(?:\\{[^}]*?)?)@!?%p\\d+ "))) return {};
         return {std::regex_replace(l, std::regex("@!?%p\\d+ "), "", std::regex_constants::format_first_only)};
       }},
      {"every-lane", true, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         std::smatch m;
         if (!has(l, "elect") || !std::regex_search(l, m, std::regex("elect\\.sync\\s+\\S+\\|(%p\\d+),"))) return {};
         return {cat("\tmov.pred ", m[1].str(), ", -1;")};
       }},
      {"drop-register-release", true, [](const program&, std::size_t, const std::string& l) { return drop_if(has(l, "setmaxnreg.dec")); }},
      {"wrong-row-address", false, [](const program&, std::size_t, const std::string& l) -> std::vector<std::string> {
         // Stores to shared memory one element group aside.
         if (!(has(l, "st.shared.v4") || has(l, "stmatrix"))) return {};
         return {replaced(l, "\\[(%r\\d+)(\\+\\d+)?\\]", "[$1+128]")};
       }},
  };
  return all;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    lines.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return lines;
}

std::vector<std::string> operators() {
  std::vector<std::string> names;
  for (const rule& r : rules()) names.push_back(r.name);
  return names;
}

// Where an elected lane works: what its predicate guards, what it jumps to, and what the others jump over.
struct elected_work {
  std::vector<int> lines;  // from one; with some more behind a jump
  bool only_waits = true;  // for barriers and for its bulk stores, up to where it meets the other lanes
};
static elected_work work_of_elected(const program& p, std::size_t at) {
  elected_work work;
  std::smatch m;
  if (!std::regex_search(p.lines[at], m, std::regex("\\|(%p\\d+),"))) return {{}, false};
  const std::string elected = m[1];
  std::string others;  // the predicate of all other lanes
  bool waits = false;
  const auto add = [&](std::size_t from, std::size_t end) { for (std::size_t k = from; k < std::min(end, p.lines.size()); ++k) work.lines.push_back(static_cast<int>(k) + 1); };
  const auto look = [&](std::size_t from, std::size_t end) {
    static const std::regex harmless("^\\s*(@!?%p\\d+ )?(bra|mov|add|sub|shl|shr|and|or|xor|not|setp|selp|cvt|mul|mad)\\b");
    for (std::size_t k = from; k < std::min(end, p.lines.size()); ++k) {
      const std::string& l = p.lines[k];
      if (has(l, "mbarrier.try_wait") || has(l, "bulk.wait_group")) waits = true;
      else if (is_code(l) && !std::regex_search(l, harmless)) work.only_waits = false;
    }
  };
  const auto label = [&](const std::string& name) {
    for (std::size_t k = 0; k < p.lines.size(); ++k) if (p.lines[k].rfind(name + ":", 0) == 0) return k;
    return at;
  };
  // To where this lane jumps in any case.
  const auto end_of = [&](std::size_t from) {
    while (from < p.lines.size() && !has(p.lines[from], "bra.uni") && !has(p.lines[from], "ret;")) ++from;
    return from;
  };
  for (std::size_t j = at + 1; j < p.lines.size(); ++j) {
    const std::string& l = p.lines[j];
    if (std::regex_search(l, m, std::regex("\\|(%p\\d+),")) && m[1] == elected) break;  // another election
    if (std::regex_search(l, m, std::regex("not\\.pred\\s+(%p\\d+), (%p\\d+);")) && m[2] == elected) { others = m[1]; continue; }
    if (!std::regex_search(l, m, std::regex("@(!?)(%p\\d+) (?:bra(?:\\.uni)?\\s+(\\$L\\w+);)?"))) {
      if (std::regex_search(l, std::regex(program::escaped(elected) + "\\b"))) work.only_waits = false;  // goes into another predicate
      continue;
    }
    const bool theirs = m[2] == elected ? m[1].length() > 0 : !others.empty() && m[2] == others && m[1].length() == 0;
    if (m[2] != elected && !theirs) continue;
    const std::size_t to = m[3].matched ? label(m[3]) : at;
    if (!m[3].matched) {
      add(j, j + 1);
      work.only_waits = false;
    } else if (theirs) {
      const std::size_t end = to > j ? to : end_of(j + 1);
      add(j + 1, end);
      look(j + 1, end);
    } else {
      add(to, to + 30);
      look(to, end_of(to));
    }
  }
  work.only_waits = work.only_waits && waits;
  return work;
}

std::string mutant::text(const std::vector<std::string>& lines) const {
  std::string all;
  for (std::size_t k = 0; k < lines.size(); ++k) all += (static_cast<int>(k) + 1 == line ? changed : lines[k]) + "\n";
  return all;
}

std::vector<mutant> mutants(const std::string& ptx) {
  const program p(ptx);
  const barrier_names names(p);
  std::vector<std::size_t> code;
  std::vector<std::string> plain;
  for (std::size_t k = 0; k < p.lines.size(); ++k)
    if (is_code(p.lines[k])) code.push_back(k), plain.push_back(names.in(normal(p.lines[k])));
  std::vector<mutant> out;
  for (const rule& r : rules()) {
    std::map<std::string, int> same;  // places that read alike are numbered
    for (std::size_t n = 0; n < code.size(); ++n) {
      const std::size_t k = code[n];
      const std::string& l = p.lines[k];
      for (const std::string& changed : r.apply(p, k, l)) {
        if (changed == l) continue;
        const std::string site = cat(plain[n], changed.size() > 1 ? cat(" -> ", names.in(normal(changed))) : std::string(), " | ", n ? plain[n - 1] : std::string());
        out.push_back({r.name, r.protocol, static_cast<int>(k) + 1, cat(site, " #", ++same[site]), changed, {}});
        if (out.back().of == "every-lane") {
          const elected_work work = work_of_elected(p, k);
          out.back().also = work.lines;
          if (work.only_waits) out.back().site += " (only waits)";
        }
        // The barrier of the CTA shows initialisations to everybody: what seems to have none is named.
        if (out.back().of == "drop-cta-barrier")
          for (std::size_t j = k; j-- > 0 && !has(p.lines[j], "bar.sync");) if (has(p.lines[j], "mbarrier.init")) out.back().also.push_back(static_cast<int>(j) + 1);
        // A leak is reported where the memory was taken.
        if (out.back().of == "drop-dealloc") for (std::size_t j = 0; j < p.lines.size(); ++j) if (has(p.lines[j], "tcgen05.alloc")) out.back().also.push_back(static_cast<int>(j) + 1);
      }
    }
  }
  return out;
}

}  // namespace mutation
