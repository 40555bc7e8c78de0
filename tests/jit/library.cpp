// Every kernel of the library for every target: PTX with the instructions that it is about, accepted by ptxas without spills, stack or advice.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "tests/support/skip.hpp"
#include "tlx/host/library.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;

namespace {

bool have_assembler() {
  try {
    jit::assembler_path();
    return true;
  } catch (const device_error&) {
    const char* ci = std::getenv("CI");
    if (ci && std::string(ci) == "true") FAIL("CI has no ptxas: install it, this test must run there");
    return false;
  }
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

bool is_gemm(const std::string& name) { return name.rfind("gemm", 0) == 0; }
// What multiplies nothing: it adds what products left over, sums rows of two tensors, or writes what queries without keys get.
bool is_sum(const std::string& name) {
  return name.rfind("sum_parts", 0) == 0 || name.rfind("flash_attention_delta", 0) == 0 || name.rfind("flash_attention_prepare", 0) == 0 || name.rfind("flash_attention_finish", 0) == 0 || name.rfind("flash_attention_without_keys", 0) == 0;
}
bool by_threads(const std::string& name) { return name.find("_threads") != std::string::npos; }

void check_assembly(const std::string& target, const std::function<void(const std::string&, const device::kernel&)>& more) {
  TLX_SKIP_UNLESS(have_assembler(), "no ptxas");
  for (const host::library_kernel& each : host::library_kernels(target)) {
    CAPTURE(each.name);
    CAPTURE(target);
    try {
      const device::kernel k = jit::compile(*each.trace(target), {.use_cache = false});
      CHECK(k.used.spill_bytes == 0);
      CHECK(k.used.stack_bytes == 0);
      CHECK_MESSAGE(k.used.advisories.empty(), (k.used.advisories.empty() ? "" : k.used.advisories[0]));
      CHECK(k.used.registers * static_cast<int>(k.block.x) * k.blocks_per_processor <= 65536);
      more(each.name, k);
    } catch (const error& e) {
      FAIL_CHECK(std::string(e.what()));
    }
  }
}

}  // namespace

TEST_CASE("Hopper: every kernel assembles clean, multiplies with wgmma, copies with TMA and moves registers") {
  check_assembly("sm_90a", [](const std::string& name, const device::kernel& k) {
    std::map<std::string, int> sass = jit::sass_opcode_counts(k.code.cubin, k.entry);
    CHECK((sass["HGMMA"] + sass["IGMMA"] + sass["QGMMA"] > 0) == !is_sum(name));
    CHECK(sass["HMMA"] == 0);
    if (!by_threads(name) && !is_sum(name)) CHECK(sass["UTMALDG"] > 0);
    if (is_gemm(name) && !by_threads(name)) CHECK((sass["UTMASTG"] > 0) == (name.find("_swapped") == std::string::npos));
    CHECK((count(k.code.ptx, ".multicast::cluster") > 0) == (name.find("_cluster") != std::string::npos));
    // with loads by threads there is no single-warp role whose registers could be given away
    const int multiplying_roles = name.rfind("gemm_normed", 0) == 0 || name.find("_turns") != std::string::npos ? 2 : 1;
    if (is_gemm(name) && k.block.x > 256 && !by_threads(name)) CHECK(sass["USETMAXREG"] == 1 + multiplying_roles);
    CHECK(sass["LDL"] == 0);
    CHECK(sass["STL"] == 0);
    CHECK(count(k.code.ptx, "fence.acq_rel.gpu") == 0);
    CHECK(count(k.code.ptx, "membar") == 0);
  });
}
TEST_CASE("Blackwell sm_100a: every kernel assembles clean") {
  check_assembly("sm_100a", [](const std::string&, const device::kernel&) {});
}
TEST_CASE("Blackwell sm_103a: every kernel assembles clean") {
  check_assembly("sm_103a", [](const std::string&, const device::kernel&) {});
}

TEST_CASE("Blackwell PTX multiplies with tcgen05 and nothing else") {
  int pairs = 0;
  for (const host::library_kernel& each : host::library_kernels("sm_100a")) {
    CAPTURE(each.name);
    if (is_sum(each.name)) continue;
    const std::string ptx = jit::compile(*each.trace("sm_100a"), {.assemble = false, .use_cache = false}).code.ptx;
    CHECK(count(ptx, "tcgen05.mma") > 0);
    CHECK((count(ptx, "tcgen05.cp") > 0) == (each.name.rfind("scaled_", 0) == 0));
    CHECK((count(ptx, ".block_scale") > 0) == (each.name.rfind("scaled_", 0) == 0));
    CHECK(count(ptx, "tcgen05.alloc") == 1);
    CHECK(count(ptx, "tcgen05.dealloc") == 1);
    CHECK(count(ptx, "mma.sync") == 0);
    CHECK(count(ptx, "wgmma") == 0);
    if (!by_threads(each.name)) CHECK(count(ptx, "cp.async.bulk.tensor") > 0);
    // Tiles below each other in clusters of two are a pair's; every tcgen05 instruction of a kernel is of one kind.
    const bool pair = is_gemm(each.name) && each.name.find("_cluster2") != std::string::npos && (each.name.find("_128x256_") != std::string::npos || each.name.find("_128x128_") != std::string::npos);
    CHECK((count(ptx, "cta_group::2") > 0) == pair);
    CHECK((count(ptx, "cta_group::1") > 0) == !pair);
    pairs += pair;
    // A product of a K step by threads would be a fused multiply-add for each of its elements; epilogues and the softmax have fewer, but for the online one,
    // which scales each score and subtracts the largest by one.
    if (each.name.rfind("flash_attention", 0) == 0) continue;
    if (each.name.find("_relu") == std::string::npos && each.name.find("elu") == std::string::npos && each.name.find("silu") == std::string::npos) CHECK(count(ptx, "fma.rn") < 64);
  }
  CHECK(pairs == 5);
}

TEST_CASE("C77: every entry says how many threads it has, and Hopper PTX uses wgmma only") {
  for (const host::library_kernel& each : host::library_kernels()) {
    CAPTURE(each.name);
    const device::kernel k = jit::compile(*each.trace("sm_90a"), {.assemble = false, .use_cache = false});
    CHECK(count(k.code.ptx, cat(".reqntid ", k.block.x)) + count(k.code.ptx, cat(".maxntid ", k.block.x)) == 1);
    CHECK((count(k.code.ptx, "wgmma.mma_async") > 0) == !is_sum(each.name));
    CHECK(count(k.code.ptx, "mma.sync") == 0);
    CHECK(count(k.code.ptx, "tcgen05") == 0);
  }
}

TEST_CASE("PTX names the rings and roles of its kernel in comments, each mbarrier that it initialises once, the same on every run") {
  int seen = 0;
  for (const std::string target : {"sm_90a", "sm_100a"})
    for (const host::library_kernel& each : host::library_kernels()) {
      if (each.name != "gemm_bf16_128x128_nt" && each.name.rfind("block_attention_bf16", 0) != 0) continue;
      CAPTURE(each.name);
      CAPTURE(target);
      const std::string ptx = jit::compile(*each.trace(target), {.assemble = false, .use_cache = false}).code.ptx;
      CHECK(jit::compile(*each.trace(target), {.assemble = false, .use_cache = false}).code.ptx == ptx);
      const bool loads_ahead = target == "sm_90a" && each.name.find("_b256_") != std::string::npos;
      CHECK(count(ptx, "// tlx.role ") == (is_gemm(each.name) ? (target == "sm_90a" ? 2 : 3) : loads_ahead ? 2 : 0));
      int barriers = 0;
      for (size_t from = 0, end = 0; from < ptx.size(); from = end + 1) {
        end = std::min(ptx.find('\n', from), ptx.size());
        const std::string line = ptx.substr(from, end - from);
        if (line.rfind("// tlx.ring ", 0) == 0 && line.find("which=slots") == std::string::npos && line.find("which=columns") == std::string::npos) barriers += std::stoi(line.substr(line.find("stages=") + 7));
      }
      ++seen;
      CHECK(barriers == count(ptx, "mbarrier.init"));
    }
  CHECK(seen == 38);
}
