#include "bench/device/card.hpp"

#include "bench/device/library.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bench {

namespace {

void check(int code, const char* call) {
  if (code != 0)
    raise(device_error({.id = "bench-driver", .what = cat(call, " failed with code ", code), .because = "the benchmark needs it", .fix = {"look the code up in the driver's documentation (CUresult)"}}));
}

}  // namespace

struct card::state {
  library driver{{"libcuda.so.1", "libcuda.so"}};
  library management{{"libnvidia-ml.so.1"}};
  int (*copy)(std::uint64_t, std::uint64_t, std::size_t, void*) = nullptr;
  int (*module_load)(void**, const void*) = nullptr;
  int (*get_function)(void**, void*, const char*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) = nullptr;
  int (*release)(int) = nullptr;
  int device = 0;

  void* nvml_device = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*max_clock)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*version)(char*, unsigned) = nullptr;

  double read_clock(int (*get)(void*, int, unsigned*), int which) const {
    unsigned mhz = 0;
    return nvml_device && get && get(nvml_device, which, &mhz) == 0 ? mhz : 0;
  }
};

card::card(int ordinal) : state_(std::make_unique<state>()) {
  state& s = *state_;
  if (!s.driver.opened()) raise(device_error({.id = "bench-driver", .what = "no CUDA driver: " + s.driver.why(), .because = "device benchmarks run on a GPU", .fix = {"run on a machine with an NVIDIA driver"}}));
  int (*init)(unsigned) = nullptr;
  int (*get_device)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  const bool all = s.driver.find(init, "cuInit") && s.driver.find(get_device, "cuDeviceGet") && s.driver.find(retain, "cuDevicePrimaryCtxRetain") && s.driver.find(set_current, "cuCtxSetCurrent") &&
                   s.driver.find(s.copy, "cuMemcpyDtoDAsync_v2") && s.driver.find(s.module_load, "cuModuleLoadData") && s.driver.find(s.get_function, "cuModuleGetFunction") &&
                   s.driver.find(s.launch, "cuLaunchKernel") && s.driver.find(s.release, "cuDevicePrimaryCtxRelease_v2");
  check(all ? 0 : -1, "looking up the driver's functions");
  check(init(0), "cuInit");
  check(get_device(&s.device, ordinal), "cuDeviceGet");
  void* context = nullptr;
  check(retain(&context, s.device), "cuDevicePrimaryCtxRetain");
  check(set_current(context), "cuCtxSetCurrent");

  int (*nvml_init)() = nullptr;
  int (*by_index)(unsigned, void**) = nullptr;
  if (s.management.find(nvml_init, "nvmlInit_v2") && s.management.find(by_index, "nvmlDeviceGetHandleByIndex_v2") && nvml_init() == 0 && by_index(static_cast<unsigned>(ordinal), &s.nvml_device) == 0) {
    s.management.find(s.clock, "nvmlDeviceGetClockInfo");
    s.management.find(s.max_clock, "nvmlDeviceGetMaxClockInfo");
    s.management.find(s.power, "nvmlDeviceGetPowerUsage");
    s.management.find(s.version, "nvmlSystemGetDriverVersion");
  }
}

card::~card() { state_->release(state_->device); }

void card::copy(device::address to, device::address from, std::size_t bytes, std::uint64_t stream) const {
  check(state_->copy(to, from, bytes, reinterpret_cast<void*>(stream)), "cuMemcpyDtoDAsync");
}

void* card::load(const std::string& ptx, const std::string& entry) const {
  void *module = nullptr, *function = nullptr;
  check(state_->module_load(&module, ptx.c_str()), "cuModuleLoadData");
  check(state_->get_function(&function, module, entry.c_str()), "cuModuleGetFunction");
  return function;
}

void card::launch(void* function, unsigned grid, unsigned block, void** arguments, std::uint64_t stream) const {
  check(state_->launch(function, grid, 1, 1, block, 1, 1, 0, reinterpret_cast<void*>(stream), arguments, nullptr), "cuLaunchKernel");
}

std::string card::driver_version() const {
  char text[96] = {};
  if (state_->version) state_->version(text, sizeof text - 1);
  return text;
}
double card::sm_clock_mhz() const { return state_->read_clock(state_->clock, 1); }
double card::max_sm_clock_mhz() const { return state_->read_clock(state_->max_clock, 1); }
double card::memory_clock_mhz() const { return state_->read_clock(state_->clock, 2); }
double card::power_watts() const {
  unsigned milliwatts = 0;
  return state_->nvml_device && state_->power && state_->power(state_->nvml_device, &milliwatts) == 0 ? milliwatts / 1000.0 : 0;
}

}  // namespace tlx::bench
