#include "tests/support/error_of.hpp"
#include "tlx/jit/assemble.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "jit/process.hpp"
#include "tests/runtime_gpu/kernels.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx::jit;

namespace {

using tlx::test::error_of;

// Absent is skipped, never passed: the message shows in the log.
bool have_assembler() {
  static const bool have = error_of([] { assembler_path(); }).empty();
  if (!have) MESSAGE("skipped: no ptxas");
  return have;
}

struct environment {
  const char* name;
  std::string before;
  bool had;
  environment(const char* n, const std::string& value) : name(n), before(std::getenv(n) ? std::getenv(n) : ""), had(std::getenv(n)) { setenv(n, value.c_str(), 1); }
  ~environment() { had ? setenv(name, before.c_str(), 1) : unsetenv(name); }
};

std::string script(const temporary_folder& at, const std::string& text, const std::string& name = "ptxas") {
  const std::string path = at.path() + "/" + name;
  tlx::write_file(path, "#!/bin/sh\n" + text);
  chmod(path.c_str(), 0755);
  return path;
}

const std::string good_version = "if [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit 0; fi\n";

}  // namespace

TEST_CASE("a kernel is assembled and its numbers are read") {
  if (!have_assembler()) return;
  const assembly out = assemble(ptx::trade, "sm_90a");
  CHECK(out.cubin.substr(1, 3) == "ELF");
  CHECK(out.used.registers == 168);
  CHECK(out.used.spill_bytes == 0);
  CHECK(out.used.stack_bytes == 0);
  CHECK(out.used.advisories.empty());
  CHECK(out.used.assembler == assembler_version());
  CHECK(out.used.assembler.rfind("ptxas ", 0) == 0);
  CHECK(out.entries.count("trade") == 1);
  CHECK(cubin_entries(out.cubin) == std::vector<std::string>{"trade"});
  CHECK(assemble(ptx::tma_copy, "sm_90a").used.static_shared_bytes >= 8);
}

TEST_CASE("C73: setmaxnreg is in the code with .minnctapersm, and its loss without is an advisory") {
  if (!have_assembler()) return;
  CHECK(sass_opcode_counts(assemble(ptx::trade, "sm_90a").cubin, "trade").at("USETMAXREG") == 2);
  std::string lost = ptx::trade;
  lost.erase(lost.find(".minnctapersm 1"), 15);
  const assembly out = assemble(lost, "sm_90a");
  CHECK(sass_opcode_counts(out.cubin, "trade").count("USETMAXREG") == 0);
  REQUIRE(out.used.advisories.size() == 1);
  CHECK(out.used.advisories[0].find("(C7508)") != std::string::npos);
}

