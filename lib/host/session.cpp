#include "tlx/host/session.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "tlx/device/launcher.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

struct ready {
  device::kernel kernel;
  std::unique_ptr<device::launcher> launcher;
};

struct slot {
  std::mutex making;                // who asks first makes it, the others wait
  std::atomic<ready*> made{nullptr};  // owned
  ~slot() { delete made.load(); }
};

struct scratch {
  std::mutex used;
  std::vector<device::buffer> all;  // the largest last: launches may still use the smaller ones
};

const char* text(kernel_origin from) {
  switch (from) {
    case kernel_origin::bundle: return "loaded from a bundle";
    case kernel_origin::cache: return "loaded from the cache";
    case kernel_origin::compiled: return "compiled: it is in no bundle and was not in the cache";
  }
  return "";
}

bool is_simulator(const device::properties& machine) { return machine.name == "simulator"; }

}  // namespace

struct session::state {
  device::machine* on;
  std::uint64_t number;
  session_options how;
  mutable std::shared_mutex guard;
  std::unordered_map<std::string, std::unique_ptr<slot>> kernels;
  std::atomic<std::uint64_t> bundle_hits{0}, bundle_misses{0}, cache_hits{0}, compiled{0};
  std::atomic<double> last_compile_ms{0};
  std::mutex lending;                                        // for what follows
  std::map<std::pair<std::uint64_t, int>, scratch> scratches;  // by stream and number

  // A thread's last kernels are found without the lock: slots and what is in them stay where they are while the session lives, and no other session has its number.
  struct met {
    std::uint64_t session = 0;
    std::string name;
    slot* where = nullptr;
    device::launcher* launcher = nullptr;  // once it is ready
  };
  met& met_lately(const std::string& name) {
    static thread_local std::array<met, 8> lately;
    met& m = lately[(name.size() + (name.empty() ? 0 : static_cast<unsigned char>(name[name.size() / 2]))) % lately.size()];
    if (m.session != number || m.name != name) m = {number, name, &shared_slot_of(name), nullptr};
    return m;
  }
  slot& slot_of(const std::string& name) { return *met_lately(name).where; }
  slot& shared_slot_of(const std::string& name) {
    {
      std::shared_lock lock(guard);
      if (const auto found = kernels.find(name); found != kernels.end()) return *found->second;
    }
    std::unique_lock lock(guard);
    std::unique_ptr<slot>& one = kernels[name];
    if (!one) one = std::make_unique<slot>();
    return *one;
  }

  device::kernel get(const std::string& name, const kernel_maker& make, kernel_origin& from) {
    const device::properties& machine = on->about();
    if (how.bundle) {
      if (std::optional<device::kernel> found = how.bundle(name, machine.target)) {
        from = kernel_origin::bundle;
        ++bundle_hits;
        return std::move(*found);
      }
      ++bundle_misses;
    }
    from = kernel_origin::compiled;
    jit::observer seen;
    seen.found = [&] { from = kernel_origin::cache; };
    // Without an assembler the driver takes the PTX itself (and keeps setmaxnreg); kernel.used says who assembled.
    device::kernel made = jit::compile(*make(machine.target), {.assemble = !is_simulator(machine) && jit::has_assembler()}, seen);
    ++(from == kernel_origin::cache ? cache_hits : compiled);
    return made;
  }

  void load(slot& into, device::kernel made) {
    auto fresh = std::make_unique<ready>();
    fresh->kernel = std::move(made);
    std::shared_ptr<device::module> code = on->load(fresh->kernel.code);
    if (!is_simulator(on->about()) && fresh->kernel.code.cubin.empty()) fresh->kernel.used = runtime::measure(*on, *code, fresh->kernel.entry);
    fresh->launcher = device::make_launcher(*on, fresh->kernel, std::move(code));
    into.made.store(fresh.release(), std::memory_order_release);
  }

  std::optional<kernel_origin> prepare(slot& s, const std::string& name, const kernel_maker& make) {
    if (s.made.load(std::memory_order_acquire)) return std::nullopt;
    const std::lock_guard lock(s.making);
    if (s.made.load(std::memory_order_acquire)) return std::nullopt;
    const auto start = std::chrono::steady_clock::now();
    kernel_origin from = kernel_origin::compiled;
    load(s, get(name, make, from));
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    last_compile_ms = ms;
    if (ms > how.slow_seconds * 1e3) log(cat("tlx: kernel \"", name, "\" took ", static_cast<int>(ms), " ms to get ready on ", on->about().name, "; it was ", text(from)));
    return from;
  }

  void log(const std::string& line) const {
    if (how.log) how.log(line);
    else std::fputs((line + "\n").c_str(), stderr);
  }
};

session::session(device::machine& on, session_options how) : state_(std::make_unique<state>()) {
  static std::atomic<std::uint64_t> count{0};
  state_->on = &on;
  state_->number = ++count;
  state_->how = std::move(how);
}
session::~session() = default;
device::machine& session::on() const { return *state_->on; }
std::uint64_t session::number() const { return state_->number; }

void session::run(const std::string& name, const kernel_maker& make, const std::vector<device::value>& arguments, std::uint64_t stream) {
  state::met& m = state_->met_lately(name);
  if (m.launcher) return m.launcher->launch(arguments, stream);
  slot& s = *m.where;
  state_->prepare(s, name, make);
  device::launcher& ready = *s.made.load(std::memory_order_acquire)->launcher;
  state_->met_lately(name).launcher = &ready;  // making it may have met others
  ready.launch(arguments, stream);
}

std::optional<kernel_origin> session::prepare(const std::string& name, const kernel_maker& make) { return state_->prepare(state_->slot_of(name), name, make); }

void session::adopt(const device::kernel& made) {
  slot& s = state_->slot_of(made.name);
  const std::lock_guard lock(s.making);
  if (!s.made.load(std::memory_order_acquire)) state_->load(s, made);
}

session::workspace session::lend(std::size_t bytes, std::uint64_t stream, int which) {
  scratch* found = nullptr;
  {
    const std::lock_guard lock(state_->lending);
    found = &state_->scratches[{stream, which}];
  }
  std::unique_lock held(found->used);
  std::vector<device::buffer>& all = found->all;
  if (all.empty() || all.back().size_bytes() < bytes) all.emplace_back(on(), std::max(bytes, all.empty() ? 0 : 2 * all.back().size_bytes()));
  return {all.back().where(), std::move(held)};
}

const device::kernel* session::find(const std::string& name) const {
  std::shared_lock lock(state_->guard);
  const auto found = state_->kernels.find(name);
  const ready* made = found == state_->kernels.end() ? nullptr : found->second->made.load(std::memory_order_acquire);
  return made ? &made->kernel : nullptr;
}

session_counters session::counters() const { return {state_->bundle_hits, state_->bundle_misses, state_->cache_hits, state_->compiled}; }
double session::last_compile_ms() const { return state_->last_compile_ms; }

}  // namespace tlx::host
