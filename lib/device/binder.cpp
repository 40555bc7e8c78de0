// Arguments in, launch out. The order of the entry parameters is the contract of kernel.hpp: maps first, then each parameter's pieces.
#include "tlx/device/binder.hpp"

#include <algorithm>
#include <cstring>

#include "device/arguments.hpp"
#include "device/formula.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::device {

namespace {

constexpr std::int64_t grid_limit_x = INT32_MAX, grid_limit_yz = 65535;  // CUDA C++ Programming Guide, technical specifications
constexpr std::uint64_t block_limit = 1024;

[[noreturn]] void map_malformed(const kernel& k, size_t index, const std::string& what, const std::string& rule) {
  raise(internal_error({.id = "map-malformed",
                        .what = cat("tensor map ", index, ": ", what),
                        .because = rule,
                        .fix = {"this kernel was made by a broken or newer tlx: build it again with this version"},
                        .context = "kernel \"" + k.name + "\""}));
}

// Everything about a map that does not depend on the arguments.
void check_map(const kernel& k, size_t index) {
  const map_rule& m = k.maps[index];
  const auto which = static_cast<size_t>(m.parameter_index);
  if (m.parameter_index < 0 || which >= k.parameters.size() || k.parameters[which].what != parameter::kind::view) {
    map_malformed(k, index, cat("parameter ", m.parameter_index, " is not a view"), "a map describes a view");
  }
  const parameter& p = k.parameters[which];
  if (p.rank < 1 || p.rank > 5) map_malformed(k, index, cat("view \"", p.name, "\" has rank ", p.rank), "a tensor map has 1 to 5 dimensions");
  if (m.box.size() != static_cast<size_t>(p.rank)) {
    map_malformed(k, index, cat("a box of ", m.box.size(), " dimensions on view \"", p.name, "\" of rank ", p.rank), "one box extent per dimension");
  }
  if (element_bits(m.element) != p.element_bits) {
    map_malformed(k, index, cat("element ", element_name(m.element), " on view \"", p.name, "\" of ", p.element_bits, "-bit ", p.element),
                  "map and view have elements of one size");
  }
  for (size_t d = 0; d < m.box.size(); ++d) {
    if (m.box[d] < 1 || m.box[d] > 256) map_malformed(k, index, cat("box extent ", m.box[d], " in map dimension ", d), "box extents are 1 to 256");
  }
  const bool packed_16 = m.element == map_element::u4x16_align16 || m.element == map_element::u6x16_align16;
  if (packed_16) {
    if (m.box[0] != 128) map_malformed(k, index, cat("innermost box extent ", m.box[0]), "16-byte aligned packed elements want a box of 128");
  } else {
    const std::uint64_t inner_bits = std::uint64_t{m.box[0]} * static_cast<std::uint64_t>(element_bits(m.element));
    if (inner_bits % 128 != 0) {
      map_malformed(k, index, cat("innermost box extent ", m.box[0], " = ", inner_bits / 8, " bytes"), "the innermost box extent is a multiple of 16 bytes");
    }
    if (m.swizzle_bytes != 0 && inner_bits > 8 * static_cast<std::uint64_t>(m.swizzle_bytes)) {
      map_malformed(k, index, cat("innermost box extent ", m.box[0], " = ", inner_bits / 8, " bytes under a ", m.swizzle_bytes, "-byte swizzle"),
                    "the innermost box extent fits the swizzle span");
    }
  }
  if (m.swizzle_bytes != 0 && m.swizzle_bytes != 32 && m.swizzle_bytes != 64 && m.swizzle_bytes != 128) {
    map_malformed(k, index, cat("swizzle of ", m.swizzle_bytes, " bytes"), "swizzles are 0, 32, 64 or 128 bytes");
  }
}

template <class T>
void put(std::vector<argument>& arguments, size_t& next, T what) {
  std::memcpy(std::get<std::vector<std::byte>>(arguments[next++]).data(), &what, sizeof(T));
}

}  // namespace

