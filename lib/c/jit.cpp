// The compiler through the C interface.
#include "c/handles.hpp"
#include "tlx/c_jit.h"
#include "tlx/ir/text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/jit/compile.hpp"

struct tlx_compiled {
  std::string manifest, ptx, cubin;
};

using namespace tlx;
using namespace tlx::c;

namespace {

const char* text_of(const tlx_compiled* compiled, std::string tlx_compiled::*part, size_t* bytes) {
  if (bytes) *bytes = compiled ? (compiled->*part).size() : 0;
  return compiled ? (compiled->*part).c_str() : "";
}

}  // namespace

extern "C" {

tlx_status tlx_compile(const char* text, size_t bytes, const tlx_compile_options* how, tlx_compiled** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    need(text, "ir");
    const tlx_compile_options options = how ? *how : tlx_compile_options{};
    const auto traced = ir::parse(std::string(text, bytes));
    ir::verify_or_raise(*traced, "reading the text");
    device::kernel made = jit::compile(*traced, {.assemble = !options.ptx_only, .line_info = !options.no_line_info, .use_cache = !options.no_cache});
    *out = new tlx_compiled{device::to_manifest(made), std::move(made.code.ptx), std::move(made.code.cubin)};
  });
}

void tlx_compiled_release(tlx_compiled* compiled) { delete compiled; }
const char* tlx_compiled_manifest(const tlx_compiled* compiled, size_t* bytes) { return text_of(compiled, &tlx_compiled::manifest, bytes); }
const char* tlx_compiled_ptx(const tlx_compiled* compiled, size_t* bytes) { return text_of(compiled, &tlx_compiled::ptx, bytes); }
const void* tlx_compiled_cubin(const tlx_compiled* compiled, size_t* bytes) { return text_of(compiled, &tlx_compiled::cubin, bytes); }

}  // extern "C"
