#include "runtime/driver.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::runtime {

std::vector<std::string> driver_symbols() {
  return {
#define TLX_DRIVER_NAME(member, symbol, arguments) #symbol,
      TLX_DRIVER_TABLE(TLX_DRIVER_NAME)
#undef TLX_DRIVER_NAME
  };
}

namespace {

std::atomic<bool> in_forked_child{false};

template <class Function>
void find(void* library, const std::string& path, const char* symbol, Function& out) {
  void* found = dlsym(library, symbol);
  if (!found) {
    raise(device_error({.id = "driver-too-old",
                        .what = cat("the CUDA driver library ", path, " has no ", symbol),
                        .because = "tlx needs the interface of CUDA 12.0 (driver 525) or newer",
                        .fix = {"update the NVIDIA driver"}}));
  }
  out = reinterpret_cast<Function>(found);
}

void load(driver& out) {
  const char* named = std::getenv("TLX_DRIVER");
  const std::string path = named && *named ? named : "libcuda.so.1";
  // Never closed: the driver keeps threads and exit handlers of its own.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    raise(device_error({.id = "driver-missing",
                        .what = cat("the CUDA driver library cannot be loaded: ", why ? why : path),
                        .because = "a GPU is used through libcuda.so.1, which comes with the NVIDIA driver",
                        .fix = {"install the NVIDIA driver (in a container: start it with GPU access)",
                                "or run on the simulator: choose machine \"sim:sm_90a\" or \"sim:sm_100a\""}}));
  }
#define TLX_DRIVER_FIND(member, symbol, arguments) find(library, path, #symbol, out.member);
  TLX_DRIVER_TABLE(TLX_DRIVER_FIND)
#undef TLX_DRIVER_FIND
  const cu::result code = out.init(0);
  if (code == cu::error_stub_library) {
    raise(device_error({.id = "driver-missing",
                        .what = cat(path, " is the stub that toolkits ship for linking, not a driver"),
                        .because = "the stub was found before the real library",
                        .fix = {"take the toolkit's stubs folder out of LD_LIBRARY_PATH and install the NVIDIA driver"}}));
  }
  if (code != cu::success && code != cu::error_no_device) {
    raise(device_error({.id = "driver-failed",
                        .what = "cuInit returned " + describe(out, code),
                        .because = "the NVIDIA driver is installed but does not start",
                        .fix = {"run nvidia-smi and follow what it says; library and kernel module must be of one version"}}));
  }
}

}  // namespace

bool forked() { return in_forked_child.load(std::memory_order_relaxed); }

void refuse_after_fork() {
  if (!forked()) return;
  raise(device_error({.id = "driver-after-fork",
                      .what = "this process was forked from one that had started the CUDA driver",
                      .because = "the driver's state, its memory and kernels belong to the parent; NVIDIA's driver does not work in the child",
                      .fix = {"use the GPU after the fork only, or start a new program (exec, or \"spawn\" in Python's multiprocessing)"}}));
}

const driver& the_driver() {
  static driver table;
  static std::atomic<bool> ready{false};
  static std::mutex guard;
  refuse_after_fork();
  if (ready.load(std::memory_order_acquire)) return table;
  std::lock_guard lock(guard);
  if (!ready) {
    driver fresh;
    load(fresh);
    pthread_atfork(nullptr, nullptr, [] { in_forked_child.store(true, std::memory_order_relaxed); });
    table = fresh;
    ready.store(true, std::memory_order_release);
  }
  return table;
}

std::string describe(const driver& d, cu::result code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (d.error_name(code, &name) != cu::success || !name) name = "unknown error";
  if (d.error_text(code, &text) != cu::success || !text) text = "no description";
  return cat(name, " (", text, ", ", code, ")");
}

void check(const driver& d, cu::result code, const char* call, const std::string& context) {
  if (code == cu::success) return;
  raise(device_error({.id = "driver-call-failed",
                      .what = cat(call, " returned ", describe(d, code)),
                      .because = "the driver refused the call, or an earlier kernel failed and the context is lost",
                      .fix = {"look for the first error of this process; run the kernel on the simulator to see its fault"},
                      .context = context}));
}

}  // namespace tlx::runtime