struct binder::state {
  std::string name;
  std::vector<parameter> parameters;
  std::vector<map_rule> maps;
  std::vector<view_rule> rules;                    // one per parameter
  std::vector<std::vector<std::int64_t>> strides;  // one per parameter; views only
  formula_program x, y, z;
  int processors;
  launch result;
  std::vector<value> last;          // the arguments that `result` was made of; empty: none yet
  std::vector<size_t> address_of;   // of each view, which entry of result.arguments is its address

  state(const kernel& k, const properties& on)
      : name(k.name), parameters(k.parameters), maps(k.maps), rules(k.parameters.size()), strides(k.parameters.size()),
        x(k.grid_x, k), y(k.grid_y, k), z(k.grid_z, k), processors(on.processor_count) {
    for (size_t i = 0; i < parameters.size(); ++i) rules[i].align_bytes = std::max(1, parameters[i].align_bytes);
    for (size_t i = 0; i < maps.size(); ++i) {
      check_map(k, i);
      const bool packed_16 = maps[i].element == map_element::u4x16_align16 || maps[i].element == map_element::u6x16_align16;
      view_rule& rule = rules[static_cast<size_t>(maps[i].parameter_index)];
      rule.through_map = true;
      rule.align_bytes = std::max<std::int64_t>(rule.align_bytes, packed_16 ? 32 : 16);
      if (packed_16) rule.inner_multiple = 128;
      if (maps[i].stored) {
        rule.inner_multiple = std::max<std::int64_t>(rule.inner_multiple, 128 / element_bits(maps[i].element));
        rule.stored = true;
      }
    }
    result.block = k.block;
    result.cluster = k.cluster;
    result.dynamic_shared_bytes = k.dynamic_shared_bytes;
    result.dependent = k.dependent;
    lay_out_arguments();
  }

  void lay_out_arguments() {
    const auto room = [this](size_t bytes) { result.arguments.emplace_back(std::vector<std::byte>(bytes)); };
    for (const map_rule& m : maps) {
      tensor_map map;
      map.element = m.element;
      map.rank = static_cast<int>(m.box.size());
      std::copy(m.box.begin(), m.box.end(), map.box.begin());
      map.swizzle_bytes = m.swizzle_bytes;
      map.l2_promotion_bytes = m.l2_promotion_bytes;
      result.arguments.emplace_back(map);
    }
    address_of.assign(parameters.size(), 0);
    for (const parameter& p : parameters) {
      if (p.what == parameter::kind::scalar) {
        room(static_cast<size_t>((p.element_bits + 7) / 8));
        continue;
      }
      address_of[static_cast<size_t>(&p - parameters.data())] = result.arguments.size();
      room(sizeof(address));
      for (int d = 0; d < p.rank; ++d) room(sizeof(std::int32_t));
      for (int d = 0; d + 1 < p.rank; ++d) room(sizeof(std::int64_t));
    }
  }

  void fill_map(tensor_map& map, const map_rule& m, const std::vector<value>& arguments) const {
    const auto which = static_cast<size_t>(m.parameter_index);
    const value& v = arguments[which];
    const auto rank = static_cast<size_t>(map.rank);
    map.base = v.base;
    for (size_t d = 0; d < rank; ++d) map.extents[d] = static_cast<std::uint64_t>(v.extents[rank - 1 - d]);  // 0 stays 0: see device.hpp
    // The stride of a dimension of at most one element means nothing and may be anything in the view; the map still needs a legal one.
    const auto align = static_cast<std::uint64_t>(rules[which].align_bytes);
    const bool empty = is_empty(map);
    std::uint64_t previous = (map.extents[0] * static_cast<std::uint64_t>(element_bits(map.element)) + 7) / 8;
    for (size_t d = 1; d < rank; ++d) {
      const size_t view_dimension = rank - 1 - d;
      const bool used = !empty && map.extents[d] > 1;
      const std::uint64_t legal = std::min(std::max<std::uint64_t>((previous + align - 1) / align * align, align), (std::uint64_t{1} << 40) - align);
      const std::uint64_t bytes = used ? static_cast<std::uint64_t>(strides[which][view_dimension] * parameters[which].element_bits / 8) : legal;
      map.strides_bytes[d - 1] = bytes;
      previous = bytes * std::max<std::uint64_t>(map.extents[d], 1);
    }
  }

