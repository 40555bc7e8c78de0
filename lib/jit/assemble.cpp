// Runs ptxas on files in a private folder and turns its answer into an assembly or an error.
#include "tlx/jit/assemble.hpp"

#include <fstream>
#include <future>

#include "jit/assembler_log.hpp"
#include "jit/builtin_assembler.hpp"
#include "jit/process.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::jit {

namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

std::string ptx_line(const std::string& ptx, int number) {
  std::istringstream lines(ptx);
  std::string line;
  for (int i = 0; i < number; ++i) {
    if (!std::getline(lines, line)) return {};
  }
  return line.substr(0, 200);
}

[[noreturn]] void rejected(const std::string& ptx, const std::string& target, const std::string& log) {
  const assembler_log read = read_assembler_log(log);
  const std::string who = assembler_version();
  if (const size_t at = log.find("Unsupported .version "); at != std::string::npos) {
    const ptx_version newest = newest_ptx(who);
    raise(user_error({.id = "assembler-too-old",
                      .what = cat("the PTX is of a newer version than ", who, " takes: ", log.substr(at, log.find('\n', at) - at)),
                      .because = cat("this release takes PTX up to ", newest.major, ".", newest.minor, " (", assembler_path(), ")"),
                      .fix = {"install a newer CUDA toolkit, or emit PTX of that version"}}));
  }
  std::string text = join(read.errors.empty() ? std::vector<std::string>{log.substr(0, 500)} : read.errors, "\n    ");
  for (int line : lines_named(read.errors)) text += cat("\n    line ", line, ": ", ptx_line(ptx, line));
  raise(user_error({.id = "assembler-rejected",
                    .what = cat(who, " refuses the PTX for ", target, ":\n    ", text),
                    .because = "generated PTX should always assemble; hand-written PTX must fit the target",
                    .fix = {"if tlx made this PTX, report it with the PTX", "check that the target has the instruction"}}));
}

}  // namespace

namespace {

assembly read_result(std::string cubin, std::string log_text, const std::string& version) {
  assembly out;
  out.cubin = std::move(cubin);
  assembler_log log = read_assembler_log(log_text);
  out.used = std::move(log.all);
  out.used.assembler = version;
  out.entries = std::move(log.entries);
  for (auto& [name, used] : out.entries) used.assembler = version;
  out.log = std::move(log_text);
  return out;
}

}  // namespace

assembly assemble(const std::string& ptx, const std::string& target, const assemble_options& how) {
  if (uses_builtin_assembler()) {
    builtin_result made = run_builtin_assembler(ptx, target, how);
    if (!made.ok) rejected(ptx, target, made.log);
    return read_result(std::move(made.cubin), std::move(made.log), builtin_assembler_version());
  }
  const std::string program = assembler_path();
  auto version = std::async(std::launch::async, assembler_version);  // a process of its own the first time: beside the work
  const temporary_folder folder;
  const std::string input = folder.path() + "/kernel.ptx", output = folder.path() + "/kernel.cubin";
  write_file(input, ptx);
  std::vector<std::string> command{program, "-arch=" + target, cat("-O", how.optimization), "-v", "-o", output, input};
  command.insert(command.end(), how.extra.begin(), how.extra.end());
  process_result ran = run_process(command, how.timeout_seconds);
  replace_all(ran.output, folder.path() + "/", "");
  if (!ran.started) {
    raise(device_error({.id = "assembler-missing",
                        .what = cat("cannot start ", program, ": ", ran.problem),
                        .because = "PTX becomes a cubin through NVIDIA's ptxas",
                        .fix = {"check the file, or set TLX_PTXAS to another ptxas"}}));
  }
  if (ran.timed_out) {
    raise(device_error({.id = "assembler-timeout",
                        .what = cat(version.get(), " did not finish ", ptx.size(), " bytes of PTX within ", how.timeout_seconds, " s"),
                        .because = "a compile must end",
                        .fix = {"raise timeout_seconds", "use smaller tiles: very large unrolled kernels take minutes"}}));
  }
  if (ran.exit_code < 0) {
    raise(device_error({.id = "assembler-crashed",
                        .what = cat(version.get(), " was ended by signal ", ran.signal, " on ", ptx.size(), " bytes of PTX: ", ran.output.substr(0, 300)),
                        .because = "the assembler failed, or the system killed it (signal 9: often for memory)",
                        .fix = {"try again with more memory, another toolkit or a lower optimization"}}));
  }
  if (ran.exit_code != 0) rejected(ptx, target, ran.output);
  return read_result(read_file(output), std::move(ran.output), version.get());
}

}  // namespace tlx::jit
