#include "tlx/jit/machines.hpp"

#include <charconv>

#include "tlx/runtime/gpu.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/tile/limits.hpp"

namespace tlx::jit {

std::unique_ptr<device::machine> open_machine(const std::string& name) {
  if (name == "gpu") return runtime::open(0);
  if (name.rfind("gpu:", 0) == 0) {
    int ordinal = -1;
    const auto [end, fault] = std::from_chars(name.data() + 4, name.data() + name.size(), ordinal);
    if (fault == std::errc{} && end == name.data() + name.size()) return runtime::open(ordinal);
  }
  if (name.rfind("sim:", 0) == 0 && tile::target_limits(name.substr(4))) return sim::open(name.substr(4));
  raise(user_error({.id = "machine-unknown", .what = "there is no machine \"" + name + "\"", .because = "machines are gpu, gpu:N and sim:TARGET",
                    .fix = {"use gpu:0, sim:sm_90a, sim:sm_100a or sim:sm_103a"}}));
}

std::string default_machine() {
  try {
    if (runtime::gpu_count() > 0) return "gpu:0";
  } catch (const device_error&) {  // a driver that does not start is no machine
  }
  return "sim:sm_100a";
}

}  // namespace tlx::jit