TEST_CASE("opcodes that gates rely on have the names that a disassembler gives them") {
  if (!have_assembler()) return;
  const auto copy = sass_opcode_counts(assemble(ptx::tma_copy, "sm_90a").cubin, "tma_copy");
  CHECK(copy.at("UTMALDG") == 1);
  CHECK(copy.at("UTMASTG") == 1);
  CHECK(copy.at("UTMACMDFLUSH") == 1);
  CHECK(copy.at("SYNCS") >= 3);
  const auto add = sass_opcode_counts(assemble(ptx::add, "sm_90a").cubin, "add");
  CHECK(add.at("LDG") == 2);
  CHECK(add.at("STG") == 1);
  CHECK(add.at("FADD") == 1);
  CHECK(add.count("STL") == 0);
  const std::string head = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n.reqntid 128\n{ .reg .f32 %f<4>; .reg .b64 %d, %a;\n"
                           "ld.param.u64 %a, [p]; ld.global.v4.f32 {%f0,%f1,%f2,%f3}, [%a]; ld.global.u64 %d, [%a+16];\n";
  const std::string tail = "st.global.v4.f32 [%a], {%f0,%f1,%f2,%f3}; ret; }\n";
  const std::string fence = "wgmma.fence.sync.aligned;\n", wait = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
  const auto counts = [&](const std::string& body) { return sass_opcode_counts(assemble(head + body + tail, "sm_90a").cubin, "k"); };
  const auto bf16 = counts(fence + "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %d, %d, 1, 1, 1, 0, 0;\n" + wait);
  CHECK(bf16.at("HGMMA") == 1);
  CHECK(bf16.at("R2UR") >= 2);
  CHECK(bf16.at("WARPGROUP") >= 1);
  CHECK(counts(fence + "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0,%f1,%f2,%f3}, %d, %d, 1, 1, 1;\n" + wait).at("QGMMA") == 1);
  CHECK(counts("membar.gl;\n").at("MEMBAR") == 1);
  CHECK(counts("bar.sync 0;\n").at("BAR") == 1);
}

TEST_CASE("refused PTX comes back with the first messages and the lines they point to") {
  if (!have_assembler()) return;
  std::string bad = ptx::add, text;
  bad.replace(bad.find("add.f32"), 7, "frobnic");
  CHECK(error_of([&] { assemble(bad, "sm_90a"); }, &text) == "assembler-rejected");
  CHECK(text.find("Not a name of any known instruction: 'frobnic'") != std::string::npos);
  CHECK(text.find("line 13:   ld.global.f32 %x") != std::string::npos);
  CHECK(text.find("kernel.ptx, line 13") != std::string::npos);
  CHECK(error_of([&] { assemble(ptx::add, "sm_77"); }, &text) == "assembler-rejected");
  CHECK(text.find("sm_77") != std::string::npos);
  CHECK(error_of([&] { assemble("", "sm_90a"); }) == "assembler-rejected");
}

TEST_CASE("C72: PTX newer than the assembler is told apart, with both versions and the program") {
  if (!have_assembler()) return;
  std::string text, newer = ptx::add;
  newer.replace(newer.find("8.0"), 3, "99.9");
  const std::string id = error_of([&] { assemble(newer, "sm_90a"); }, &text);
  CHECK(id == "assembler-too-old");
  CHECK(text.find("99.9") != std::string::npos);
  CHECK(text.find(assembler_version()) != std::string::npos);
  CHECK(text.find(assembler_path()) != std::string::npos);
}

TEST_CASE("C72: PTX versions come from the table of releases, unknown releases count as the newest known") {
  const auto is = [](const char* assembler, int major, int minor) {
    const ptx_version v = newest_ptx(assembler);
    return v.major == major && v.minor == minor;
  };
  CHECK(is("ptxas 12.4.131", 8, 4));
  CHECK(is("ptxas 12.5.82", 8, 5));
  CHECK(is("ptxas 12.6.85", 8, 5));
  CHECK(is("ptxas 12.8.93", 8, 7));
  CHECK(is("ptxas 13.0.88", 9, 0));
  CHECK(is("ptxas 13.1.80", 9, 1));
  CHECK(is("ptxas 99.0.1", 9, 1));
}

TEST_CASE("a hidden or wrong assembler is missing, with what to install") {
  std::string text;
  {
    environment hide("TLX_HIDE_TOOLKIT", "1");
    CHECK(error_of([] { assemble(ptx::add, "sm_90a"); }, &text) == "assembler-missing");
    CHECK(text.find("install the CUDA toolkit") != std::string::npos);
  }
  environment wrong("TLX_PTXAS", "/nowhere/ptxas");
  CHECK(error_of([] { assembler_version(); }, &text) == "assembler-missing");
  CHECK(text.find("/nowhere/ptxas") != std::string::npos);
}

TEST_CASE("a program that is no ptxas is found out by its version") {
  temporary_folder at;
  environment use("TLX_PTXAS", script(at, "echo hello\n"));
  CHECK(error_of([] { assembler_version(); }) == "assembler-missing");
}

TEST_CASE("ptxas is found in a folder of Python wheels when there is no other") {
  temporary_folder at;
  mkdir((at.path() + "/nvidia").c_str(), 0755);
  mkdir((at.path() + "/nvidia/cu13").c_str(), 0755);
  mkdir((at.path() + "/nvidia/cu13/bin").c_str(), 0755);
  const std::string path = script(at, good_version, "nvidia/cu13/bin/ptxas");
  environment use("TLX_TOOLKIT", at.path()), bare("PATH", at.path()), no_home("CUDA_HOME", ""), no_path("CUDA_PATH", "");
  if (assembler_path().rfind("/usr/local/cuda", 0) == 0) return;  // an installed toolkit goes first
  CHECK(assembler_path() == path);
}

TEST_CASE("an assembler that hangs is stopped at the time limit, with its children") {
  temporary_folder at;
  environment use("TLX_PTXAS", script(at, good_version + "(sleep 1; touch " + at.path() + "/survived) & sleep 30; wait\n"));
  assemble_options how;
  how.timeout_seconds = 0.3;
  const auto start = std::chrono::steady_clock::now();
  std::string text;
  CHECK(error_of([&] { assemble(ptx::add, "sm_90a", how); }, &text) == "assembler-timeout");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  CHECK(text.find("ptxas 13.0.88 did not finish") != std::string::npos);
  usleep(1300000);
  struct stat info {};
  CHECK(stat((at.path() + "/survived").c_str(), &info) != 0);
}

TEST_CASE("an assembler that crashes is not a rejection") {
  temporary_folder at;
  environment use("TLX_PTXAS", script(at, good_version + "echo dying; kill -SEGV $$\n"));
  std::string text;
  CHECK(error_of([&] { assemble(ptx::add, "sm_90a"); }, &text) == "assembler-crashed");
  CHECK(text.find("signal 11") != std::string::npos);
  CHECK(text.find("dying") != std::string::npos);
}

TEST_CASE("cubins that are cut or no cubins are refused at any length") {
  if (!have_assembler()) return;
  const std::string cubin = assemble(ptx::add, "sm_90a").cubin;
  CHECK(error_of([&] { sass_opcode_counts(cubin, "other"); }) == "cubin-entry-missing");
  for (size_t n = 0; n < cubin.size(); n += 7) {
    CAPTURE(n);
    CHECK(error_of([&] { sass_opcode_counts(cubin.substr(0, n), "add"); }) == "cubin-malformed");
  }
  for (size_t at = 0; at < cubin.size(); ++at) {  // flipped bytes: an answer or an error, never a crash
    std::string changed = cubin;
    changed[at] = static_cast<char>(~changed[at]);
    const std::string id = error_of([&] { sass_opcode_counts(changed, "add"); });
    CHECK((id.empty() || id == "cubin-malformed" || id == "cubin-entry-missing"));
  }
}
