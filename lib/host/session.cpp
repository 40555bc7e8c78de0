#include "tlx/host/session.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>

#include "tlx/device/binder.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {
std::string hex(device::address where) {
  std::ostringstream out;
  out << std::hex << where;
  return out.str();
}

struct ready {
  device::kernel kernel;
  std::shared_ptr<device::module> module;
  std::unique_ptr<device::binder> bind;
  std::vector<device::address> known;  // addresses of the last launch: only new ones are looked up
};

// A host pointer would be found by the kernel, later and without a name.
void check_pointers(ready& k, const std::vector<device::value>& arguments, device::machine& on) {
  k.known.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const device::address base = arguments[i].base;
    if (base == k.known[i]) continue;
    bool empty = base == 0;
    for (const std::int64_t e : arguments[i].extents) empty = empty || e == 0;
    if (!empty && !runtime::reaches(on, base))
      raise(user_error({.id = "pointer-not-on-device", .what = cat("argument \"", k.kernel.parameters[i].name, "\" is at 0x", hex(base), ", which is no memory of ", on.about().name),
                        .because = "kernels use memory that the device can reach: of its own, of enabled peers, or pinned", .fix = {"copy the data to the device: device::buffer and its write()"},
                        .context = cat("kernel \"", k.kernel.name, "\"")}));
    k.known[i] = base;
  }
}
}  // namespace

struct session::state {
  device::machine* on;
  std::map<std::string, ready, std::less<>> kernels;
  double last_compile_ms = 0;
  std::map<std::pair<std::uint64_t, int>, std::vector<device::buffer>> workspaces;  // by stream and number, the largest last: launches may still use the smaller ones
};

session::session(device::machine& on) : state_(std::make_unique<state>(state{&on, {}, 0, {}})) {}
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
    // Without an assembler the driver takes the PTX itself (and keeps setmaxnreg); kernel.used says who assembled.
    made.kernel = jit::compile(*make(machine.target), {.assemble = !simulated && jit::has_assembler()});
    made.module = on().load(made.kernel.code);
    if (!simulated && made.kernel.code.cubin.empty()) made.kernel.used = runtime::measure(on(), *made.module, made.kernel.entry);
    made.bind = std::make_unique<device::binder>(made.kernel, machine);
    state_->last_compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    found = state_->kernels.emplace(name, std::move(made)).first;
  }
  const device::launch& how = (*found->second.bind)(arguments, stream);
  if (how.grid.x == 0 || how.grid.y == 0 || how.grid.z == 0) return;
  check_pointers(found->second, arguments, on());
  on().run(*found->second.module, found->second.kernel.entry, how);
}

device::address session::workspace(std::size_t bytes, std::uint64_t stream, int which) {
  std::vector<device::buffer>& all = state_->workspaces[{stream, which}];
  if (all.empty() || all.back().size_bytes() < bytes) all.emplace_back(on(), std::max(bytes, all.empty() ? 0 : 2 * all.back().size_bytes()));
  return all.back().where();
}

const device::kernel* session::find(const std::string& name) const {
  const auto found = state_->kernels.find(name);
  return found == state_->kernels.end() ? nullptr : &found->second.kernel;
}
double session::last_compile_ms() const { return state_->last_compile_ms; }

}  // namespace tlx::host
