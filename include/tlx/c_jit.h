/* The compiler behind the C interface, in the library tlx_jit: IR text in, manifest, PTX and cubin out. Kernels are recorded by a program or library that
 * holds the language and no compiler, and handed over as text (tlx/c_registry.h), so a process may have an LLVM of its own beside this one. */
#ifndef TLX_C_JIT_H
#define TLX_C_JIT_H
#include "tlx/c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tlx_compiled tlx_compiled;

typedef struct tlx_compile_options {
  int32_t ptx_only;     /* no cubin; needs no assembler */
  int32_t no_cache;     /* neither looked up nor stored on disk */
  int32_t no_line_info; /* no source lines for profilers */
} tlx_compile_options;

/* `ir` is the text of one kernel, for the target that it names. `how` may be NULL: all zero. From any thread. */
TLX_API tlx_status tlx_compile(const char* ir, size_t bytes, const tlx_compile_options* how, tlx_compiled** out);
TLX_API void tlx_compiled_release(tlx_compiled* compiled); /* NULL is nothing to do */

/* Valid as long as `compiled`; `bytes` may be NULL. Manifest and PTX are texts that end with a zero byte; the cubin has 0 bytes when there is none. tlx_load() takes them. */
TLX_API const char* tlx_compiled_manifest(const tlx_compiled* compiled, size_t* bytes);
TLX_API const char* tlx_compiled_ptx(const tlx_compiled* compiled, size_t* bytes);
TLX_API const void* tlx_compiled_cubin(const tlx_compiled* compiled, size_t* bytes);

#ifdef __cplusplus
}
#endif
#endif
