// The CUDA driver, loaded at run time: one table of entry points and one way to report a failing call.
#pragma once
#include <string>
#include <vector>

#include "runtime/driver_types.hpp"

namespace tlx::runtime {

// X(member, symbol, arguments). Symbols carry their version, so the binary interface is fixed whatever driver is installed.
#define TLX_DRIVER_TABLE(X)                                                                                                     \
  X(init, cuInit, (unsigned flags))                                                                                             \
  X(driver_version, cuDriverGetVersion, (int* version))                                                                         \
  X(error_name, cuGetErrorName, (cu::result code, const char** text))                                                           \
  X(error_text, cuGetErrorString, (cu::result code, const char** text))                                                         \
  X(device_count, cuDeviceGetCount, (int* count))                                                                               \
  X(device_get, cuDeviceGet, (cu::device * which, int ordinal))                                                                 \
  X(device_name, cuDeviceGetName, (char* name, int bytes, cu::device which))                                                    \
  X(device_attribute, cuDeviceGetAttribute, (int* out, int attribute, cu::device which))                                        \
  X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, cu::device which))                                                     \
  X(context_retain, cuDevicePrimaryCtxRetain, (cu::context * out, cu::device which))                                            \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (cu::device which))                                                          \
  X(context_current, cuCtxGetCurrent, (cu::context * out))                                                                      \
  X(context_push, cuCtxPushCurrent_v2, (cu::context which))                                                                     \
  X(context_pop, cuCtxPopCurrent_v2, (cu::context * out))                                                                       \
  X(context_synchronize, cuCtxSynchronize, ())                                                                                  \
  X(context_device, cuCtxGetDevice, (cu::device * out))                                                                         \
  X(can_access_peer, cuDeviceCanAccessPeer, (int* out, cu::device from, cu::device to))                                         \
  X(enable_peer, cuCtxEnablePeerAccess, (cu::context to, unsigned flags))                                                       \
  X(memory_info, cuMemGetInfo_v2, (size_t * free, size_t* total))                                                               \
  X(memory_allocate, cuMemAlloc_v2, (cu::device_pointer * out, size_t bytes))                                                   \
  X(memory_release, cuMemFree_v2, (cu::device_pointer where))                                                                   \
  X(copy_to_device, cuMemcpyHtoD_v2, (cu::device_pointer to, const void* from, size_t bytes))                                   \
  X(copy_to_host, cuMemcpyDtoH_v2, (void* to, cu::device_pointer from, size_t bytes))                                           \
  X(fill_bytes, cuMemsetD8_v2, (cu::device_pointer to, unsigned char value, size_t count))                                      \
  X(host_allocate, cuMemHostAlloc, (void** out, size_t bytes, unsigned flags))                                                  \
  X(host_release, cuMemFreeHost, (void* where))                                                                                 \
  X(host_address, cuMemHostGetDevicePointer_v2, (cu::device_pointer * out, void* where, unsigned flags))                        \
  X(pointer_attribute, cuPointerGetAttribute, (void* out, int attribute, cu::device_pointer where))                             \
  X(module_load, cuModuleLoadDataEx, (cu::module * out, const void* image, unsigned count, int* options, void** values))        \
  X(module_unload, cuModuleUnload, (cu::module which))                                                                          \
  X(module_function, cuModuleGetFunction, (cu::function * out, cu::module in, const char* name))                                \
  X(module_global, cuModuleGetGlobal_v2, (cu::device_pointer * out, size_t* bytes, cu::module in, const char* name))            \
  X(function_get, cuFuncGetAttribute, (int* out, int attribute, cu::function which))                                            \
  X(function_set, cuFuncSetAttribute, (cu::function which, int attribute, int value))                                           \
  X(launch, cuLaunchKernelEx, (const cu::launch_config* how, cu::function what, void** arguments, void** extra))                \
  X(encode_tiled, cuTensorMapEncodeTiled,                                                                                       \
    (cu::tensor_map * out, int element, unsigned rank, void* base, const std::uint64_t* extents, const std::uint64_t* strides,  \
     const unsigned* box, const unsigned* element_strides, int interleave, int swizzle, int promotion, int fill))               \
  X(stream_create, cuStreamCreate, (cu::stream * out, unsigned flags))                                                          \
  X(stream_destroy, cuStreamDestroy_v2, (cu::stream which))                                                                     \
  X(stream_synchronize, cuStreamSynchronize, (cu::stream which))                                                                \
  X(stream_context, cuStreamGetCtx, (cu::stream which, cu::context* out))                                                       \
  X(stream_wait_event, cuStreamWaitEvent, (cu::stream which, cu::event for_it, unsigned flags))                                 \
  X(capture_info, cuStreamGetCaptureInfo_v2,                                                                                    \
    (cu::stream which, int* status, std::uint64_t* id, cu::graph* graph, const cu::graph_node** last, size_t* last_count))      \
  X(event_create, cuEventCreate, (cu::event * out, unsigned flags))                                                             \
  X(event_destroy, cuEventDestroy_v2, (cu::event which))                                                                        \
  X(event_record, cuEventRecord, (cu::event which, cu::stream on))                                                              \
  X(event_synchronize, cuEventSynchronize, (cu::event which))                                                                   \
  X(event_elapsed, cuEventElapsedTime, (float* ms, cu::event from, cu::event to))                                               \
  X(event_query, cuEventQuery, (cu::event which))                                                                               \
  X(stream_capturing, cuStreamIsCapturing, (cu::stream which, int* status))                                                     \
  X(capture_begin, cuStreamBeginCapture_v2, (cu::stream on, int mode))                                                          \
  X(capture_end, cuStreamEndCapture, (cu::stream on, cu::graph * out))                                                          \
  X(graph_destroy, cuGraphDestroy, (cu::graph which))                                                                           \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (cu::graph_exec * out, cu::graph from, unsigned long long flags))           \
  X(graph_exec_destroy, cuGraphExecDestroy, (cu::graph_exec which))                                                             \
  X(graph_set_kernel, cuGraphExecKernelNodeSetParams, (cu::graph_exec in, cu::graph_node which, const cu::kernel_node* to))     \
  X(graph_launch, cuGraphLaunch, (cu::graph_exec which, cu::stream on))

struct driver {
#define TLX_DRIVER_MEMBER(member, symbol, arguments) cu::result(*member) arguments = nullptr;
  TLX_DRIVER_TABLE(TLX_DRIVER_MEMBER)
#undef TLX_DRIVER_MEMBER
};

/// Names of all symbols in the table.
std::vector<std::string> driver_symbols();

/// True in a child that was forked after the driver was loaded: its state belongs to the parent, and no call may be made.
bool forked();

/// The loaded and initialised driver. TLX_DRIVER in the environment names another library than libcuda.so.1.
/// Raises device_error [driver-missing], [driver-too-old] (which symbol is absent) or [driver-failed]; a later call tries again. [driver-after-fork] in a child.
const driver& the_driver();

/// Raises device_error [driver-after-fork] in a forked child.
void refuse_after_fork();

/// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string describe(const driver& d, cu::result code);

/// Raises device_error [driver-call-failed] with the call, the error and `context` unless `code` is success.
void check(const driver& d, cu::result code, const char* call, const std::string& context = {});

}  // namespace tlx::runtime
