// Damaged text of every kind that tlx reads: an error with an id, never a crash, a hang or an exception of another kind. Seeds are fixed; a failure names
// its seed, and the same seed gives the same text again.
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/compare/programs.hpp"
#include "tests/compare/values.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/jit/cache.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/jit/stored.hpp"
#include "tlx/sim/case.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
namespace fs = std::filesystem;

namespace {

bool full() { return std::getenv("TLX_TEST_FULL") != nullptr; }

/// Where words begin and end: names, numbers, and every other byte alone.
std::vector<std::pair<std::size_t, std::size_t>> words_of(const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%'; };
    if (letter(text[at]))
      while (end < text.size() && letter(text[end])) ++end;
    if (!std::isspace(static_cast<unsigned char>(text[at]))) all.emplace_back(at, end);
    at = end;
  }
  return all;
}

std::string damaged(const std::string& from, compare::generator& g) {
  static const std::vector<std::string> odd = {"0", "-1", "1", "99999999999999999999", "4294967296", "-9223372036854775808", "0x", "1e999", "nan", "", "\"", "\\", "{", "}", "[", "]", "(", ")", "<", ">", ",", ";", ":", ".", "%", "%r0", "@", "//", "/*", "null", "true", "\0x"};
  std::string text = from;
  for (int edits = g.between(1, 4); edits > 0 && !text.empty(); --edits) {
    const auto words = words_of(text);
    if (words.empty()) break;
    const auto [a, b] = g.of(words);
    const auto [c, d] = g.of(words);
    switch (g.between(0, 8)) {
      case 0: text.erase(a, b - a); break;
      case 1: text.replace(a, b - a, g.of(odd)); break;
      case 2: text.replace(a, b - a, text.substr(c, d - c)); break;
      case 3: text.insert(a, text.substr(c, d - c) + " "); break;
      case 4: text[static_cast<std::size_t>(g.word() % text.size())] = static_cast<char>(g.word()); break;
      case 5: text.resize(a); break;
      case 6: text.erase(a, std::min<std::size_t>(text.size() - a, static_cast<std::size_t>(g.between(1, 60)))); break;
      case 7: text.insert(a, text.substr(c, std::min<std::size_t>(text.size() - c, static_cast<std::size_t>(g.between(1, 200))))); break;
      default: {  // another number
        std::string number = text.substr(a, b - a);
        if (!number.empty() && std::isdigit(static_cast<unsigned char>(number[0]))) text.replace(a, b - a, std::to_string(g.between(0, 70000)));
        break;
      }
    }
  }
  return text;
}

/// Feeds damaged texts to `read` in a child process. `read` may raise user_error; what else happens is a failure with its seed.
/// TLX_FUZZ_SEED=N runs that seed alone, in this process, and prints its text.
void fuzz(const std::string& what, const std::vector<std::string>& corpus, int count, const std::function<void(const std::string&, std::uint64_t)>& read, unsigned seconds_each = 10) {
  const auto text_for = [&](std::uint64_t seed) {
    compare::generator g(seed * 31 + 7);
    return damaged(corpus[static_cast<std::size_t>(seed) % corpus.size()], g);
  };
  if (const char* only = std::getenv("TLX_FUZZ_SEED")) {
    const std::uint64_t seed = std::strtoull(only, nullptr, 10);
    std::printf("%s\n", text_for(seed).c_str());
    std::fflush(stdout);
    CHECK_NOTHROW(try { read(text_for(seed), seed); } catch (const user_error& e) { std::printf("%s\n", e.what()); });
    return;
  }
  int failures = 0;
  for (std::uint64_t next = 0; next < static_cast<std::uint64_t>(count);) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      for (const int caught : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTERM}) signal(caught, SIG_DFL);  // doctest's own handlers would report this child
      for (std::uint64_t seed = next; seed < static_cast<std::uint64_t>(count); ++seed) {
        if (::write(ends[1], &seed, sizeof seed) != sizeof seed) _exit(9);
        const std::string text = text_for(seed);
        alarm(seconds_each);
        try {
          read(text, seed);
        } catch (const user_error&) {
        } catch (const std::exception& e) {
          std::fprintf(stderr, "%s, seed %llu: %s\n", what.c_str(), static_cast<unsigned long long>(seed), e.what());
          _exit(8);
        }
        alarm(0);
      }
      _exit(0);
    }
    close(ends[1]);
    std::uint64_t seed = next, current = next;
    while (::read(ends[0], &seed, sizeof seed) == sizeof seed) current = seed;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (WIFSIGNALED(status)) FAIL_CHECK(std::string(cat(what, ", seed ", current, ": ", strsignal(WTERMSIG(status)), WTERMSIG(status) == SIGALRM ? " (a hang)" : "")));
    else FAIL_CHECK(std::string(cat(what, ", seed ", current, ": an exception of another kind, or exit ", WEXITSTATUS(status))));
    next = current + 1;
    if (++failures == 10) return;
  }
}

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

std::vector<std::string> cases_with(const std::string& file) {
  std::vector<std::string> all;
  std::vector<fs::path> folders;
  for (const auto& folder : fs::directory_iterator(std::string(TLX_SOURCE_DIR) + "/tests/sim/cases"))
    if (folder.is_directory()) folders.push_back(folder.path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders)
    if (fs::exists(folder / file)) all.push_back(text_of((folder / file).string()));
  return all;
}

struct folder {
  fs::path at;
  folder() {
    std::string name = (fs::temp_directory_path() / "tlx-fuzz-XXXXXX").string();
    if (mkdtemp(name.data())) at = name;
  }
  ~folder() {
    std::error_code none;
    if (!at.empty()) fs::remove_all(at, none);
  }
};

}  // namespace

