// tlxc: builds, prints, runs and simulates kernels, and shows what the compiler decided. Exit codes: 0 done, 1 an error of the kernel, the machine or
// the result, 2 the command line is wrong. `sim` has codes of its own.
#include <cstdio>

#include "tlx/jit/assemble.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/version.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

std::vector<verb> all_verbs() { return {build_verb(), inspect_verb(), sign_verb(), list_verb(), print_verb(), run_verb(), sim_verb(), show_verb(), explain_verb(), cache_verb()}; }

int help() {
  std::printf("usage: tlxc VERB [arguments]\n\n");
  for (const verb& v : all_verbs()) std::printf("  %-9s %s\n", v.name, v.summary);
  std::printf("\n  tlxc VERB --help    arguments and options of a verb\n  tlxc --version\n  tlxc --assembler    the assembler that build would use\n");
  return 0;
}

int assembler() {
  try {
    return std::printf("%s\n", tlx::jit::assembler_version().c_str()), 0;
  } catch (const tlx::error& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}

int run(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "help") return help(), words.empty() ? 2 : 0;
  if (words[0] == "--version") return std::printf("tlxc %s\n", tlx::version_string), 0;
  if (words[0] == "--assembler") return assembler();
  for (const verb& v : all_verbs()) {
    if (words[0] != v.name) continue;
    for (const std::string& word : words)
      if (word == "--help") return std::fputs(help_of(v).c_str(), stdout), 0;
    try {
      return v.run(arguments(v, {words.begin() + 1, words.end()}));
    } catch (const usage_error& e) {
      std::fprintf(stderr, "tlxc %s: %s\n(tlxc %s --help lists what it takes)\n", v.name, e.what(), v.name);
      return words[0] == "sim" ? 3 : 2;  // of sim, 2 says that a fault was found
    }
  }
  std::fprintf(stderr, "tlxc: there is no verb \"%s\"\n(tlxc --help lists them)\n", words[0].c_str());
  return 2;
}

}  // namespace

}  // namespace tlxc

int main(int argc, char** argv) {
  try {
    return tlxc::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {  // errors of tlx have their five parts in the text
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
