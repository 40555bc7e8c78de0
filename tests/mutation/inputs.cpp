#include "inputs.hpp"

#include <cmath>
#include <random>
#include <string>

#include "tlx/tile/element.hpp"

namespace tlx::mutation {

namespace {
constexpr std::int64_t gap = 8;  // elements between rows of a matrix: 16 bytes, NaN

/// Of attention kernels, from names like block_attention_bf16_d128; 64 where the name has none.
std::int64_t head_dimension(const std::string& name) {
  for (std::size_t at = name.find("_d"); at != std::string::npos; at = name.find("_d", at + 1))
    if (at + 2 < name.size() && name[at + 2] >= '0' && name[at + 2] <= '9') return std::stol(name.substr(at + 2));
  return 64;
}
}

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
      else if (p->type.rank == 3) in.extents = {200, 2, head_dimension(k.name)};
      else in.extents.assign(static_cast<std::size_t>(p->type.rank), 264);
      in.strides.assign(in.extents.size(), 1);
      for (std::size_t axis = in.extents.size(); axis-- > 1;) in.strides[axis - 1] = in.strides[axis] * in.extents[axis] + (in.extents.size() == 2 ? gap : 0);
      count = static_cast<std::size_t>(in.strides[0] * in.extents[0]);
    }
    const auto in_a_gap = [&](std::size_t i) { return in.view && in.extents.size() == 2 && static_cast<std::int64_t>(i) % in.strides[0] >= in.extents[1]; };
    static constexpr std::int32_t offsets[] = {0, 40, 104, 200};
    for (std::size_t i = 0; i < count; ++i) {
      const auto put = [&](auto v) {
        const auto* from = reinterpret_cast<const std::byte*>(&v);
        in.bytes.insert(in.bytes.end(), from, from + sizeof v);
      };
      const float value = in_a_gap(i) ? std::nanf("") : normal(bits);
      if (e == tile::element::bf16) put(bf16(value));
      else if (e == tile::element::f16) put(f16(value));
      else if (e == tile::element::f32) put(in.view ? value : 0.5F);
      else put(in.view ? offsets[i % 4] : std::int32_t{1});
    }
    all.push_back(std::move(in));
  }
  return all;
}

std::vector<device::value> put(const std::vector<input>& inputs, device::machine& m, std::vector<device::buffer>& on) {
  std::vector<device::value> values;
  for (const input& in : inputs) {
    if (!in.view) {
      values.push_back({.bytes = in.bytes});
      continue;
    }
    on.emplace_back(m, in.bytes.size());
    on.back().write(in.bytes.data(), in.bytes.size());
    values.push_back(device::view_value(on.back().where(), in.extents, in.strides));
  }
  return values;
}

}  // namespace tlx::mutation
