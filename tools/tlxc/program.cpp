#include "program.hpp"

#include <elf.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "tlx/c_registry.h"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

extern char** environ;

namespace tlxc {

using tlx::cat;

namespace {

// A file of our own in the temporary folder, removed at the end of the scope.
class answer_file {
 public:
  answer_file() : path_((std::filesystem::temp_directory_path() / "tlx-kernels-XXXXXX").string()) {
    const int descriptor = ::mkstemp(path_.data());
    if (descriptor < 0) raise(tlx::user_error({.id = "file-unwritable", .what = cat("cannot make \"", path_, "\": ", std::strerror(errno)), .fix = {"check TMPDIR and the space in it"}}));
    ::close(descriptor);
  }
  ~answer_file() { std::remove(path_.c_str()); }
  answer_file(const answer_file&) = delete;
  answer_file& operator=(const answer_file&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

[[noreturn]] void failed(const std::string& path, const std::string& what) {
  raise(tlx::user_error({.id = "kernel-program-failed", .what = cat("\"", path, "\" was started to hand over its kernels: ", what), .because = "main() begins with tlx::hand_over_kernels() and returns 0 when it is true",
                         .fix = {"make that call the first line of main()", "register the kernels in a shared library"}}));
}

std::string answer_of(const std::string& path, const std::vector<std::string>& targets) {
  const answer_file to;
  std::vector<std::string> variables{"TLX_KERNELS_TO=" + to.path(), "TLX_KERNELS_FOR=" + tlx::join(targets, ",")};
  for (char** v = environ; *v; ++v) variables.emplace_back(*v);
  std::vector<char*> environment;
  for (std::string& v : variables) environment.push_back(v.data());
  environment.push_back(nullptr);
  std::string file = std::filesystem::absolute(path).string();
  char* words[] = {file.data(), nullptr};
  pid_t child = 0;
  if (const int code = ::posix_spawn(&child, file.c_str(), nullptr, nullptr, words, environment.data()); code != 0) failed(path, cat("it does not start: ", std::strerror(code)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed(path, WIFEXITED(status) ? cat("it ended with exit code ", WEXITSTATUS(status)) : cat("signal ", WTERMSIG(status), " ended it"));
  return tlx::read_file(to.path());
}

}  // namespace

bool is_program(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Elf64_Ehdr head{};
  if (!in.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (head.e_type == ET_EXEC) return true;
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment{};
    in.seekg(static_cast<std::streamoff>(head.e_phoff + i * sizeof segment));
    if (in.read(reinterpret_cast<char*>(&segment), sizeof segment) && segment.p_type == PT_INTERP) return true;  // libraries name no loader
  }
  return false;
}

void add_program(const std::string& path, const std::vector<std::string>& targets, std::vector<kernel_entry>& to) {
  if (tlx::read_file(path).find("TLX_KERNELS_TO") == std::string::npos)  // else it would run as if its user had started it
    raise(tlx::user_error({.id = "kernel-library-foreign", .what = cat("the program \"", path, "\" does not hand over kernels, and was not started"),
                           .because = "a program offers its kernels through tlx::hand_over_kernels() of tlx/dsl/registry.hpp",
                           .fix = {"make `if (tlx::hand_over_kernels()) return 0;` the first line of main()", "register the kernels in a shared library"}}));
  std::istringstream in(answer_of(path, targets));
  std::string word;
  int version = 0;
  if (!(in >> word >> version) || word != "tlx-kernels" || version != TLX_REGISTRY_VERSION)
    failed(path, cat("it wrote ", word.empty() ? "nothing" : cat("\"", word, " ", version, "\""), ", tlxc reads \"tlx-kernels ", TLX_REGISTRY_VERSION, "\""));
  struct answer {
    int status = 0;
    std::string text;
  };
  std::vector<std::pair<kernel_entry, std::map<std::string, answer>>> all;
  std::string name, configuration, target;
  int status = 0;
  size_t bytes = 0;
  while (in >> name >> configuration >> target >> status >> bytes) {
    in.get();
    std::string text(bytes, '\0');
    if (!in.read(text.data(), static_cast<std::streamsize>(bytes))) failed(path, "its answer ends in the middle");
    if (target == "-") all.push_back({{name, configuration == "-" ? "" : configuration, {}}, {}});
    else if (!all.empty()) all.back().second[target] = {status, std::move(text)};
  }
  for (auto& [entry, answers] : all) {
    const auto kept = answers;
    entry.trace_text = [kept](const std::string& wanted, std::string* text) {
      const auto found = kept.find(wanted);
      if (found == kept.end()) return *text = "the program was not asked for " + wanted, 2;
      return *text = found->second.text, found->second.status;
    };
    to.push_back(std::move(entry));
  }
}

}  // namespace tlxc