  void fill_arguments(const std::vector<value>& arguments) {
    size_t next = 0;
    for (const map_rule& m : maps) fill_map(std::get<tensor_map>(result.arguments[next++]), m, arguments);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const parameter& p = parameters[i];
      const value& v = arguments[i];
      if (p.what == parameter::kind::scalar) {
        std::vector<std::byte>& bytes = std::get<std::vector<std::byte>>(result.arguments[next++]);
        std::copy(v.bytes.begin(), v.bytes.end(), bytes.begin());
        continue;
      }
      put(result.arguments, next, v.base);
      for (std::int64_t extent : v.extents) put(result.arguments, next, static_cast<std::int32_t>(extent));
      for (size_t d = 0; d + 1 < v.extents.size(); ++d) put(result.arguments, next, strides[i][d]);
    }
  }

  std::uint32_t grid_axis(const formula_program& f, const char* axis, std::int64_t limit, std::uint32_t cluster, const std::vector<value>& arguments) const {
    const std::int64_t blocks = f.run(arguments, processors);
    if (blocks < 0) {
      raise(user_error({.id = "grid-negative",
                        .what = cat("grid ", axis, " comes out as ", blocks, " blocks"),
                        .because = "a grid counts blocks",
                        .fix = {"check the arguments that the grid formula uses"},
                        .context = "kernel \"" + name + "\""}));
    }
    if (blocks > limit) {
      raise(user_error({.id = "grid-too-large",
                        .what = cat("grid ", axis, " comes out as ", blocks, " blocks, the limit is ", limit),
                        .because = "a GPU takes at most 2147483647 blocks in x and 65535 in y and z",
                        .fix = {"put the large axis on grid x or fold it into a loop", "launch over pieces of the tensor"},
                        .context = "kernel \"" + name + "\""}));
    }
    if (cluster > 1 && blocks % cluster != 0) {
      raise(user_error({.id = "grid-not-whole-clusters",
                        .what = cat("grid ", axis, " comes out as ", blocks, " blocks, not a multiple of cluster ", axis, " = ", cluster),
                        .because = "a launch consists of whole clusters",
                        .fix = {cat("round the grid formula up to a multiple of ", cluster, " and let the extra blocks leave early")},
                        .context = "kernel \"" + name + "\""}));
    }
    return static_cast<std::uint32_t>(blocks);
  }

  // Whether only addresses differ from the arguments of the last launch.
  bool like_last(const std::vector<value>& arguments) const {
    if (last.empty() || arguments.size() != last.size()) return false;
    for (size_t i = 0; i < last.size(); ++i)
      if (arguments[i].extents != last[i].extents || arguments[i].strides != last[i].strides || arguments[i].bytes != last[i].bytes) return false;
    return true;
  }

  // The common case, with what depends on addresses only: they are checked where they are new, and nothing is counted again.
  const launch& bind_again(const std::vector<value>& arguments, std::uint64_t stream) {
    const auto is_new = [&](size_t i) { return arguments[i].base != last[i].base; };
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].what == parameter::kind::view && is_new(i) && has_elements(arguments[i])) check_placement(name, parameters[i], arguments[i], strides[i], rules[i]);
    for (size_t m = 0; m < maps.size(); ++m) std::get<tensor_map>(result.arguments[m]).base = arguments[static_cast<size_t>(maps[m].parameter_index)].base;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].what != parameter::kind::view || !is_new(i)) continue;
      size_t at = address_of[i];
      put(result.arguments, at, arguments[i].base);
      last[i].base = arguments[i].base;
    }
    result.stream = stream;
    return result;
  }

  const launch& bind(const std::vector<value>& arguments, std::uint64_t stream) {
    if (like_last(arguments)) return bind_again(arguments, stream);
    last.clear();
    check_shapes(name, parameters, arguments);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].what != parameter::kind::view) continue;
      check_extents(name, parameters[i], arguments[i]);
      resolve_strides(name, parameters[i], arguments[i], strides[i]);
      if (has_elements(arguments[i])) check_placement(name, parameters[i], arguments[i], strides[i], rules[i]);
    }
    result.grid.x = grid_axis(x, "x", grid_limit_x, result.cluster.x, arguments);
    result.grid.y = grid_axis(y, "y", grid_limit_yz, result.cluster.y, arguments);
    result.grid.z = grid_axis(z, "z", grid_limit_yz, result.cluster.z, arguments);
    result.stream = stream;
    fill_arguments(arguments);
    last = arguments;
    return result;
  }
};

