// The error table (docs/errors.d), compiled in.
#include <cstdio>
#include <cstring>
#include <iterator>

#include "tlx/support/text.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

struct row {
  const char *id, *layer, *meaning, *fix;
};
constexpr row rows[] = {
#include "explain_table.inc"
};

// Ids that share a word with `id`, as "a, b, c".
std::string similar(const std::string& id) {
  std::vector<std::string> found;
  for (const std::string& word : split(id, '-'))
    for (const row& r : rows)
      if (word.size() > 2 && std::strstr(r.id, word.c_str()) && (found.empty() || found.back() != r.id) && found.size() < 6) found.push_back(r.id);
  return tlx::join(found, ", ");
}

int list() {
  for (size_t i = 0; i < std::size(rows); ++i)
    if (i == 0 || std::strcmp(rows[i - 1].id, rows[i].id) != 0) std::printf("%s\n", rows[i].id);
  return 0;
}

int run(const arguments& given) {
  if (given.has("--list")) return list();
  if (given.words().empty()) throw usage_error("expected ID or --list");
  std::string id = given.words()[0];
  if (id.size() > 2 && id.front() == '[' && id.back() == ']') id = id.substr(1, id.size() - 2);  // as it stands in a message
  bool found = false;
  for (const row& r : rows) {
    if (id != r.id) continue;
    std::printf("%s%s (raised by %s)\n\n%s\n\nFix: %s\n", found ? "\n" : "", r.id, r.layer, r.meaning, r.fix);
    found = true;
  }
  if (found) return 0;
  const std::string near = similar(id);
  throw usage_error(tlx::cat("there is no error \"", id, "\"", near.empty() ? "; tlxc explain --list shows all" : "; similar: " + near));
}

}  // namespace

verb explain_verb() { return {"explain", "ID", 0, 1, "what an error means and how to mend it", "ID stands in square brackets in the message.", {{"--list", nullptr, "all ids"}}, run}; }

}  // namespace tlxc
