// Where ptxas is, and which one it is.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "jit/builtin_assembler.hpp"
#include "jit/process.hpp"
#include "jit/toolkit.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::jit {

namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_program(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// The sub-folders of `folder` whose names start with `prefix`, newest version (by name) first.
std::vector<std::string> children(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> out;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename();
    if (name.rfind(prefix, 0) == 0) out.push_back(at->path());
  }
  std::sort(out.rbegin(), out.rend());
  return out;
}

// A toolkit (bin/), an unpacked wheel (nvidia/cu13/bin, nvidia/cuda_nvcc/bin), or a virtual environment that holds wheels.
void add_toolkit_folder(const std::string& root, std::vector<std::string>& out) {
  out.push_back(root + "/bin");
  std::vector<std::string> packages{root};
  for (const std::string& python : children(root + "/lib", "python")) packages.push_back(python + "/site-packages");
  for (const std::string& package : packages) {
    for (const std::string& release : children(package + "/nvidia", "cu")) out.push_back(release + "/bin");
  }
}

std::vector<std::string> folders() {
  std::vector<std::string> out;
  std::istringstream path(environment("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    if (!folder.empty()) out.push_back(folder);
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string root = environment(name); !root.empty()) out.push_back(root + "/bin");
  }
  for (const std::string& root : children("/usr/local", "cuda")) out.push_back(root + "/bin");
  if (const std::string root = environment("TLX_TOOLKIT"); !root.empty()) add_toolkit_folder(root, out);
  return out;
}

[[noreturn]] void missing(const std::string& what) {
  raise(device_error({.id = "assembler-missing",
                      .what = what,
                      .because = "PTX becomes a cubin through NVIDIA's ptxas",
                      .fix = {"install the CUDA toolkit (its nvcc package is enough), or the Python wheel nvidia-cuda-nvcc and set TLX_TOOLKIT to its folder",
                              "or set TLX_PTXAS to a ptxas program"}}));
}

}  // namespace

std::string find_tool(const std::string& name) {
  if (environment("TLX_HIDE_TOOLKIT") == "1") return {};
  for (const std::string& folder : folders()) {
    if (is_program(folder + "/" + name)) return folder + "/" + name;
  }
  return {};
}

std::string assembler_path() {
  if (environment("TLX_HIDE_TOOLKIT") == "1") missing("TLX_HIDE_TOOLKIT=1 hides every ptxas");
  if (const std::string named = environment("TLX_PTXAS"); !named.empty()) {
    if (!is_program(named)) missing("TLX_PTXAS names \"" + named + "\", which is no program");
    return named;
  }
  if (const std::string found = find_tool("ptxas"); !found.empty()) return found;
  missing("no ptxas in PATH, CUDA_HOME, CUDA_PATH, /usr/local/cuda* or TLX_TOOLKIT");
}

namespace {
bool has_ptxas() {
  try {
    assembler_path();
    return true;
  } catch (const device_error&) {  // [assembler-missing]: the others are asked
    return false;
  }
}
}  // namespace

bool uses_builtin_assembler() {
  if (!has_builtin_assembler()) return false;
  const char* wish = std::getenv("TLX_ASSEMBLER");
  return (wish && std::string_view(wish) == "builtin") || !has_ptxas();
}

bool has_assembler() { return has_builtin_assembler() || has_ptxas(); }

std::string assembler_version() {
  if (uses_builtin_assembler()) return builtin_assembler_version();
  static std::mutex guard;
  static std::map<std::string, std::string> known;  // by path and time of last change
  const std::string path = assembler_path();
  struct stat info {};
  stat(path.c_str(), &info);
  const std::string key = cat(path, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, " ", info.st_size);
  {
    std::lock_guard lock(guard);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const process_result ran = run_process({path, "--version"}, 60);
  const size_t at = ran.output.find(", V");
  if (ran.exit_code != 0 || at == std::string::npos) {
    missing(cat("\"", path, " --version\" does not answer like ptxas: ", ran.started ? ran.output.substr(0, 200) : ran.problem));
  }
  const size_t end = ran.output.find_first_not_of("0123456789.", at + 3);
  const std::string version = "ptxas " + ran.output.substr(at + 3, end == std::string::npos ? end : end - at - 3);
  std::lock_guard lock(guard);
  return known[key] = version;
}

ptx_version newest_ptx(const std::string& version_of_assembler) {
  struct row {
    int cuda_major, cuda_minor;
    ptx_version ptx;
  };
  // PTX ISA, release notes. Not a formula: 12.5 and 12.6 share one version and 12.7 comes before 12.8's.
  static constexpr row rows[] = {{11, 8, {7, 8}}, {12, 0, {8, 0}}, {12, 1, {8, 1}}, {12, 2, {8, 2}}, {12, 3, {8, 3}}, {12, 4, {8, 4}}, {12, 5, {8, 5}},
                                 {12, 6, {8, 5}}, {12, 7, {8, 6}}, {12, 8, {8, 7}}, {12, 9, {8, 8}}, {13, 0, {9, 0}}, {13, 1, {9, 1}}};
  int major = 0, minor = 0;
  const size_t digit = version_of_assembler.find_first_of("0123456789");
  if (digit != std::string::npos) std::sscanf(version_of_assembler.c_str() + digit, "%d.%d", &major, &minor);
  ptx_version best = rows[0].ptx;
  for (const row& r : rows) {
    if (r.cuda_major < major || (r.cuda_major == major && r.cuda_minor <= minor)) best = r.ptx;
  }
  return best;
}

}  // namespace tlx::jit
