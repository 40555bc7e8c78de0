// The machines a test runs on: TLX_DEVICE (or --device=), a list with commas; without it, the simulator of each architecture.
#pragma once
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tlx/host/session.hpp"
#include "tlx/jit/machines.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/sim/machine.hpp"

namespace tlx::test {

struct machine_under_test {
  std::string name;
  std::unique_ptr<device::machine> on;
  std::unique_ptr<host::session> with;
  bool is_gpu() const { return name.rfind("gpu", 0) == 0; }
  sim::machine* simulator() const { return dynamic_cast<sim::machine*>(on.get()); }
};

inline std::vector<std::string> machine_names() {
  const char* given = std::getenv("TLX_DEVICE");
  std::string rest = given && *given ? given : "sim:sm_90a,sim:sm_100a";
  std::vector<std::string> names;
  for (size_t comma = 0; comma != std::string::npos; rest.erase(0, comma + 1)) {
    comma = rest.find(',');
    names.push_back(rest.substr(0, comma));
    if (comma == std::string::npos) break;
  }
  return names;
}

/// The machine is opened once and its kernels stay compiled. Two simulated processors, so that a persistent kernel has several tiles for each.
/// Null: a GPU that is not there.
inline machine_under_test* machine_named(const std::string& name) {
  static std::map<std::string, machine_under_test> opened;
  machine_under_test& m = opened[name];
  if (m.on) return &m;
  if (name.rfind("gpu", 0) == 0 && runtime::gpu_count() == 0) return nullptr;
  m.name = name;
  m.on = m.is_gpu() ? jit::open_machine(name) : sim::open(name.substr(4), {.processor_count = 2});
  m.with = std::make_unique<host::session>(*m.on);
  return &m;
}

}  // namespace tlx::test

/// First line of a test case: the rest runs once a machine, as `m`. A case whose machines are all absent counts as skipped.
#define TLX_ON_EACH_MACHINE(...)                                                                    \
  do {                                                                                              \
    int ran_ = 0;                                                                                   \
    for (const std::string& name_ : ::tlx::test::machine_names()) {                                 \
      ::tlx::test::machine_under_test* found_ = ::tlx::test::machine_named(name_);                  \
      if (!found_) continue;                                                                        \
      ++ran_;                                                                                       \
      INFO("on ", name_);                                                                           \
      (__VA_ARGS__)(*found_);                                                                            \
    }                                                                                               \
    TLX_SKIP_UNLESS(ran_ > 0, "no machine of TLX_DEVICE is here");                                  \
  } while (false)
