#include "tlx/device/parameter_block.hpp"

#include "tlx/support/text.hpp"

namespace tlx::device {

namespace {

void add(parameter_block& to, parameter_field field, std::uint32_t bytes) {
  field.bytes = bytes;
  field.offset = (to.bytes + bytes - 1) / bytes * bytes;
  to.bytes = field.offset + bytes;
  to.fields.push_back(field);
}

}  // namespace

parameter_block lay_out(const kernel& k) {
  using kind = parameter_field::kind;
  parameter_block block;
  for (size_t i = 0; i < k.maps.size(); ++i) add(block, {kind::map, static_cast<int>(i)}, 128);
  for (size_t i = 0; i < k.parameters.size(); ++i) {
    const parameter& p = k.parameters[i];
    const int index = static_cast<int>(i);
    if (p.what == parameter::kind::scalar) {
      add(block, {kind::scalar, index}, static_cast<std::uint32_t>((p.element_bits + 7) / 8));
      continue;
    }
    add(block, {kind::base, index}, 8);
    for (int d = 0; d < p.rank; ++d) add(block, {kind::extent, index, d}, 4);
    for (int d = 0; d + 1 < p.rank; ++d) add(block, {kind::stride, index, d}, 8);
  }
  return block;
}

std::string field_name(const kernel& k, const parameter_field& field) {
  using kind = parameter_field::kind;
  const auto parameter_of = [&](size_t map) { return static_cast<size_t>(k.maps[map].parameter_index); };
  const auto index = static_cast<size_t>(field.index);
  const std::string& name = k.parameters[field.what == kind::map ? parameter_of(index) : index].name;
  switch (field.what) {
    case kind::base: return name + ".address";
    case kind::extent: return cat(name, ".extent.", field.dimension);
    case kind::stride: return cat(name, ".stride.", field.dimension);
    case kind::scalar: return name;
    case kind::map: break;
  }
  int before = 0;
  for (size_t i = 0; i < index; ++i) before += parameter_of(i) == parameter_of(index);
  return before ? cat(name, ".map.", before) : name + ".map";
}

}  // namespace tlx::device
