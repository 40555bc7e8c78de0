// Ahead of time: every kernel for every target, and one manifest.json that says what is there. The same input gives the same bytes.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "source.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/sha256.hpp"
#include "tlx/support/text.hpp"
#include "tlx/version.hpp"
#include "verbs.hpp"

namespace tlxc {

using tlx::cat;
using json = nlohmann::ordered_json;

namespace {

struct job {
  const kernel_entry* kernel = nullptr;
  std::string target;
  tlx::device::kernel made;
  std::string error;
};

std::vector<std::string> targets_of(const arguments& given) {
  std::vector<std::string> targets;
  for (const std::string& list : given.all("--arch"))
    for (const std::string& target : split(list, ',')) {
      check_target(target);
      if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
    }
  if (targets.empty()) throw usage_error("expected --arch, for example --arch sm_90a,sm_100a");
  return targets;
}

std::regex pattern_of(const arguments& given) {
  try {
    return std::regex(given.text("--kernels", ".*"), std::regex::extended);
  } catch (const std::regex_error& e) {
    throw usage_error(cat("--kernels \"", given.text("--kernels"), "\" is no regular expression: ", e.what()));
  }
}

// Each worker takes the next job; what a job raises is kept with it.
void compile_all(std::vector<job>& jobs, const tlx::jit::compile_options& how, size_t workers) {
  std::atomic<size_t> next{0}, done{0};
  std::mutex printing;
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      job& j = jobs[i];
      try {
        j.made = tlx::jit::compile(*j.kernel->trace(j.target), how);
      } catch (const std::exception& e) {
        j.error = e.what();
      }
      std::lock_guard lock(printing);
      std::fprintf(stderr, "[%zu/%zu] %s %s%s\n", ++done, jobs.size(), j.kernel->full_name().c_str(), j.target.c_str(), j.error.empty() ? "" : " FAILED");
      for (const std::string& advisory : j.made.used.advisories) std::fprintf(stderr, "  %s\n", advisory.c_str());
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < std::min(workers, jobs.size()); ++i) pool.emplace_back(work);
  work();
  for (std::thread& t : pool) t.join();
}

json file_entry(const std::string& folder, const std::string& name, const std::string& bytes) {
  tlx::write_file(folder + "/" + name, bytes);
  return {{"path", name}, {"bytes", bytes.size()}, {"sha256", tlx::sha256_hex(bytes)}};
}

// Files of one kernel: its own manifest, which tlx_load() takes as it is, PTX, and the cubin if there is one.
json kernel_row(const std::string& folder, const job& j) {
  const std::string stem = j.kernel->full_name() + "." + j.target, manifest = tlx::device::to_manifest(j.made);
  json row{{"name", j.made.name}, {"kernel", j.kernel->name}, {"configuration", j.kernel->configuration}, {"target", j.target}};
  row["files"]["manifest"] = file_entry(folder, stem + ".json", manifest);
  row["files"]["ptx"] = file_entry(folder, stem + ".ptx", j.made.code.ptx);
  if (!j.made.code.cubin.empty()) row["files"]["cubin"] = file_entry(folder, stem + ".cubin", j.made.code.cubin);
  row["manifest"] = json::parse(manifest);
  return row;
}

int run(const arguments& given) {
  const std::vector<std::string> targets = targets_of(given);
  const std::regex wanted = pattern_of(given);
  const std::string folder = given.text("--out");
  if (folder.empty()) throw usage_error("expected --out DIR");
  const bool assemble = !given.has("--ptx-only");
  const auto workers = static_cast<size_t>(given.number("--jobs", std::max(1U, std::thread::hardware_concurrency()), 1));
  const std::string assembler = assemble ? tlx::jit::assembler_version() : "";  // before anything is compiled: its absence is an error

  const std::vector<kernel_entry> kernels = kernels_of(given);
  std::vector<job> jobs;
  for (const kernel_entry& k : kernels)
    if (std::regex_search(k.full_name(), wanted))
      for (const std::string& target : targets) jobs.push_back({&k, target, {}, {}});
  if (jobs.empty()) throw usage_error(cat("--kernels \"", given.text("--kernels"), "\" matches none of ", kernels.size(), " kernels; tlxc list shows them"));
  std::sort(jobs.begin(), jobs.end(), [](const job& a, const job& b) { return std::pair(a.kernel->full_name(), a.target) < std::pair(b.kernel->full_name(), b.target); });

  compile_all(jobs, {.assemble = assemble, .line_info = given.has("--line-info"), .use_cache = false}, workers);
  size_t failed = 0, advisories = 0;
  for (const job& j : jobs) {
    failed += !j.error.empty();
    advisories += j.made.used.advisories.size();
    if (!j.error.empty()) std::fprintf(stderr, "%s\n", j.error.c_str());
  }
  if (failed)
    raise(tlx::user_error({.id = "build-failed", .what = cat(failed, " of ", jobs.size(), " kernels did not compile"), .because = "a bundle is whole or it is not written",
                           .fix = {"mend the kernels named above", "leave them out with --kernels"}}));
  if (advisories && given.has("--deny-advisories"))
    raise(tlx::user_error({.id = "advisory-refused", .what = cat("the assembler made ", advisories, " remarks (above)"), .because = "--deny-advisories was given",
                           .fix = {"change the tile or the register budget", "leave out --deny-advisories"}}));

  std::filesystem::create_directories(folder);
  json bundle{{"format", "tlx-bundle"}, {"version", 1}, {"tlx", tlx::version_string}, {"llvm", tlx::codegen::llvm_version()}, {"assembler", assemble ? json(assembler) : json(nullptr)},
              {"targets", targets}, {"kernels", json::array()}};
  for (const job& j : jobs) bundle["kernels"].push_back(kernel_row(folder, j));
  tlx::write_file(folder + "/manifest.json", bundle.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  std::fprintf(stderr, "%zu kernels in %s\n", jobs.size(), folder.c_str());
  return 0;
}

}  // namespace

verb build_verb() {
  return {"build",
          "",
          0,
          0,
          "compiles registered kernels ahead of time: cubins, PTX and a manifest.json",
          "For each kernel and target: NAME.TARGET.cubin, NAME.TARGET.ptx and NAME.TARGET.json, which tlx_load() of tlx/c.h takes.",
          {{"--arch", "T,T", "targets: " "sm_90a, sm_100a, sm_103a, sm_100f"},
           {"--out", "DIR", "where the files go"},
           {"--from", "LIB.so", "kernels of this shared library instead of tlxc's own; may be repeated"},
           {"--kernels", "REGEX", "only kernels whose name matches (POSIX extended, anywhere in the name)"},
           {"--jobs", "N", "compilations side by side (as many as there are processors)"},
           {"--ptx-only", nullptr, "no cubins; needs no assembler"},
           {"--line-info", nullptr, "source lines for profilers; the paths of the sources are then in the files"},
           {"--deny-advisories", nullptr, "remarks of the assembler that cost speed are errors"}},
          run};
}

}  // namespace tlxc
