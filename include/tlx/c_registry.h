/* How a shared library offers its kernels to tlxc: each by name, as IR text for a target. Text, so that the library needs no compiler inside and the
 * tool's LLVM meets no other. A library that includes tlx/dsl/registry.hpp exports these functions; nobody writes them by hand. */
#ifndef TLX_C_REGISTRY_H
#define TLX_C_REGISTRY_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TLX_REGISTRY_API __attribute__((visibility("default")))
#define TLX_REGISTRY_VERSION 1

/* Receives text once; it is valid during the call only. */
typedef void (*tlx_registry_text)(void* user, const char* text, size_t bytes);

/* TLX_REGISTRY_VERSION of the library. Ask this first. */
TLX_REGISTRY_API int tlx_registry_version(void);
TLX_REGISTRY_API size_t tlx_registry_count(void);

/* "gemm_bf16" and "128x256_nt"; the configuration is "" for a kernel without a list of them. NULL for an index that is not there. */
TLX_REGISTRY_API const char* tlx_registry_name(size_t index);
TLX_REGISTRY_API const char* tlx_registry_configuration(size_t index);

/* 0: `text` gets the IR of the kernel for `target` ("sm_90a"). 1: it gets an error message for the kernel's author; 2: one for tlx's authors.
 * Calls for different kernels may run at the same time. */
TLX_REGISTRY_API int tlx_registry_trace(size_t index, const char* target, tlx_registry_text text, void* user);

#ifdef __cplusplus
}
#endif
#endif
