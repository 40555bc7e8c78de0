#include "trial.hpp"

#include "inputs.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/device/kernel.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::mutation {

struct trial::state {
  std::string target;
  std::vector<input> inputs;
  std::vector<std::vector<std::byte>> expected;

  std::vector<std::vector<std::byte>> run(const device::kernel& k, std::uint64_t seed) const {
    const auto machine = sim::open(target, {.seed = seed, .processor_count = 1});
    std::vector<device::buffer> on;
    const std::vector<device::value> values = put(inputs, *machine, on);
    const auto module = machine->load(k.code);
    machine->run(*module, k.entry, device::bind(k, values, machine->about()));
    machine->wait();
    std::vector<std::vector<std::byte>> results;
    for (const device::buffer& b : on) {
      results.emplace_back(b.size_bytes());
      b.read(results.back().data(), results.back().size());
    }
    return results;
  }
};

namespace {
device::kernel compiled(const ir::kernel& lowered) {
  device::kernel k = jit::describe(lowered);
  k.code.ptx = codegen::to_ptx(lowered, {.line_info = true});
  return k;
}
}  // namespace

trial::trial(const ir::kernel& lowered) : state_(std::make_unique<state>()) {
  state_->target = lowered.target;
  state_->inputs = inputs_of(lowered);
  state_->expected = state_->run(compiled(lowered), 1);
}
trial::~trial() = default;

std::optional<trial::difference> trial::first_difference(const ir::kernel& changed, int schedules) const {
  device::kernel k;
  try {
    k = compiled(changed);
  } catch (const error& e) {
    return difference{cat("code generation refuses it: ", e.id()), false};
  }
  for (int seed = 1; seed <= schedules; ++seed) {
    try {
      if (state_->run(k, static_cast<std::uint64_t>(seed)) != state_->expected) return difference{cat("seed ", seed, ": other results"), false};
    } catch (const error& e) {
      return difference{cat("seed ", seed, ": ", e.what()), true};
    }
  }
  return std::nullopt;
}

}  // namespace tlx::mutation
