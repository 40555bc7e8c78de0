// One kernel of the generated population as data: PTX, launch, memory before the run, and what is known of the memory after it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tlx/device/kernel.hpp"
#include "tlx/ir/kernel.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::compare {

using tile::element;
using bytes = std::vector<std::byte>;

/// What the kernels are drawn from. Each has a smallest number that a test holds.
enum class quota { layouts, elementwise, casts, instructions, masks, tensor_copies, rings, products, clusters, atomics };
inline constexpr int quota_count = 10;
const char* name_of(quota q);
int smallest(quota q);

/// Device memory: what it holds before the run. Outputs are compared afterwards, element by element: bit by bit, or within `ulps` units in the last
/// place or `absolute`, whichever lets more through (both 0: bit by bit, NaN payloads included).
struct memory {
  std::string name;
  bytes before;
  bool output = false;
  element type = element::u8;
  double ulps = 0, absolute = 0;
  bool any_nan = false;  // PTX leaves the bits of a NaN open (f64): one NaN is as good as another
};

/// Kernel parameters: bytes, an address in a memory, or a tensor map over one.
struct place { std::size_t memory = 0; std::uint64_t offset = 0; };
struct mapped { place base; device::tensor_map map; };
using argument = std::variant<bytes, place, mapped>;

template <class T>
bytes bytes_of(const std::vector<T>& v) {
  const auto* p = reinterpret_cast<const std::byte*>(v.data());
  return {p, p + v.size() * sizeof(T)};
}
template <class T>
argument number(T value) { return bytes_of(std::vector<T>{value}); }

/// What plain C++ says of one memory after the run: exact bytes, or values within relative * |value| + absolute (NaN is NaN).
struct expectation {
  std::size_t memory = 0;
  bytes exact = {};
  std::vector<double> values = {};
  double relative = 0, absolute = 0;
};

/// What the population is made for: "sm_90a" unless set (before any sample is made). wgmma is left out elsewhere.
const std::string& population_target();
void set_population_target(const std::string& target);

struct sample {
  std::string name;
  quota from = quota::layouts;
  std::string ptx, entry = "k", target = population_target();
  device::extent3 grid, block{128, 1, 1}, cluster;
  std::uint32_t dynamic_shared = 0;
  std::vector<argument> arguments;
  std::vector<memory> memories;
  std::vector<expectation> expected;
  bool faults = false;  // both machines must refuse to run it to its end
  std::function<sample(const std::string& target, bool optimised)> again;  // kernels of the language: the same text for another target, or without the optional passes
};

/// A member of the population that is not made yet: making compiles.
struct entry {
  std::string name;
  quota from;
  std::function<sample()> make;
};

/// The whole population, in a fixed order. The same on every machine and compiler: all choices come from seeds.
std::vector<entry> population();

// --- to build samples
/// Memory of outputs before the run: a NaN pattern that no kernel writes by itself.
bytes unwritten(std::size_t count);
/// The launch of a described kernel on these memories: view parameters take memories in order with these extents (dense), scalars take their bytes.
struct view_argument { std::vector<std::int64_t> extents; };
struct kernel_argument {
  kernel_argument(view_argument v) : is_view(true), extents(std::move(v.extents)) {}  // NOLINT(google-explicit-constructor): lists of both read well
  kernel_argument(bytes b) : raw(std::move(b)) {}                                     // NOLINT(google-explicit-constructor)
  bool is_view = false;
  std::vector<std::int64_t> extents;
  bytes raw;
};
void bind_to(sample& s, const device::kernel& k, const std::vector<kernel_argument>& arguments);
/// Verified, to PTX without line information, bound.
void lower_to(sample& s, const ir::kernel& lowered, const std::vector<kernel_argument>& arguments);
/// The whole compiler, bound. Not `optimised`: without the pass simplify and without LLVM's optimisations.
void compile_to(sample& s, const ir::kernel& traced, const std::vector<kernel_argument>& arguments, bool optimised = true);

// --- the parts of the population
void add_layouts(std::vector<entry>& to);
void add_elementwise(std::vector<entry>& to);
void add_casts(std::vector<entry>& to);
void add_instructions(std::vector<entry>& to);
void add_masks(std::vector<entry>& to);
void add_tensor_copies(std::vector<entry>& to);
void add_rings(std::vector<entry>& to);
void add_barriers(std::vector<entry>& to);
void add_products(std::vector<entry>& to);
void add_clusters(std::vector<entry>& to);
void add_atomics(std::vector<entry>& to);

}  // namespace tlx::compare
