#include "tlx/host/session.hpp"

#include <chrono>
#include <map>

#include "tlx/device/binder.hpp"
#include "tlx/jit/compile.hpp"

namespace tlx::host {

namespace {
struct ready {
  device::kernel kernel;
  std::shared_ptr<device::module> module;
  std::unique_ptr<device::binder> bind;
};
}  // namespace

struct session::state {
  device::machine* on;
  std::map<std::string, ready, std::less<>> kernels;
  double last_compile_ms = 0;
};

session::session(device::machine& on) : state_(std::make_unique<state>(state{&on, {}, 0})) {}
session::~session() = default;
device::machine& session::on() const { return *state_->on; }

void session::run(const std::string& name, const std::function<std::unique_ptr<ir::kernel>(const std::string&)>& make, const std::vector<device::value>& arguments,
                  std::uint64_t stream) {
  auto found = state_->kernels.find(name);
  if (found == state_->kernels.end()) {
    const auto start = std::chrono::steady_clock::now();
    const device::properties& machine = on().about();
    ready made;
    const bool simulated = machine.name == "simulator";
    made.kernel = jit::compile(*make(machine.target), {.assemble = !simulated});
    made.module = on().load(made.kernel.code);
    made.bind = std::make_unique<device::binder>(made.kernel, machine);
    state_->last_compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    found = state_->kernels.emplace(name, std::move(made)).first;
  }
  const device::launch& how = (*found->second.bind)(arguments, stream);
  if (how.grid.x == 0 || how.grid.y == 0 || how.grid.z == 0) return;
  on().run(*found->second.module, found->second.kernel.entry, how);
}

const device::kernel* session::find(const std::string& name) const {
  const auto found = state_->kernels.find(name);
  return found == state_->kernels.end() ? nullptr : &found->second.kernel;
}
double session::last_compile_ms() const { return state_->last_compile_ms; }

}  // namespace tlx::host
