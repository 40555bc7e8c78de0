#include "fake_driver.hpp"
#include "tlx/support/watch_record.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace cu = tlx::runtime::cu;

namespace {

std::mutex guard;
std::map<std::string, int, std::less<>> counts, failures;  // asked by name without making a string: tests count allocations
int retained = 0;
int primary_storage = 0;
std::uint64_t watch_words[2];  // the variables of a watched module: state, address of the records
thread_local std::vector<cu::context> stack;
void (*look)(const cu::launch_config*, void**) = nullptr;
std::atomic<bool> capturing{false};
std::atomic<std::uintptr_t> recorded_launches{0};
thread_local cu::graph_node last_node = nullptr;
cu::context stream_owner = nullptr;
int peers = 1;
constexpr unsigned long long host_memory = 0x1000, far_memory = 0xff00000000000000;  // the ends of what kernels reach

cu::context primary() { return reinterpret_cast<cu::context>(&primary_storage); }

// Counts the call; the code to return.
int called(const char* symbol) {
  std::lock_guard lock(guard);
  const auto counted = counts.find(std::string_view(symbol));
  if (counted != counts.end()) ++counted->second;
  else counts.emplace(symbol, 1);
  const auto found = failures.find(std::string_view(symbol));
  return found == failures.end() ? 0 : found->second;
}

// Calls that need a context say so, as the driver does.
int in_context(const char* symbol) {
  const int code = called(symbol);
  return code ? code : stack.empty() ? 201 : 0;
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default"))) int
#define COUNTED(symbol)                    \
  if (int code = called(#symbol)) return code
#define IN_CONTEXT(symbol)                 \
  if (int code = in_context(#symbol)) return code

FAKE cuInit(unsigned) { return called("cuInit"); }
FAKE cuDriverGetVersion(int* v) { *v = 13000; return 0; }
FAKE cuGetErrorName(int code, const char** t) { *t = code == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_OTHER"; return 0; }
FAKE cuGetErrorString(int, const char** t) { *t = "a fake error"; return 0; }
FAKE cuDeviceGetCount(int* n) { *n = 1; COUNTED(cuDeviceGetCount); return 0; }
FAKE cuDeviceGet(int* d, int) { *d = 0; return 0; }
FAKE cuDeviceGetName(char* name, int, int) { std::strcpy(name, "fake"); return 0; }
FAKE cuDeviceGetAttribute(int* out, int what, int) {
  *out = what == 16 ? 132 : what == 75 ? 9 : what == 76 ? 0 : what == 97 ? 232448 : -1;
  return 0;
}
FAKE cuDeviceTotalMem_v2(size_t* bytes, int) { *bytes = 1000; return 0; }
FAKE cuDevicePrimaryCtxRetain(cu::context* out, int) { ++retained; *out = primary(); return 0; }
FAKE cuDevicePrimaryCtxRelease_v2(int) { --retained; return 0; }
FAKE cuCtxGetCurrent(cu::context* out) { *out = stack.empty() ? nullptr : stack.back(); return called("cuCtxGetCurrent"); }
FAKE cuCtxPushCurrent_v2(cu::context c) { COUNTED(cuCtxPushCurrent_v2); stack.push_back(c); return 0; }
FAKE cuCtxPopCurrent_v2(cu::context* out) { *out = stack.back(); stack.pop_back(); return 0; }
FAKE cuCtxGetDevice(int* out) { *out = stack.empty() || stack.back() == primary() ? 0 : 1; return in_context("cuCtxGetDevice"); }
FAKE cuDeviceCanAccessPeer(int* out, int, int) { *out = peers; return called("cuDeviceCanAccessPeer"); }
FAKE cuCtxEnablePeerAccess(cu::context, unsigned) { return in_context("cuCtxEnablePeerAccess"); }
FAKE cuCtxSynchronize() { return in_context("cuCtxSynchronize"); }
FAKE cuMemGetInfo_v2(size_t* free_bytes, size_t* total) { *free_bytes = 10; *total = 1000; return 0; }
FAKE cuMemAlloc_v2(unsigned long long* out, size_t bytes) {
  IN_CONTEXT(cuMemAlloc_v2);
  if (bytes == 0) return 1;
  *out = reinterpret_cast<unsigned long long>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return 0;
}
FAKE cuMemFree_v2(unsigned long long where) { IN_CONTEXT(cuMemFree_v2); std::free(reinterpret_cast<void*>(where)); return 0; }
FAKE cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t n) { IN_CONTEXT(cuMemcpyHtoD_v2); std::memcpy(reinterpret_cast<void*>(to), from, n); return 0; }
FAKE cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t n) { IN_CONTEXT(cuMemcpyDtoH_v2); std::memcpy(to, reinterpret_cast<void*>(from), n); return 0; }
FAKE cuMemsetD8_v2(unsigned long long to, unsigned char v, size_t n) { IN_CONTEXT(cuMemsetD8_v2); std::memset(reinterpret_cast<void*>(to), v, n); return 0; }
FAKE cuMemHostAlloc(void** out, size_t bytes, unsigned) {
  IN_CONTEXT(cuMemHostAlloc);
  *out = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return 0;
}
FAKE cuMemFreeHost(void* where) { IN_CONTEXT(cuMemFreeHost); std::free(where); return 0; }
FAKE cuMemHostGetDevicePointer_v2(unsigned long long* out, void* where, unsigned) { *out = reinterpret_cast<unsigned long long>(where); return in_context("cuMemHostGetDevicePointer_v2"); }
FAKE cuModuleGetGlobal_v2(unsigned long long* out, size_t* bytes, cu::module, const char* name) {
  IN_CONTEXT(cuModuleGetGlobal_v2);
  const bool state = std::strcmp(name, tlx::watch_state_name) == 0;
  *out = reinterpret_cast<unsigned long long>(state ? &watch_words[0] : &watch_words[1]);
  *bytes = 8;
  return 0;
}
FAKE cuEventQuery(cu::event) { return in_context("cuEventQuery"); }
FAKE cuStreamIsCapturing(cu::stream, int* status) { *status = 0; return in_context("cuStreamIsCapturing"); }
FAKE cuPointerGetAttribute(void* out, int what, unsigned long long where) {
  IN_CONTEXT(cuPointerGetAttribute);
  const bool far = where >= far_memory;  // of another GPU
  if (what == 9) {
    const int ordinal = far ? 1 : 0;
    std::memcpy(out, &ordinal, sizeof ordinal);
    return where < host_memory ? 1 : 0;
  }
  if (where < host_memory || far) return 1;
  if (what == 11) where &= ~255ull;  // allocations of 256 bytes
  if (what == 12) where = 256;
  std::memcpy(out, &where, 8);
  return 0;
}
FAKE cuModuleLoadDataEx(cu::module* out, const void*, unsigned count, int* options, void** values) {
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 3) std::strcpy(static_cast<char*>(values[i]), "info line\nptxas info : (C7508) Potential Performance Loss\n");
  }
  const int code = in_context("cuModuleLoadDataEx");
  for (unsigned i = 0; i < count && code; ++i) {
    if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "ptxas line 7: syntax error");
  }
  *out = reinterpret_cast<cu::module>(&counts);
  return code;
}
FAKE cuModuleUnload(cu::module) { return in_context("cuModuleUnload"); }
FAKE cuModuleGetFunction(cu::function* out, cu::module, const char* name) {
  IN_CONTEXT(cuModuleGetFunction);
  *out = reinterpret_cast<cu::function>(&failures);
  return std::strcmp(name, "absent") == 0 ? 500 : 0;
}
FAKE cuFuncGetAttribute(int* out, int what, cu::function) {
  *out = what == 0 ? 1024 : what == 1 ? 512 : what == 8 ? 48 * 1024 - 512 : 40;
  return in_context("cuFuncGetAttribute");
}
FAKE cuFuncSetAttribute(cu::function, int, int value) { IN_CONTEXT(cuFuncSetAttribute); return value > 232448 - 512 ? 1 : 0; }
FAKE cuLaunchKernelEx(const cu::launch_config* how, cu::function, void** arguments, void**) {
  IN_CONTEXT(cuLaunchKernelEx);
  if (capturing) ++recorded_launches;
  if (look) look(how, arguments);
  return 0;
}
FAKE cuTensorMapEncodeTiled(cu::tensor_map* out, int element, unsigned rank, void* base, const std::uint64_t* extents, const std::uint64_t* strides,
                            const unsigned* box, const unsigned*, int, int swizzle, int promotion, int fill) {
  COUNTED(cuTensorMapEncodeTiled);
  *out = {};
  out->opaque[0] = reinterpret_cast<std::uint64_t>(base);
  out->opaque[1] = extents[0];
  out->opaque[2] = rank > 1 ? extents[1] : 0;
  out->opaque[3] = rank > 1 ? strides[0] : 0;
  out->opaque[4] = box[0];
  out->opaque[5] = static_cast<std::uint64_t>(element | swizzle << 8 | promotion << 16 | fill << 24);
  return 0;
}
FAKE cuStreamGetCaptureInfo_v2(cu::stream, int* status, std::uint64_t* id, cu::graph* graph, const cu::graph_node** last, size_t* count) {
  IN_CONTEXT(cuStreamGetCaptureInfo_v2);
  std::lock_guard lock(guard);
  *status = capturing ? 1 : 0;
  *id = 9;
  *graph = reinterpret_cast<cu::graph>(&counts);
  last_node = reinterpret_cast<cu::graph_node>(recorded_launches.load());
  *last = &last_node;
  *count = recorded_launches > 0 ? 1 : 0;
  return 0;
}
FAKE cuGraphExecKernelNodeSetParams(cu::graph_exec, cu::graph_node which, const cu::kernel_node* to) {
  IN_CONTEXT(cuGraphExecKernelNodeSetParams);
  const cu::launch_config how{to->grid_x, to->grid_y, to->grid_z, to->block_x, to->block_y, to->block_z, to->shared_bytes, reinterpret_cast<cu::stream>(which), nullptr, 0};
  if (look) look(&how, to->arguments);
  return 0;
}
FAKE cuStreamWaitEvent(cu::stream, cu::event, unsigned) { return in_context("cuStreamWaitEvent"); }
FAKE cuStreamGetCtx(cu::stream, cu::context* out) { *out = stream_owner ? stream_owner : primary(); return called("cuStreamGetCtx"); }
FAKE cuStreamCreate(cu::stream* out, unsigned) { IN_CONTEXT(cuStreamCreate); *out = reinterpret_cast<cu::stream>(&counts); return 0; }
FAKE cuStreamDestroy_v2(cu::stream) { return in_context("cuStreamDestroy_v2"); }
FAKE cuStreamSynchronize(cu::stream) { return in_context("cuStreamSynchronize"); }
FAKE cuEventCreate(cu::event* out, unsigned) { IN_CONTEXT(cuEventCreate); *out = reinterpret_cast<cu::event>(&counts); return 0; }
FAKE cuEventDestroy_v2(cu::event) { return in_context("cuEventDestroy_v2"); }
FAKE cuEventRecord(cu::event, cu::stream) { return in_context("cuEventRecord"); }
FAKE cuEventSynchronize(cu::event) { return in_context("cuEventSynchronize"); }
FAKE cuEventElapsedTime(float* ms, cu::event, cu::event) { *ms = 1.5f; return in_context("cuEventElapsedTime"); }
FAKE cuStreamBeginCapture_v2(cu::stream, int) { capturing = true; recorded_launches = 0; return in_context("cuStreamBeginCapture_v2"); }
FAKE cuStreamEndCapture(cu::stream, cu::graph* out) { capturing = false; *out = reinterpret_cast<cu::graph>(&counts); return in_context("cuStreamEndCapture"); }
FAKE cuGraphDestroy(cu::graph) { return called("cuGraphDestroy"); }
FAKE cuGraphInstantiateWithFlags(cu::graph_exec* out, cu::graph, unsigned long long) {
  IN_CONTEXT(cuGraphInstantiateWithFlags);
  *out = reinterpret_cast<cu::graph_exec>(&counts);
  return 0;
}
FAKE cuGraphExecDestroy(cu::graph_exec) { return called("cuGraphExecDestroy"); }
FAKE cuGraphLaunch(cu::graph_exec, cu::stream) { return in_context("cuGraphLaunch"); }

extern "C" __attribute__((visibility("default"))) fake_control fake_driver_control() {
  return {[](const char* symbol) { std::lock_guard lock(guard); return counts[symbol]; },
          [] { std::lock_guard lock(guard); counts.clear(); failures.clear(); look = nullptr; stream_owner = nullptr; peers = 1; },
          [](const char* symbol, int code) { std::lock_guard lock(guard); failures[symbol] = code; },
          [] { return static_cast<int>(stack.size()); },
          primary,
          [] { return retained; },
          [](void (*f)(const cu::launch_config*, void**)) { look = f; },
          [] { return watch_words; },
          [](cu::context c) { stream_owner = c; },
          [](int can) { peers = can; }};
}
