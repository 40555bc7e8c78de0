#include "inputs.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::mutation {

namespace {
constexpr std::int64_t batches = 2;
/// Sequences of 40, 5, 59 and 96 tokens. The second is NaN, and so are six tokens behind the last: what a neighbour's rows leave in a tile shows.
constexpr std::int32_t offsets[] = {0, 40, 45, 104, 200};
constexpr std::int64_t nan_from = 40, nan_to = 45;

/// Of attention kernels, from names like block_attention_bf16_d128; 64 where the name has none.
std::int64_t head_dimension(const std::string& name) {
  for (std::size_t at = name.find("_d"); at != std::string::npos; at = name.find("_d", at + 1))
    if (at + 2 < name.size() && name[at + 2] >= '0' && name[at + 2] <= '9') return std::stol(name.substr(at + 2));
  return 64;
}

/// What a view of kernel `k` has along each axis. Jagged kernels have a table of offsets and views of (token, head, number).
std::vector<std::int64_t> extents_of(const ir::kernel& k, const ir::value_def& p, bool jagged, std::int64_t extent) {
  if (jagged && p.type.rank == 3) {
    // Grouped: heads of q share those of k.
    const bool of_keys = p.name == "k" || p.name == "v" || p.name == "dk" || p.name == "dv";
    const std::int64_t heads = k.name.find("_grouped") == std::string::npos ? 2 : of_keys ? 2 : 4;
    return {offsets[std::size(offsets) - 1] + 6, heads, head_dimension(k.name)};
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(p.type.rank), extent);
  if (p.type.rank == 3) all[0] = batches;
  return all;
}

template <class T>
void append(std::vector<std::byte>& to, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), from, from + sizeof value);
}

/// `value` as an element (in an integer's gap stands a number, as good as any other); the program stops at one that it does not know, since bytes of another size would be another pattern.
void append(std::vector<std::byte>& to, tile::element e, float value) {
  switch (e) {
    case tile::element::bf16: return append(to, bf16(value));
    case tile::element::f16: return append(to, f16(value));
    case tile::element::f32: return append(to, value);
    case tile::element::tf32: return append(to, tf32(value).value);
    case tile::element::e4m3: return append(to, e4m3(value));
    case tile::element::e5m2: return append(to, e5m2(value));
    case tile::element::s8: return append(to, static_cast<signed char>(std::isnan(value) ? 77 : std::clamp(32 * value, -128.0F, 127.0F)));
    default: raise(internal_error({.id = "mutation-subject-wrong", .what = cat("no inputs of element type ", tile::name(e))}));
  }
}
}  // namespace

std::vector<input> inputs_of(const ir::kernel& k, std::int64_t extent) {
  std::vector<input> all;
  std::mt19937 bits(7);
  std::normal_distribution<float> normal;
  const auto is_table = [](const ir::value_def& p) { return p.type.is(ir::type::kind::view) && p.type.rank == 1 && tile::is_integer(p.type.element); };
  const bool jagged = std::any_of(k.parameters().begin(), k.parameters().end(), [&](const auto& p) { return is_table(*p); });
  for (const auto& p : k.parameters()) {
    input in;
    in.view = p->type.is(ir::type::kind::view);
    const tile::element e = p->type.element;
    if (!in.view) {
      tile::is_integer(e) ? append(in.bytes, std::int32_t{1}) : append(in.bytes, e, 0.5F);
    } else if (is_table(*p)) {
      in.extents = {static_cast<std::int64_t>(std::size(offsets))};
      in.strides = {1};
      for (const std::int32_t o : offsets) append(in.bytes, o);
    } else {
      in.extents = extents_of(k, *p, jagged, extent);
      in.strides.assign(in.extents.size(), 1);
      const std::size_t rank = in.extents.size();
      const bool gaps = rank > 1 && !jagged;  // at most 16 bytes behind each row, so that rows begin at multiples of 16
      const std::int64_t aligned = 128 / tile::bits(e), columns = in.extents[rank - 1], row = gaps ? (columns / aligned + 1) * aligned : columns;
      for (std::size_t axis = rank - 1; axis-- > 0;) in.strides[axis] = axis + 2 == rank ? row : in.strides[axis + 1] * in.extents[axis + 1];
      const auto is_nan = [&](std::int64_t i) {
        const std::int64_t token = jagged && rank == 3 ? i / in.strides[0] : -1;
        return (gaps && i % row >= columns) || (token >= nan_from && token < nan_to) || token >= offsets[std::size(offsets) - 1];
      };
      // Nothing behind the last element, so that what is read there is out of bounds.
      const std::int64_t count = in.strides[0] * in.extents[0] - (row - columns);
      for (std::int64_t i = 0; i < count; ++i) append(in.bytes, e, is_nan(i) ? std::nanf("") : normal(bits));
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
