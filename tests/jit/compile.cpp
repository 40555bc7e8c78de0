// The spine: what compile gives back, what the cache does, what is said without an assembler.
#include "tlx/jit/compile.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/skip.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/host/library.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/stored.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;
namespace fs = std::filesystem;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, x), (view<bf16, 2>, y), (scalar<std::int32_t>, n));
};

std::unique_ptr<ir::kernel> copy(const std::string& name = "copy", int constant_value = 1) {
  return trace<arguments>(name, "sm_90a", [=](block& cta, const arguments& in) {
    cta.warps(4_warps);
    when(in.n > constant(cta.home(), constant_value), [&] { store(in.y.at(0, 0), fetch<64, 64>(in.x.at(0, 0))); });
  });
}
constexpr jit::compile_options text_only{.assemble = false, .use_cache = false};

struct environment {
  std::string name, before;
  bool had;
  environment(const char* n, const std::string& value) : name(n), before(std::getenv(n) ? std::getenv(n) : ""), had(std::getenv(n)) { setenv(n, value.c_str(), 1); }
  ~environment() { had ? setenv(name.c_str(), before.c_str(), 1) : unsetenv(name.c_str()); }
};

// The cache is opened once a process, from the environment; this runs before the first compile.
const std::string cache_folder = [] {
  const std::string folder = cat(TLX_BINARY_DIR, "/test_jit_cache.", getpid());
  setenv("TLX_CACHE", folder.c_str(), 1);
  return folder;
}();
struct clean_up {
  ~clean_up() {
    std::error_code none;
    fs::remove_all(cache_folder, none);
  }
} at_the_end;

std::vector<fs::path> entries() {
  std::vector<fs::path> found;
  std::error_code none;
  for (fs::recursive_directory_iterator at(cache_folder, none), end; at != end; at.increment(none))
    if (at->is_regular_file() && at->path().string().find(".lock") == std::string::npos && at->file_size() > 200) found.push_back(at->path());
  return found;
}

std::string first_stage(const ir::kernel& k, bool assemble = false) {
  std::vector<jit::stage_time> times;
  jit::observer seen;
  seen.times = &times;
  jit::compile(k, {.assemble = assemble}, seen);
  return times.empty() ? "" : times[0].stage;
}

}  // namespace

TEST_CASE("compiling twice gives the same text") {
  for (const host::library_kernel& each : host::library_kernels()) {
    if (each.name.find("128x256_nt") == std::string::npos && each.name.find("attention") == std::string::npos) continue;
    for (const char* target : {"sm_90a", "sm_100a"}) {
      CAPTURE(each.name);
      const std::string one = jit::compile(*each.trace(target), text_only).code.ptx, two = jit::compile(*each.trace(target), text_only).code.ptx;
      CHECK(one == two);
      CHECK(one.find("/tmp") == std::string::npos);
    }
  }
}

TEST_CASE("C76: a kernel's description has all that a launch needs: entry, threads, shared bytes, grid, arguments") {
  const device::kernel k = jit::compile(*copy(), text_only);
  CHECK(k.name == "copy");
  CHECK(k.entry == "copy");
  CHECK(k.target == "sm_90a");
  CHECK(k.block.x == 128);
  CHECK(k.cluster.x == 1);
  CHECK(k.dynamic_shared_bytes == 0);  // its copy goes through registers
  CHECK(k.grid_x == "1");
  CHECK(k.used.static_shared_bytes <= 0);
  REQUIRE(k.parameters.size() == 3);
  CHECK(k.parameters[0].name == "x");
  CHECK(k.parameters[0].rank == 2);
  CHECK(k.parameters[2].what == device::parameter::kind::scalar);
  CHECK(k.code.ptx.find(".visible .entry copy(") != std::string::npos);
  CHECK(k.code.cubin.empty());
}

TEST_CASE("line directives name the user's file and line, and can be left out") {
  const std::string with = jit::compile(*copy(), text_only).code.ptx;
  CHECK(with.find("compile.cpp\"") != std::string::npos);
  CHECK(with.find(".loc\t") + with.find(".loc ") != 2 * std::string::npos);
  jit::compile_options bare = text_only;
  bare.line_info = false;
  const std::string without = jit::compile(*copy(), bare).code.ptx;
  CHECK(without.find(".loc") == std::string::npos);
  CHECK(without.find("compile.cpp") == std::string::npos);
}

