#include "tlx/bundle/library.hpp"

#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "tlx/bundle/arguments.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/device/launcher.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bundle {

std::string signature_of(const device::kernel& k) {
  std::vector<std::string> words;
  for (const device::parameter& p : k.parameters) words.push_back(p.what == device::parameter::kind::view ? cat(p.name, ":", p.element, "[", p.rank, "]") : cat(p.name, ":", p.element));
  return join(words, " ");
}

struct loaded_kernel::state {
  device::machine* on;
  device::kernel description;
  std::string signature;
  std::unique_ptr<device::launcher> launcher;

  state(device::machine& machine, device::kernel k) : on(&machine), description(std::move(k)), signature(signature_of(description)), launcher(device::make_launcher(machine, description, machine.load(description.code))) {
    description.code.cubin.clear();
    description.code.ptx.clear();
  }
};

loaded_kernel::loaded_kernel(std::unique_ptr<state> made) : state_(std::move(made)) {}
const device::kernel& loaded_kernel::about() const { return state_->description; }

void loaded_kernel::check_signature(const char* kernel, const char* signature) const {
  if (state_->signature == signature) return;
  raise(user_error({.id = "argument-struct-differs", .what = cat("the arguments of \"", kernel, "\" are ", signature, " in the program and ", state_->signature, " in the bundle"),
                    .because = "the program was compiled with the header of another bundle", .fix = {"build the program with the header that was written with this bundle"},
                    .context = cat("kernel \"", state_->description.name, "\"")}));
}

void loaded_kernel::launch(const std::vector<device::value>& arguments, std::uint64_t stream) { state_->launcher->launch(arguments, stream); }
void loaded_kernel::launch(const device::value_ref* arguments, std::size_t count, std::uint64_t stream) { state_->launcher->launch(arguments, count, stream); }

namespace {

using key = std::pair<std::string, std::string>;       // name and configuration
using seen_key = std::pair<std::string_view, std::string_view>;
struct before {
  using is_transparent = void;
  static seen_key seen(const key& k) { return k; }
  static seen_key seen(const seen_key& k) { return k; }
  template <class A, class B>
  bool operator()(const A& a, const B& b) const { return seen(a) < seen(b); }
};

}  // namespace

struct library::state {
  device::machine* on;
  bundle from;
  std::mutex guard;
  std::map<key, loaded_kernel*, before> asked;  // a look-up makes no string
  std::map<const entry*, loaded_kernel> loaded;
};

library::library(device::machine& on, bundle from) : state_(new state{&on, std::move(from), {}, {}, {}}) {}
library::~library() = default;
library::library(library&&) noexcept = default;
library& library::operator=(library&&) noexcept = default;
const bundle& library::from() const { return state_->from; }
device::machine& library::on() const { return *state_->on; }

loaded_kernel& library::kernel(std::string_view name, std::string_view configuration) {
  std::lock_guard lock(state_->guard);
  const auto known = state_->asked.find(seen_key(name, configuration));
  if (known != state_->asked.end()) return *known->second;
  key wanted(name, configuration);
  const entry& what = state_->from.choose(wanted.first, wanted.second, on().about().target);
  auto found = state_->loaded.find(&what);
  if (found == state_->loaded.end())
    found = state_->loaded.emplace(&what, loaded_kernel(std::make_unique<loaded_kernel::state>(on(), state_->from.load(what)))).first;
  state_->asked.emplace(std::move(wanted), &found->second);
  return found->second;
}

std::size_t library::load_all() {
  std::size_t count = 0;
  const std::string& target = on().about().target;
  for (const entry& e : from().entries()) {
    if (!device::target_runs_on(e.target, target) || &from().choose(e.name, e.configuration, target) != &e) continue;
    kernel(e.name, e.configuration);
    ++count;
  }
  return count;
}

}  // namespace tlx::bundle
