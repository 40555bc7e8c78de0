#include "jit/builtin_assembler.hpp"

#include "tlx/support/text.hpp"

#ifdef TLX_HAS_NVPTXCOMPILER
#include <nvPTXCompiler.h>

#include <vector>

namespace tlx::jit {

namespace {
struct compiler {
  nvPTXCompilerHandle handle = nullptr;
  ~compiler() {
    if (handle) nvPTXCompilerDestroy(&handle);
  }
};

template <class Size, class Get>
std::string fetch(nvPTXCompilerHandle handle, Size size_of, Get get) {
  std::size_t size = 0;
  if (size_of(handle, &size) != NVPTXCOMPILE_SUCCESS || size == 0) return {};
  std::string text(size + 1, '\0');
  if (get(handle, text.data()) != NVPTXCOMPILE_SUCCESS) return {};
  text.resize(size);
  return text;
}
}  // namespace

bool has_builtin_assembler() { return true; }

std::string builtin_assembler_version() {
  unsigned major = 0, minor = 0;
  nvPTXCompilerGetVersion(&major, &minor);
  return cat("nvPTXCompiler ", major, ".", minor);
}

builtin_result run_builtin_assembler(const std::string& ptx, const std::string& target, const assemble_options& how) {
  builtin_result out;
  compiler c;
  if (nvPTXCompilerCreate(&c.handle, ptx.size(), ptx.c_str()) != NVPTXCOMPILE_SUCCESS) {
    out.log = "nvPTXCompilerCreate failed";
    return out;
  }
  std::vector<std::string> words{"--gpu-name=" + target, cat("--opt-level=", how.optimization), "--verbose"};
  words.insert(words.end(), how.extra.begin(), how.extra.end());
  std::vector<const char*> options;
  for (const std::string& word : words) options.push_back(word.c_str());
  out.ok = nvPTXCompilerCompile(c.handle, static_cast<int>(options.size()), options.data()) == NVPTXCOMPILE_SUCCESS;
  out.log = fetch(c.handle, nvPTXCompilerGetInfoLogSize, nvPTXCompilerGetInfoLog) + fetch(c.handle, nvPTXCompilerGetErrorLogSize, nvPTXCompilerGetErrorLog);
  if (out.ok) out.cubin = fetch(c.handle, nvPTXCompilerGetCompiledProgramSize, [](nvPTXCompilerHandle h, char* to) { return nvPTXCompilerGetCompiledProgram(h, to); });
  return out;
}

}  // namespace tlx::jit

#else

namespace tlx::jit {
bool has_builtin_assembler() { return false; }
std::string builtin_assembler_version() { return {}; }
builtin_result run_builtin_assembler(const std::string&, const std::string&, const assemble_options&) { return {}; }
}  // namespace tlx::jit

#endif
