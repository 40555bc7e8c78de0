// Many processes start at once with one cold cache: each kernel is compiled once, by one of them.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/skip.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/jit/stored.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<float, 1>, x), (view<float, 1>, y));
};

std::unique_ptr<ir::kernel> small_kernel(int number) {
  return trace<arguments>(cat("add_", number), "sm_90a", [=](block& cta, const arguments& in) {
    cta.warps(4_warps);
    store(in.y.at(0), fetch<1, 128>(in.x.at(0)) + constant(cta.home(), static_cast<float>(number)));
  });
}

}  // namespace

TEST_CASE("C69: 16 processes and 16 kernels on one cold cache: no error, and each kernel is compiled once") {
  const std::string folder = cat(TLX_BINARY_DIR, "/test_cold_cache.", getpid());
  setenv("TLX_CACHE", folder.c_str(), 1);
  constexpr int processes = 16, kernels = 16;
  int start[2], counts[2];
  REQUIRE(pipe(start) == 0);
  REQUIRE(pipe(counts) == 0);
  const bool assemble = jit::has_assembler();
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      close(start[1]);
      char byte = 0;
      (void)!read(start[0], &byte, 1);  // ends when the parent closes: all start at once
      int wrong = 0;
      try {
        for (int i = 0; i < kernels; ++i) {
          const int number = (i + p * 5) % kernels;
          const device::kernel k = jit::compile(*small_kernel(number), {.assemble = assemble});
          const std::string entry = cat("add_", number);
          wrong += k.name == entry && k.code.ptx.find(cat(".entry ", entry, "(")) != std::string::npos ? 0 : 1;
          wrong += !assemble || jit::cubin_entries(k.code.cubin) == std::vector<std::string>{entry} ? 0 : 1;
        }
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        wrong += 100;
      }
      const jit::cache_counters n = jit::stored_counters();
      wrong += n.corrupt || n.failed_stores || n.lock_timeouts || n.hits + n.misses != kernels ? 1 : 0;
      const int compiles = static_cast<int>(n.stores);
      (void)!write(counts[1], &compiles, sizeof compiles);
      _exit(wrong ? 1 : 0);
    }
    children.push_back(child);
  }
  close(start[0]);
  close(start[1]);
  close(counts[1]);
  int all = 0, of_one = 0, answers = 0;
  while (read(counts[0], &of_one, sizeof of_one) == sizeof of_one) {
    all += of_one;
    ++answers;
  }
  close(counts[0]);
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(answers == processes);
  CHECK(all == kernels);  // 1.0 compiles a key; the bar is 1.1
  std::error_code none;
  std::filesystem::remove_all(folder, none);
}
