// Ahead of time: every kernel for every target, into one bundle, into plain files, or both. The same input gives the same bytes.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <regex>
#include <thread>

#include "folder.hpp"
#include "header.hpp"
#include "object.hpp"
#include "progress.hpp"
#include "source.hpp"
#include "tlx/bundle/write.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/version.hpp"
#include "verbs.hpp"

namespace tlxc {

using tlx::cat;

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

// What is written, and how it is called.
struct outputs {
  std::string folder, bundle, header, object, name_space, symbol, machine;
  tlx::bundle::package about;
  tlx::bundle::write_options how;
};

outputs outputs_of(const arguments& given, const std::string& assembler) {
  outputs to{.folder = given.text("--out"), .bundle = given.text("-o"), .header = given.text("--header"), .object = given.text("--object")};
  if (to.folder.empty() && to.bundle.empty() && to.object.empty()) throw usage_error("expected -o FILE.tlxb, --object FILE.o or --out DIR");
  if (!to.header.empty() && to.bundle.empty() && to.object.empty()) throw usage_error("--header describes a bundle: expected -o FILE.tlxb or --object FILE.o with it");
  to.about = {given.text("--package"), given.text("--package-version"), tlx::version_string, tlx::codegen::llvm_version(), assembler};
  to.name_space = given.text("--namespace", identifier(to.about.name, "kernels"));
  to.symbol = to.object.empty() ? "" : to.name_space + "_bundle";
  to.machine = given.text("--machine", host_machine());
  to.how = {.cubin = !assembler.empty(), .ptx = given.has("--ptx") || assembler.empty(), .compress = !given.has("--no-compression")};
  if (identifier(to.name_space, "") != to.name_space) throw usage_error(cat("--namespace \"", to.name_space, "\" is no identifier"));
  return to;
}

// Each worker takes the next job; what a job raises is kept with it.
double compile_all(std::vector<job>& jobs, const tlx::jit::compile_options& how, size_t workers) {
  std::atomic<size_t> next{0};
  progress shown(jobs.size());
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      job& j = jobs[i];
      try {
        j.made = tlx::jit::compile(*j.kernel->trace(j.target), how);
      } catch (const std::exception& e) {
        j.error = e.what();
      }
      shown.step(cat(j.kernel->full_name(), " ", j.target, j.error.empty() ? "" : " FAILED"), j.made.used.advisories);
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < std::min(workers, jobs.size()); ++i) pool.emplace_back(work);
  work();
  for (std::thread& t : pool) t.join();
  return shown.seconds();
}

std::vector<job> jobs_of(const std::vector<kernel_entry>& kernels, const arguments& given, const std::vector<std::string>& targets) {
  const std::regex wanted = pattern_of(given);
  std::vector<job> jobs;
  for (const kernel_entry& k : kernels)
    if (std::regex_search(k.full_name(), wanted))
      for (const std::string& target : targets) jobs.push_back({&k, target, {}, {}});
  if (jobs.empty()) throw usage_error(cat("--kernels \"", given.text("--kernels"), "\" matches none of ", kernels.size(), " kernels; tlxc list shows them"));
  std::sort(jobs.begin(), jobs.end(), [](const job& a, const job& b) { return std::pair(a.kernel->full_name(), a.target) < std::pair(b.kernel->full_name(), b.target); });
  return jobs;
}

void refuse_failures(const std::vector<job>& jobs, bool deny_advisories) {
  size_t failed = 0, advisories = 0;
  std::vector<std::pair<std::string, std::vector<std::string>>> errors;  // each text once, with the targets that it is about
  for (const job& j : jobs) {
    failed += !j.error.empty();
    advisories += j.made.used.advisories.size();
    if (j.error.empty()) continue;
    const auto same = std::find_if(errors.begin(), errors.end(), [&](const auto& e) { return e.first == j.error; });
    if (same == errors.end()) errors.push_back({j.error, {j.target}});
    else same->second.push_back(j.target);
  }
  for (const auto& [text, targets] : errors) std::fprintf(stderr, "for %s: %s\n", tlx::join(targets, ", ").c_str(), text.c_str());
  if (failed)
    raise(tlx::user_error({.id = "build-failed", .what = cat(failed, " of ", jobs.size(), " kernels did not compile"), .because = "a bundle is whole or it is not written",
                           .fix = {"mend the kernels named above", "leave them out with --kernels"}}));
  if (advisories && deny_advisories)
    raise(tlx::user_error({.id = "advisory-refused", .what = cat("the assembler made ", advisories, " remarks (above)"), .because = "--deny-advisories was given",
                           .fix = {"change the tile or the register budget", "leave out --deny-advisories"}}));
}

