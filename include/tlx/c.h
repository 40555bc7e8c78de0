/* The C interface: another language loads a compiled kernel (its manifest and its cubin or PTX) and launches it on its own pointers and stream.
 *
 * Every call that can fail returns a tlx_status; the text of the calling thread's last failure is tlx_last_error(). No exception leaves a call.
 * Calls may come from any thread. Handles are released once, in any order: a kernel keeps its machine alive. */
#ifndef TLX_C_H
#define TLX_C_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TLX_API __attribute__((visibility("default")))

typedef enum tlx_status {
  TLX_OK = 0,
  TLX_USER_ERROR = 1,    /* an argument or a file is wrong */
  TLX_DEVICE_ERROR = 2,  /* driver, GPU or launch */
  TLX_SIM_ERROR = 3,     /* the simulator found a fault in the kernel */
  TLX_INTERNAL_ERROR = 4 /* a bug in tlx, or no memory */
} tlx_status;

typedef struct tlx_machine tlx_machine;
typedef struct tlx_kernel tlx_kernel;

/* "0.1.0" */
TLX_API const char* tlx_version(void);

/* Text and id ("pointer-misaligned") of this thread's last failed call; "" before the first. Valid until its next failed call. */
TLX_API const char* tlx_last_error(void);
TLX_API const char* tlx_last_error_id(void);

/* "gpu:0" (in the device's primary context), "gpu:current" (in the calling thread's current context, which must outlive the machine) or "sim:sm_90a",
 * "sim:sm_100a", ... */
TLX_API tlx_status tlx_open(const char* name, tlx_machine** out);
TLX_API void tlx_close(tlx_machine* machine); /* NULL is nothing to do */

typedef struct tlx_machine_info {
  const char* name;   /* valid as long as the machine */
  const char* target; /* "sm_90a" */
  int32_t processor_count;
  int32_t shared_bytes_per_block;
  uint64_t memory_bytes;
} tlx_machine_info;
TLX_API tlx_status tlx_describe(const tlx_machine* machine, tlx_machine_info* out);

/* Memory, for callers that have none of their own. Addresses are the machine's. */
TLX_API tlx_status tlx_allocate(tlx_machine* machine, size_t bytes, uint64_t* out);
TLX_API tlx_status tlx_free(tlx_machine* machine, uint64_t address);
TLX_API tlx_status tlx_write(tlx_machine* machine, uint64_t to, const void* from, size_t bytes);
TLX_API tlx_status tlx_read(tlx_machine* machine, void* to, uint64_t from, size_t bytes);
TLX_API tlx_status tlx_wait(tlx_machine* machine); /* all work done, or what went wrong: "kernel-gave-up" and "requirement-failed" of watched kernels too */
/* A GPU's waits fail with "wait-limit" after so many seconds and name the kernels that have not finished; nothing is stopped. 0: no limit. */
TLX_API tlx_status tlx_set_wait_limit(tlx_machine* machine, double seconds);

/* `code` is a cubin (an ELF file) or PTX text. The bytes are copied. */
TLX_API tlx_status tlx_load(tlx_machine* machine, const char* manifest, size_t manifest_bytes, const void* code, size_t code_bytes, tlx_kernel** out);
TLX_API void tlx_release(tlx_kernel* kernel); /* NULL is nothing to do; wait for its launches first */

/* Bundles: what `tlxc build -o FILE.tlxb` writes (docs/shipping.md). `sha256`: 64 digits, the one bundle that will do; NULL: any. Calls on an open bundle may come
 * from any thread. The memory of tlx_bundle_open_memory() stays as it is until the bundle is closed. */
typedef struct tlx_bundle tlx_bundle;
TLX_API tlx_status tlx_bundle_open(const char* path, const char* sha256, tlx_bundle** out);
TLX_API tlx_status tlx_bundle_open_memory(const void* bytes, size_t count, const char* sha256, tlx_bundle** out);
TLX_API void tlx_bundle_close(tlx_bundle* bundle); /* NULL is nothing to do; kernels that were loaded stay */

typedef struct tlx_bundle_info { /* texts are valid as long as the bundle */
  const char *package, *package_version, *sha256;
  const void* signature; /* NULL without one */
  size_t signature_bytes;
  size_t entry_count;
} tlx_bundle_info;
TLX_API tlx_status tlx_bundle_describe(const tlx_bundle* bundle, tlx_bundle_info* out);

typedef struct tlx_bundle_entry { /* texts are valid as long as the bundle */
  const char *name, *configuration, *target;
} tlx_bundle_entry;
TLX_API tlx_status tlx_bundle_entry_at(const tlx_bundle* bundle, size_t index, tlx_bundle_entry* out);

/* The kernel for this machine, read, checked and loaded. `configuration` may be NULL where the kernel has only one. */
TLX_API tlx_status tlx_load_from(tlx_machine* machine, const tlx_bundle* bundle, const char* name, const char* configuration, tlx_kernel** out);

typedef struct tlx_parameter_info {
  const char* name; /* valid as long as the kernel */
  const char* element;
  int32_t element_bits;
  int32_t is_view;
  int32_t rank;
} tlx_parameter_info;
TLX_API const char* tlx_kernel_name(const tlx_kernel* kernel);
TLX_API size_t tlx_parameter_count(const tlx_kernel* kernel);
TLX_API tlx_status tlx_parameter(const tlx_kernel* kernel, size_t index, tlx_parameter_info* out);

/* One argument. A view: address, rank, extents, and strides in elements (NULL: dense), both outermost first. A scalar: its bytes. */
typedef struct tlx_value {
  uint64_t address;
  int32_t rank;
  const int64_t* extents;
  const int64_t* strides;
  const void* scalar; /* NULL for a view */
  size_t scalar_bytes;
} tlx_value;

/* Checks the arguments and launches; asynchronous on a GPU. `stream` is a CUstream, 0 the default stream. An empty grid is nothing to do. */
TLX_API tlx_status tlx_launch(tlx_kernel* kernel, const tlx_value* arguments, size_t count, uint64_t stream);

#ifdef __cplusplus
}
#endif
#endif
