#include "tlx/bundle/library.hpp"

#include <map>
#include <mutex>

#include "tlx/bundle/arguments.hpp"
#include "tlx/device/binder.hpp"
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
  std::shared_ptr<device::module> code;
  std::mutex guard;  // the binder reuses its storage
  device::binder bind;

  state(device::machine& machine, device::kernel k) : on(&machine), description(std::move(k)), signature(signature_of(description)), code(machine.load(description.code)), bind(description, machine.about()) {
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

void loaded_kernel::launch(const std::vector<device::value>& arguments, std::uint64_t stream) {
  std::lock_guard lock(state_->guard);
  state_->on->run(*state_->code, state_->description.entry, state_->bind(arguments, stream));
}

struct library::state {
  device::machine* on;
  bundle from;
  std::mutex guard;
  std::map<std::pair<std::string, std::string>, const entry*> chosen;
  std::map<const entry*, loaded_kernel> loaded;

  const entry& choose(const std::string& name, const std::string& configuration) {
    const entry*& known = chosen[{name, configuration}];
    if (!known) known = &from.choose(name, configuration, on->about().target);
    return *known;
  }
};

library::library(device::machine& on, bundle from) : state_(new state{&on, std::move(from), {}, {}, {}}) {}
library::~library() = default;
library::library(library&&) noexcept = default;
library& library::operator=(library&&) noexcept = default;
const bundle& library::from() const { return state_->from; }
device::machine& library::on() const { return *state_->on; }

loaded_kernel& library::kernel(const std::string& name, const std::string& configuration) {
  std::lock_guard lock(state_->guard);
  const entry& what = state_->choose(name, configuration);
  auto found = state_->loaded.find(&what);
  if (found == state_->loaded.end())
    found = state_->loaded.emplace(&what, loaded_kernel(std::make_unique<loaded_kernel::state>(on(), state_->from.load(what)))).first;
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