void write_bundle(const outputs& to, const std::vector<tlx::bundle::compiled>& kernels) {
  const std::string bytes = tlx::bundle::pack(to.about, kernels, to.how);
  const tlx::bundle::bundle made = tlx::bundle::bundle::of_memory(bytes.data(), bytes.size());
  if (!to.bundle.empty()) tlx::write_file(to.bundle, bytes);
  if (!to.object.empty()) tlx::write_file(to.object, object_file(bytes, to.symbol, to.machine));
  if (!to.header.empty()) tlx::write_file(to.header, bundle_header(made, kernels, to.name_space, to.symbol));
  std::uint64_t cubins = 0, stored = 0;
  for (const tlx::bundle::entry& e : made.entries()) cubins += e.cubin.bytes, stored += e.cubin.stored_bytes;
  std::fprintf(stderr, "bundle of %zu bytes: cubins of %llu bytes stored in %llu; digest %s\n", bytes.size(), static_cast<unsigned long long>(cubins), static_cast<unsigned long long>(stored), made.sha256().c_str());
}

int run(const arguments& given) {
  const std::vector<std::string> targets = targets_of(given);
  const bool assemble = !given.has("--ptx-only") && (tlx::jit::has_assembler() || !given.has("--or-ptx"));
  const auto workers = static_cast<size_t>(given.number("--jobs", std::max(1U, std::thread::hardware_concurrency()), 1));
  outputs_of(given, "");  // a wrong command line is told before anything is asked of the machine
  const outputs to = outputs_of(given, assemble ? tlx::jit::assembler_version() : "");  // before anything is compiled: its absence is an error

  const std::vector<kernel_entry> kernels = kernels_of(libraries_of(given), targets);
  std::vector<job> jobs = jobs_of(kernels, given, targets);
  const double seconds = compile_all(jobs, {.assemble = assemble, .line_info = given.has("--line-info"), .use_cache = given.has("--cache")}, workers);
  refuse_failures(jobs, given.has("--deny-advisories"));

  std::vector<tlx::bundle::compiled> made;
  for (job& j : jobs) made.push_back({j.kernel->name, j.kernel->configuration, std::move(j.made)});
  if (!to.folder.empty()) write_folder(to.folder, made, targets, to.about);
  if (!to.bundle.empty() || !to.object.empty()) write_bundle(to, made);
  std::fprintf(stderr, "%zu kernels in %.1f s: %.0f ms each, %zu at a time\n", jobs.size(), seconds, 1000 * seconds / static_cast<double>(jobs.size()), std::min(workers, jobs.size()));
  return 0;
}

}  // namespace

verb build_verb() {
  return {"build",
          "[LIB.so|PROGRAM ...]",
          0,
          1000,
          "compiles registered kernels ahead of time: into one bundle, into plain cubins, or both",
          "Kernels are those that the shared libraries and programs register, or tlxc's own. -o and --object write a bundle, which tlx::bundle and tlx/c.h open;\n"
          "--out writes NAME.TARGET.cubin, .ptx and .json (which tlx_load() of tlx/c.h takes), manifest.json, and kernels.h for people who launch by themselves.",
          {{"--arch", "T,T", "targets: " "sm_90a, sm_100a, sm_103a, sm_100f"},
           {"-o", "FILE.tlxb", "the bundle"},
           {"--header", "FILE.hpp", "C++ for the bundle: its digest, and a struct of typed arguments a kernel"},
           {"--object", "FILE.o", "the bundle as an object file to link in; --header declares it"},
           {"--namespace", "NAME", "of the header, and the symbol NAME_bundle (the package's name, or kernels)"},
           {"--machine", "M", "of the object file: x86_64 or aarch64 (that of tlxc)"},
           {"--package", "NAME", "name of the bundle"},
           {"--package-version", "V", "its version"},
           {"--ptx", nullptr, "PTX beside the cubins: for the simulator, and for drivers that refuse a cubin"},
           {"--no-compression", nullptr, "for readers that were built without zstd"},
           {"--out", "DIR", "plain files"},
           {"--from", "LIB.so", "the same as LIB.so alone; may be repeated"},
           {"--kernels", "REGEX", "only kernels whose name matches (POSIX extended, anywhere in the name)"},
           {"--jobs", "N", "compilations side by side (as many as there are processors)"},
           {"--ptx-only", nullptr, "no cubins; needs no assembler"},
           {"--or-ptx", nullptr, "where there is no assembler, PTX alone instead of an error: a GPU's driver assembles it"},
           {"--cache", nullptr, "take kernels from the cache where they are in it, and put them there"},
           {"--line-info", nullptr, "source lines for profilers; the paths of the sources are then in the files"},
           {"--deny-advisories", nullptr, "remarks of the assembler that cost speed are errors"}},
          run};
}

}  // namespace tlxc