TEST_CASE("an observer sees every pass, the LLVM module and the PTX") {
  std::vector<std::string> stages;
  std::string llvm, ptx;
  std::vector<jit::stage_time> times;
  jit::observer seen;
  seen.after = [&](const std::string& stage, const ir::kernel&) { stages.push_back(stage); };
  seen.llvm = [&](const std::string& t) { llvm = t; };
  seen.ptx = [&](const std::string& t) { ptx = t; };
  seen.times = &times;
  const device::kernel k = jit::compile(*copy(), text_only, seen);
  CHECK(stages.front() == "trace");
  CHECK(stages.back() == "simplify");
  CHECK(stages.size() > 10);
  CHECK(llvm.find("define") != std::string::npos);
  CHECK(ptx == k.code.ptx);
  CHECK(times.back().stage == "ptx");
}

TEST_CASE("C66: the second compile is a hit, and a captured constant is another entry") {
  CHECK(first_stage(*copy("cached")) == "check-roles");
  CHECK(first_stage(*copy("cached")) == "cache");
  CHECK(first_stage(*copy("cached", 2)) == "check-roles");
  CHECK(first_stage(*copy("cached", 2)) == "cache");
}

TEST_CASE("C67: another target is another entry, with its suffix") {
  std::set<std::string> keys;
  for (const char* target : {"sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_90"}) {
    auto k = copy();
    k->target = target;
    keys.insert(jit::stored_key(*k, {.assemble = false}));
  }
  CHECK(keys.size() == 5);
}

TEST_CASE("C68: an option that changes code is another entry, one that only prints is not") {
  const std::string plain = jit::stored_key(*copy(), {.assemble = false});
  CHECK(plain != jit::stored_key(*copy(), {.assemble = false, .line_info = false}));
  const auto watched = [](jit::watch_options how) {
    jit::compile_options options{.assemble = false};
    options.watch = how;
    return jit::stored_key(*copy(), options);
  };
  CHECK(watched({}) == plain);
  CHECK(watched({.seconds = 1}) != watched({}));
  CHECK(watched({.seconds = 2}) != watched({.seconds = 1}));
  CHECK(watched({.seconds = 1, .bounds = true}) != watched({.seconds = 1}));
  {
    environment unchecked("TLX_CHECK", "off");
    CHECK(jit::stored_key(*copy(), {.assemble = false}) != plain);
  }
  {
    environment watching("TLX_WATCH", "3");
    CHECK(jit::stored_key(*copy(), {.assemble = false}) == watched({.seconds = 3}));
  }
  environment printing("TLX_PRINT", "ptx");
  CHECK(jit::stored_key(*copy(), {.assemble = false}) == plain);
}

TEST_CASE("C74: what an assembler made is kept under that assembler, and PTX is the same whoever assembles it later") {
  const auto key_with = [](const std::string& file, const char* text, bool assemble) {
    const std::string path = cache_folder + file;
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_all);
    environment use("TLX_PTXAS", path);
    const std::string key = jit::stored_key(*copy(), {.assemble = assemble});
    fs::remove(path);
    return key;
  };
  const std::string first = key_with(".older", "#!/bin/sh\necho release 13.0, V13.0.88\n", true);
  CHECK(key_with(".newer", "#!/bin/sh\necho release 13.1, V13.1.80\n", true) != first);
  CHECK(key_with(".older", "#!/bin/sh\necho release 13.0, V13.0.88.1\n", true) != first);  // replaced in its place
  CHECK(key_with(".older", "#!/bin/sh\n", false) == key_with(".newer", "#!/bin/sh\nexit 1\n", false));
}

TEST_CASE("what the cache gives back is what was compiled") {
  auto fresh = jit::compile(*copy("same"), {.assemble = false, .use_cache = false});
  jit::compile(*copy("same"), {.assemble = false});
  const device::kernel kept = jit::compile(*copy("same"), {.assemble = false});
  CHECK(first_stage(*copy("same")) == "cache");
  CHECK(kept.code.ptx == fresh.code.ptx);
  CHECK(device::to_manifest(kept) == device::to_manifest(fresh));
}