namespace {

void check_machine(const kernel& k, const properties& on) {
  if (!target_runs_on(k.target, on.target)) {
    raise(user_error({.id = "target-mismatch",
                      .what = cat("the kernel is code for ", k.target, ", machine \"", on.name, "\" is ", on.target),
                      .because = "code for a target with suffix \"a\" runs on exactly that processor",
                      .fix = {cat("build the kernel for ", on.target), cat("run it on a machine that is ", k.target)},
                      .context = "kernel \"" + k.name + "\""}));
  }
  const std::uint64_t threads = std::uint64_t{k.block.x} * k.block.y * k.block.z;
  if (threads == 0 || threads > block_limit) {
    raise(user_error({.id = "block-too-large",
                      .what = cat("a block of ", k.block.x, "x", k.block.y, "x", k.block.z, " = ", threads, " threads"),
                      .because = cat("a block has 1 to ", block_limit, " threads"),
                      .fix = {"use fewer warps per block"},
                      .context = "kernel \"" + k.name + "\""}));
  }
  const std::int64_t shared = std::int64_t{k.dynamic_shared_bytes} + std::max(0, k.used.static_shared_bytes);
  if (on.shared_bytes_per_block > 0 && shared > on.shared_bytes_per_block) {
    raise(user_error({.id = "shared-memory-exceeded",
                      .what = cat("the kernel needs ", shared, " bytes of shared memory per block, \"", on.name, "\" has ", on.shared_bytes_per_block),
                      .because = "a block cannot use more shared memory than its processor has",
                      .fix = {"use fewer stages or a smaller tile"},
                      .context = "kernel \"" + k.name + "\""}));
  }
}

struct target_parts {
  int number = -1;
  char suffix = 0;
};

target_parts parse_target(const std::string& target) {
  target_parts parts;
  if (target.rfind("sm_", 0) != 0) return parts;
  size_t at = 3;
  int number = 0;
  while (at < target.size() && target[at] >= '0' && target[at] <= '9' && number < 100000) number = 10 * number + (target[at++] - '0');
  if (at == 3) return parts;
  parts.number = number;
  if (at < target.size()) parts.suffix = target[at];
  return parts;
}

}  // namespace

bool target_runs_on(const std::string& target, const std::string& machine) {
  if (target.empty() || machine.empty() || target == machine) return true;
  const target_parts code = parse_target(target), chip = parse_target(machine);
  if (code.number < 0 || chip.number < 0) return false;
  if (code.suffix == 'a') return code.number == chip.number;
  if (code.suffix == 'f') return code.number / 10 == chip.number / 10 && code.number <= chip.number;  // one family
  return code.number <= chip.number;  // as PTX; a cubin of another major version is refused by the driver, by name
}

binder::binder(const kernel& k, const properties& on) {
  check_machine(k, on);
  state_ = std::make_unique<state>(k, on);
}
binder::~binder() = default;
binder::binder(binder&&) noexcept = default;
binder& binder::operator=(binder&&) noexcept = default;

const launch& binder::operator()(const std::vector<value>& arguments, std::uint64_t stream) { return state_->bind(arguments, stream); }

}  // namespace tlx::device
