#include "trial.hpp"

#include <random>

#include "tlx/codegen/to_ptx.hpp"
#include "tlx/device/kernel.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::mutation {

namespace {

struct input {
  bool view = false;
  std::vector<std::int64_t> extents;
  std::vector<std::byte> bytes;
};

// Square matrices of 264: more K tiles than stages, several tiles for the one processor, tails everywhere. Ascending whole numbers, normal floats.
std::vector<input> inputs_of(const ir::kernel& k) {
  std::vector<input> all;
  std::mt19937 bits(7);
  std::normal_distribution<float> normal;
  for (const auto& p : k.parameters()) {
    input in;
    in.view = p->type.is(ir::type::kind::view);
    const tile::element e = p->type.element;
    std::size_t count = 1;
    if (in.view) {
      const bool table = p->type.rank == 1 && tile::is_integer(e);
      if (table) in.extents = {4};
      else if (p->type.rank == 3) in.extents = {200, 2, k.name.find("d128") != std::string::npos ? 128 : 64};
      else in.extents.assign(static_cast<std::size_t>(p->type.rank), 264);
      for (std::int64_t x : in.extents) count *= static_cast<std::size_t>(x);
    }
    static constexpr std::int32_t offsets[] = {0, 40, 104, 200};
    for (std::size_t i = 0; i < count; ++i) {
      const auto put = [&](auto v) {
        const auto* from = reinterpret_cast<const std::byte*>(&v);
        in.bytes.insert(in.bytes.end(), from, from + sizeof v);
      };
      if (e == tile::element::bf16) put(bf16(normal(bits)));
      else if (e == tile::element::f16) put(f16(normal(bits)));
      else if (e == tile::element::f32) put(in.view ? normal(bits) : 0.5F);
      else put(in.view ? offsets[i % 4] : std::int32_t{1});
    }
    all.push_back(std::move(in));
  }
  return all;
}

}  // namespace

struct trial::state {
  std::string target;
  std::vector<input> inputs;
  std::vector<std::vector<std::byte>> expected;

  std::vector<std::vector<std::byte>> run(const device::kernel& k, std::uint64_t seed) const {
    const auto machine = sim::open(target, {.seed = seed, .processor_count = 1});
    std::vector<device::buffer> on;
    std::vector<device::value> values;
    for (const input& in : inputs) {
      if (!in.view) {
        values.push_back({.bytes = in.bytes});
        continue;
      }
      on.emplace_back(*machine, in.bytes.size());
      on.back().write(in.bytes.data(), in.bytes.size());
      values.push_back(device::view_value(on.back().where(), in.extents));
    }
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

std::optional<std::string> trial::first_difference(const ir::kernel& changed, int schedules) const {
  device::kernel k;
  try {
    k = compiled(changed);
  } catch (const error& e) {
    return cat("code generation refuses it: ", e.id());
  }
  for (int seed = 1; seed <= schedules; ++seed) {
    try {
      if (state_->run(k, static_cast<std::uint64_t>(seed)) != state_->expected) return cat("seed ", seed, ": other results");
    } catch (const error& e) {
      const std::string text = e.what();
      return cat("seed ", seed, ": ", text.substr(0, text.find('\n')));
    }
  }
  return std::nullopt;
}

}  // namespace tlx::mutation
