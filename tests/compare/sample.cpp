// Binding kernels to memories, and the list of the whole population.
#include "tests/compare/sample.hpp"

#include <cstring>
#include <map>

#include "tlx/codegen/to_ptx.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/pass/pipeline.hpp"
#include "tlx/support/text.hpp"

namespace tlx::compare {

namespace {
std::string& the_target() {
  static std::string target = "sm_90a";
  return target;
}
}  // namespace
const std::string& population_target() { return the_target(); }
void set_population_target(const std::string& target) { the_target() = target; }

const char* name_of(quota q) {
  static const char* const names[quota_count] = {"layouts", "elementwise", "casts", "instructions", "masks", "tensor copies", "rings", "products", "clusters", "atomics"};
  return names[static_cast<int>(q)];
}

int smallest(quota q) {
  static const int numbers[quota_count] = {60, 60, 60, 60, 40, 50, 30, 40, 10, 10};
  return numbers[static_cast<int>(q)];
}

bytes unwritten(std::size_t count) { return bytes(count, std::byte{0xff}); }

void bind_to(sample& s, const device::kernel& k, const std::vector<kernel_argument>& arguments) {
  // Memories stand at made-up addresses while the launch is bound, and are found again by them.
  constexpr int shift = 40;
  std::size_t next = 0;
  std::vector<device::value> values;
  for (const kernel_argument& a : arguments) {
    if (a.is_view) values.push_back(device::view_value(std::uint64_t{++next} << shift, a.extents));
    else values.push_back({.bytes = a.raw});
  }
  const device::properties on{.name = "any", .target = k.target, .processor_count = 2, .shared_bytes_per_block = 232448, .memory_bytes = std::uint64_t{1} << 36};
  const device::launch how = device::bind(k, values, on);
  s.entry = k.entry;
  s.target = k.target;
  s.grid = how.grid;
  s.block = how.block;
  s.cluster = how.cluster;
  s.dynamic_shared = how.dynamic_shared_bytes;
  const auto place_of = [&](std::uint64_t address) { return place{static_cast<std::size_t>(address >> shift) - 1, address & ((std::uint64_t{1} << shift) - 1)}; };
  for (const device::argument& a : how.arguments) {
    if (const auto* m = std::get_if<device::tensor_map>(&a)) {
      s.arguments.push_back(mapped{place_of(m->base), *m});
      continue;
    }
    const bytes& raw = std::get<bytes>(a);
    std::uint64_t word = 0;
    if (raw.size() == 8) std::memcpy(&word, raw.data(), 8);
    if (word >> shift >= 1 && word >> shift <= next) s.arguments.push_back(place_of(word));
    else s.arguments.push_back(raw);
  }
}

void lower_to(sample& s, const ir::kernel& lowered, const std::vector<kernel_argument>& arguments) {
  ir::verify_or_raise(lowered, "generate");
  s.ptx = codegen::to_ptx(lowered, {.line_info = false});
  bind_to(s, jit::describe(lowered), arguments);
}

void compile_to(sample& s, const ir::kernel& traced, const std::vector<kernel_argument>& arguments, bool optimised) {
  if (optimised) {
    const device::kernel k = jit::compile(traced, {.assemble = false, .line_info = false, .use_cache = false});
    s.ptx = k.code.ptx;
    return bind_to(s, k, arguments);
  }
  const std::unique_ptr<ir::kernel> work = ir::clone(traced);
  for (const pass::pass& p : pass::pipeline_for(traced.target))
    if (std::string(p.name) != "simplify") p.run(*work);
  ir::verify_or_raise(*work, "the last pass");
  s.ptx = codegen::to_ptx(*work, {.optimise = false, .line_info = false});
  bind_to(s, jit::describe(*work), arguments);
}

std::vector<entry> population() {
  std::vector<entry> all;
  for (auto* add : {add_layouts, add_elementwise, add_casts, add_instructions, add_masks, add_tensor_copies, add_rings, add_barriers, add_products, add_clusters, add_atomics}) add(all);
  std::map<std::string, int> seen;  // names are keys: a second of one name is numbered
  for (entry& e : all)
    if (const int n = ++seen[e.name]; n > 1) e.name += cat(" (", n, ")");
  return all;
}

}  // namespace tlx::compare