TEST_CASE("damaged IR text is an error, and what is still a kernel prints and parses again") {
  std::vector<std::string> corpus;
  for (std::uint64_t seed = 1; seed < 6; ++seed) corpus.push_back(ir::print(*compare::random_program(seed, "sm_90a").traced));
  fuzz("IR text", corpus, full() ? 40000 : 2500, [](const std::string& text, std::uint64_t) {
    const auto k = ir::parse(text);
    const std::string printed = ir::print(*k);
    if (ir::print(*ir::parse(printed)) != printed) throw std::logic_error("what was parsed prints as something that parses to something else");
    (void)ir::verify(*k);
  });
}

TEST_CASE("damaged PTX is an error") {
  std::vector<std::string> corpus;
  for (std::string& text : cases_with("kernel.ptx"))
    if (text.size() < 40000) corpus.push_back(std::move(text));
  REQUIRE(corpus.size() > 5);
  fuzz("PTX", corpus, full() ? 20000 : 1200, [](const std::string& text, std::uint64_t seed) {
    const auto machine = sim::open(seed % 2 ? "sm_90a" : "sm_100a");
    (void)machine->load({.ptx = text, .cubin = {}});
  });
}

TEST_CASE("a damaged case.json gives exit 3 or a result") {
  const folder temporary;
  const std::string source = std::string(TLX_SOURCE_DIR) + "/tests/sim/cases/right_bulk_load";
  fs::copy(source, temporary.at / "case", fs::copy_options::recursive);
  fuzz("case.json", {text_of(source + "/case.json")}, full() ? 8000 : 500, [&](const std::string& text, std::uint64_t) {
    std::ofstream(temporary.at / "case" / "case.json") << text;
    const sim::case_result r = sim::run_case((temporary.at / "case").string());
    if (r.exit < 0 || r.exit > 3) throw std::logic_error("an exit code that is not documented");
    if (r.exit == 3 && r.message.empty()) throw std::logic_error("exit 3 without a message");
  });
}

TEST_CASE("a damaged manifest is an error, and so are its formulas") {
  std::vector<std::string> corpus;
  for (std::uint64_t seed = 1; seed < 4; ++seed) corpus.push_back(device::to_manifest(jit::describe(*compare::random_program(seed, "sm_90a").traced)));
  const compare::program p = compare::random_program(1, "sm_90a");
  fuzz("manifest", corpus, full() ? 40000 : 4000, [](const std::string& text, std::uint64_t) {
    const device::kernel k = device::from_manifest(text);
    std::vector<device::value> values;
    for (const device::parameter& q : k.parameters) {
      if (q.what == device::parameter::kind::view) values.push_back(device::view_value(1 << 20, std::vector<std::int64_t>(static_cast<std::size_t>(std::clamp(q.rank, 0, 8)), 8)));
      else values.push_back({.bytes = std::vector<std::byte>(static_cast<std::size_t>(std::clamp(q.element_bits / 8, 1, 8)))});
    }
    try {
      (void)device::bind(k, values, {.name = "any", .target = "sm_90a", .processor_count = 4, .shared_bytes_per_block = 232448, .memory_bytes = 1 << 30});
    } catch (const internal_error& e) {  // what binder.hpp promises for a kernel that contradicts itself
      if (e.id() != "formula-malformed" && e.id() != "map-malformed") throw;
    }
  });
}

TEST_CASE("damaged cache files are misses") {
  const folder temporary;
  setenv("TLX_CACHE", (temporary.at / "kernels").c_str(), 1);
  const auto traced = compare::random_program(2, "sm_90a").traced;
  // Children make the entries: the cache of this process stays closed.
  fuzz("cache entry", {"x"}, full() ? 2000 : 200, [&](const std::string&, std::uint64_t seed) {
    compare::generator g(seed);
    jit::disk_cache cache({.folder = (temporary.at / "plain").string()});
    const std::string key = jit::cache_key().add("number", std::to_string(seed % 5)).hex(), bytes = "a kernel of some length, number " + std::to_string(seed % 5);
    cache.store(key, bytes);
    for (const auto& file : fs::recursive_directory_iterator(temporary.at / "plain"))
      if (file.is_regular_file()) {
        std::string text = text_of(file.path().string());
        if (g.between(0, 3) == 0) text = text.substr(0, static_cast<std::size_t>(g.word() % (text.size() + 1)));
        else if (!text.empty()) text[static_cast<std::size_t>(g.word() % text.size())] = static_cast<char>(g.word());
        std::ofstream(file.path(), std::ios::binary) << text;
      }
    const auto found = cache.find(key);
    if (found && *found != bytes) throw std::logic_error("the cache gave what was not stored");
    if (!found) cache.store(key, bytes);
  });
  fuzz("stored kernel", {"x"}, full() ? 400 : 40, [&](const std::string&, std::uint64_t seed) {
    compare::generator g(seed);
    const jit::compile_options how{.assemble = false, .line_info = false};
    const std::string ptx = jit::compile(*traced, how).code.ptx;
    for (const auto& file : fs::recursive_directory_iterator(temporary.at / "kernels"))
      if (file.is_regular_file()) {
        std::string text = damaged(text_of(file.path().string()), g);
        std::ofstream(file.path(), std::ios::binary) << text;
      }
    if (jit::compile(*traced, how).code.ptx != ptx) throw std::logic_error("a damaged entry changed the kernel");
  });
  setenv("TLX_CACHE", "off", 1);
}