TEST_CASE("an observer hears that a kernel was found, and nothing else") {
  int found = 0;
  jit::observer seen;
  seen.found = [&] { ++found; };
  jit::compile(*copy("heard"), {.assemble = false}, seen);
  CHECK(found == 0);
  jit::compile(*copy("heard"), {.assemble = false}, seen);
  CHECK(found == 1);
  CHECK(jit::stored_counters().hits >= 1);
  CHECK_FALSE(jit::unpack_stored("no entry").has_value());
}

TEST_CASE("a damaged entry is made again") {
  const std::string want = jit::compile(*copy("damaged"), {.assemble = false}).code.ptx;
  REQUIRE(first_stage(*copy("damaged")) == "cache");
  REQUIRE(!entries().empty());
  for (const fs::path& entry : entries()) {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(entry) / 2));
    file.write("damage", 6);
  }
  CHECK(first_stage(*copy("damaged")) == "check-roles");
  CHECK(jit::compile(*copy("damaged"), {.assemble = false}).code.ptx == want);
  CHECK(first_stage(*copy("damaged")) == "cache");
}

TEST_CASE("without an assembler compiling says so, and PTX alone still works") {
  environment hidden("TLX_HIDE_TOOLKIT", "1");
  try {
    jit::compile(*copy(), {.use_cache = false});
    FAIL("compiled without an assembler");
  } catch (const device_error& e) {
    CHECK(e.id() == "assembler-missing");
  }
  try {
    jit::compile(*copy("hidden"));
    FAIL("compiled without an assembler");
  } catch (const device_error& e) {
    CHECK(e.id() == "assembler-missing");
  }
  CHECK(jit::compile(*copy(), {.assemble = false}).code.ptx.find(".entry copy") != std::string::npos);
}

TEST_CASE("an assembled kernel has a cubin with its entry and the numbers of the assembler") {
  bool have = true;
  try {
    jit::assembler_path();
  } catch (const device_error&) {
    have = false;
  }
  TLX_SKIP_UNLESS(have, "no ptxas");
  for (int round = 0; round < 2; ++round) {  // made, then found
    const device::kernel k = jit::compile(*copy("assembled"));
    CHECK(jit::cubin_entries(k.code.cubin) == std::vector<std::string>{"assembled"});
    CHECK(k.used.registers > 0);
    CHECK(k.used.spill_bytes == 0);
  }
}

namespace {

// One round less is loaded than is used.
std::unique_ptr<ir::kernel> short_load() {
  return trace<arguments>("short_load", "sm_90a", [](block& cta, const arguments& in) {
    auto ring = cta.ring<2>("x", shared<bf16, 64, 64>);
    cta.roles(cta.persistent(grid_of<64, 64>(in.y)), role("load", 1_warp, [&](const grid_box& t) { for_each(in.n - 1, [&](tlx::index i) { load(ring.fill(), in.x.at(t.row, i * 64)); }); }),
              role("use", 4_warps, [&](const grid_box& t) { for_each(in.n, [&](tlx::index i) { store(in.y.at(t.row, i * 64), read(ring.drain())); }); }));
  });
}

}  // namespace

TEST_CASE("a kernel that would hang is refused before code is generated, unless the check is turned off") {
  std::string id, said;
  jit::observer seen;
  seen.protocol = [&](const std::string& text) { said = text; };
  try {
    jit::compile(*short_load(), text_only, seen);
  } catch (const user_error& e) {
    id = e.id();
  }
  CHECK(id == "protocol-deadlock");
  CHECK(said.find("[protocol-deadlock]") != std::string::npos);
  said.clear();
  jit::compile_options off = text_only;
  off.check_protocol = false;
  CHECK(jit::compile(*short_load(), off, seen).code.ptx.find(".entry short_load") != std::string::npos);
  CHECK(said.empty());
  {
    const environment none("TLX_CHECK", "off");
    CHECK(jit::compile(*short_load(), text_only).code.ptx.find(".entry short_load") != std::string::npos);
  }
  CHECK(jit::stored_key(*copy(), {.assemble = false}) != jit::stored_key(*copy(), {.assemble = false, .check_protocol = false}));
  {
    const environment none("TLX_CHECK", "off");  // an unchecked kernel is no entry for those who want it checked
    CHECK(jit::stored_key(*copy(), {.assemble = false}) == jit::stored_key(*copy(), {.assemble = false, .check_protocol = false}));
  }
  jit::compile(*copy(), text_only, seen);
  CHECK(said.rfind("protocol check: nothing found in ", 0) == 0);
}
