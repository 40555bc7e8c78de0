#include "jit/print_stages.hpp"

#include <cstdio>
#include <cstdlib>
#include <set>

#include "tlx/ir/text.hpp"
#include "tlx/jit/disassemble.hpp"
#include "tlx/pass/pipeline.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::jit {

namespace {

std::set<std::string> stages_asked_for(const std::string& target) {
  const char* value = std::getenv("TLX_PRINT");
  std::set<std::string> asked;
  if (!value || !*value) return asked;
  std::set<std::string> known{"after:trace", "after:all", "after:watch", "protocol", "llvm", "ptx", "sass"};
  for (const pass::pass& step : pass::pipeline_for(target)) known.insert(std::string("after:") + step.name);
  std::istringstream words(value);
  for (std::string word; std::getline(words, word, ',');) {
    if (!known.count(word))
      raise(user_error({.id = "print-stage-unknown", .what = "TLX_PRINT asks for \"" + word + "\"", .because = "it lists stages of the compiler, separated by commas",
                        .fix = {"use some of " + join({known.begin(), known.end()}, ", "), "or unset TLX_PRINT"}}));
    asked.insert(word);
  }
  return asked;
}

// One write for each text, so that compilations side by side do not mix theirs.
void show(const std::string& kernel, const std::string& stage, const std::string& text) {
  const std::string all = cat("=== ", kernel, ": ", stage, "\n", text, text.empty() || text.back() != '\n' ? "\n" : "");
  std::fwrite(all.data(), 1, all.size(), stderr);
}

template <class Text>
std::function<void(const std::string&)> both(const std::function<void(const std::string&)>& first, const std::string& kernel, const char* stage, Text text) {
  return [=](const std::string& made) {
    if (first) first(made);
    show(kernel, stage, text(made));
  };
}

}  // namespace

observer also_printing(const observer& by_caller, const ir::kernel& traced) {
  const std::set<std::string> asked = stages_asked_for(traced.target);
  observer out = by_caller;
  const std::string name = traced.name;
  bool passes = false;
  for (const std::string& word : asked) passes = passes || word.rfind("after:", 0) == 0;
  if (passes)
    out.after = [first = by_caller.after, asked, name](const std::string& stage, const ir::kernel& k) {
      if (first) first(stage, k);
      if (asked.count("after:all") || asked.count("after:" + stage)) show(name, "after " + stage, ir::print(k));
    };
  const auto as_is = [](const std::string& s) { return s; };
  if (asked.count("protocol")) out.protocol = both(by_caller.protocol, name, "protocol", as_is);
  if (asked.count("llvm")) out.llvm = both(by_caller.llvm, name, "llvm", as_is);
  if (asked.count("ptx")) out.ptx = both(by_caller.ptx, name, "ptx", as_is);
  if (asked.count("sass")) out.cubin = both(by_caller.cubin, name, "sass", disassemble);
  return out;
}

}  // namespace tlx::jit
