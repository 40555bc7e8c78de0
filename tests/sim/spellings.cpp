// spellings.txt names every instruction form that the simulator knows, and those that it refuses by name. ptxas, where it is present, says that all are real PTX.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support.hpp"

using namespace sim_test;

namespace {

struct spelling { std::vector<std::string> targets; std::string text; bool refused = false; };

/// {%r0..7} -> {%r0, %r1, ..., %r7}
std::string expanded(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find("{%", at), dots = open == std::string::npos ? open : text.find("..", open), close = open == std::string::npos ? open : text.find('}', open);
    if (open == std::string::npos) { out += text.substr(at); break; }
    if (dots == std::string::npos || dots > close) { out += text.substr(at, close + 1 - at); at = close + 1; continue; }
    const std::size_t digits = text.find_first_of("0123456789", open);
    const std::string name = text.substr(open + 1, digits - open - 1);
    out += text.substr(at, open - at) + "{";
    for (int k = std::stoi(text.substr(digits)); k <= std::stoi(text.substr(dots + 2)); ++k) out += (out.back() == '{' ? "" : ", ") + name + std::to_string(k);
    out += "}";
    at = close + 1;
  }
  return out;
}

std::vector<spelling> all() {
  std::vector<spelling> out;
  std::ifstream file(std::string(TLX_SOURCE_DIR) + "/tests/sim/spellings.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    spelling s;
    s.refused = line[0] == '!';
    const std::size_t space = line.find(' ');
    std::stringstream targets(line.substr(s.refused, space - s.refused));
    for (std::string t; std::getline(targets, t, '+');) s.targets.push_back("sm_" + t);
    s.text = expanded(line.substr(space + 1));
    out.push_back(std::move(s));
  }
  return out;
}

std::string header(const std::string& target) { return ".version 9.0\n.target " + target + "\n.address_size 64\n.const .align 4 .f32 cc[4];\n"; }
/// One kernel on one line, so that a line number names the instruction.
std::string kernel(const spelling& s, const std::string& name) {
  return ".visible .entry " + name + "(.param .u64 pp) .maxnreg 240 { .reg .pred %p<16>; .reg .b16 %rs<32>; .reg .b32 %r<256>; .reg .b64 %rd<64>; .reg .f32 %f<256>; .reg .f64 %fd<64>; .reg .b128 %rq<4>; .reg .b8 %rb<8>; "
         ".shared .align 1024 .b8 sm[8192]; .local .align 16 .b8 lc[64]; " + s.text + "; ret; }\n";
}

}  // namespace

TEST_CASE("every instruction form of the list is understood, or refused by name") {
  const auto list = all();
  REQUIRE(list.size() > 600);
  for (const char* target : {"sm_90a", "sm_100a", "sm_103a"}) {
    auto m = tlx::sim::open(target);
    for (const spelling& s : list) {
      bool here = false;
      for (const std::string& t : s.targets) here = here || t == target;
      if (!here) continue;
      const std::string id = id_of([&] { m->load({.ptx = header(target) + kernel(s, "k"), .cubin = {}}); });
      INFO(target << ": " << s.text);
      CHECK(id == (s.refused ? "ptx-unsupported" : ""));
    }
  }
}

TEST_CASE("ptxas takes every line of the list") {
  namespace fs = std::filesystem;
  const char* home = std::getenv("CUDA_HOME");
  fs::path ptxas = fs::path(home ? home : "/usr/local/cuda") / "bin/ptxas";
  if (!fs::exists(ptxas)) { MESSAGE("no ptxas: not checked"); return; }
  const auto list = all();
  for (const char* target : {"sm_90a", "sm_100a", "sm_103a"}) {
    std::string text = header(target);
    int n = 0;
    // One module, one kernel each. ptxas stops a module with cta_group::1 and ::2, but not across kernels.
    for (const spelling& s : list) for (const std::string& t : s.targets) if (t == target) text += kernel(s, "k" + std::to_string(n++));
    const std::string stem = (fs::path(TLX_BINARY_DIR) / (std::string("spellings_") + target)).string();
    std::ofstream(stem + ".ptx") << text;
    const int rc = std::system((ptxas.string() + " -O0 -arch=" + target + " -o " + stem + ".cubin " + stem + ".ptx > " + stem + ".log 2>&1").c_str());
    std::stringstream log;
    log << std::ifstream(stem + ".log").rdbuf();
    INFO(target << ", " << n << " kernels: " << log.str().substr(0, 2000));
    CHECK(rc == 0);
    for (const char* end : {".ptx", ".cubin", ".log"}) fs::remove(stem + end);
  }
}
