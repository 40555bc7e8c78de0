// Lengths and bytes, little-endian.
#include "tests/compare/record.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::compare {

namespace {

void put_number(std::string& to, std::uint64_t n) { to.append(reinterpret_cast<const char*>(&n), 8); }
void put_text(std::string& to, const std::string& text) { put_number(to, text.size()), to += text; }

struct reader {
  const std::string& all;
  std::size_t at = 0;
  std::string file;
  std::string take(std::size_t n) {
    if (n > all.size() - at) raise(user_error({.id = "record-malformed", .what = cat(file, " ends inside of an outcome, at byte ", at)}));
    at += n;
    return all.substr(at - n, n);
  }
  std::uint64_t number() {
    std::uint64_t n = 0;
    const std::string raw = take(8);
    std::memcpy(&n, raw.data(), 8);
    return n;
  }
};

std::string whole(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) raise(user_error({.id = "record-malformed", .what = cat("cannot read ", file)}));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

std::string to_text(const std::string& name, const sample& s, const outcome& o) {
  std::string text;
  put_text(text, name);
  put_text(text, o.error);
  put_number(text, o.guards_kept ? 1 : 0);
  put_number(text, o.after.size());
  for (std::size_t m = 0; m < o.after.size(); ++m) {
    const bool keep = s.memories[m].output || o.after[m] != s.memories[m].before;
    put_text(text, keep ? std::string(reinterpret_cast<const char*>(o.after[m].data()), o.after[m].size()) : std::string());
  }
  return text;
}

outcomes read_outcomes(const std::string& file) { return outcomes_of(whole(file), file); }

outcomes outcomes_of(const std::string& all, const std::string& from) {
  reader r{all, 0, from};
  outcomes found;
  while (r.at < all.size()) {
    const std::string name = r.take(r.number());
    outcome& o = found[name];
    o = {};
    o.error = r.take(r.number());
    o.guards_kept = r.number() != 0;
    for (std::uint64_t n = r.number(); n > 0; --n) {
      const std::string raw = r.take(r.number());
      const auto* p = reinterpret_cast<const std::byte*>(raw.data());
      o.after.emplace_back(p, p + raw.size());
    }
  }
  return found;
}

bool is_bounded(const sample& s) {
  for (const memory& m : s.memories)
    if (m.output && (m.ulps > 0 || m.absolute > 0)) return true;
  return false;
}

std::string golden_line(const std::string& name, const sample& s, const outcome& o) {
  return cat(name, "\t", digest_of_inputs(s), "\t", is_bounded(s) ? "bounded" : digest_of_outputs(s, o), "\n");
}

std::map<std::string, golden> read_golden(const std::string& file) {
  std::istringstream in(whole(file));
  std::map<std::string, golden> all;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t a = line.find('\t'), b = line.find('\t', a + 1);
    if (a == std::string::npos || b == std::string::npos) raise(user_error({.id = "record-malformed", .what = cat(file, " has a line without three fields: ", line)}));
    all[line.substr(0, a)] = {line.substr(a + 1, b - a - 1), line.substr(b + 1)};
  }
  return all;
}

}  // namespace tlx::compare
