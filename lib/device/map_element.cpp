// The element types of tensor maps: names for manifests, sizes for checks.
#include <array>

#include "device/map_names.hpp"
#include "tlx/device/binder.hpp"

namespace tlx::device {

namespace {
struct row {
  const char* name;
  int bits;
};
// In the order of `map_element`.
constexpr std::array<row, 16> rows{{{"u8", 8}, {"u16", 16}, {"u32", 32}, {"s32", 32}, {"u64", 64}, {"s64", 64}, {"f16", 16}, {"f32", 32},
                                    {"f64", 64}, {"bf16", 16}, {"tf32", 32}, {"f32_ftz", 32}, {"tf32_ftz", 32}, {"u4x16_align8", 4},
                                    {"u4x16_align16", 4}, {"u6x16_align16", 6}}};
}  // namespace

int element_bits(map_element e) { return rows.at(static_cast<size_t>(e)).bits; }
const char* element_name(map_element e) { return rows.at(static_cast<size_t>(e)).name; }

std::optional<map_element> map_element_named(std::string_view name) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (name == rows[i].name) return static_cast<map_element>(i);
  }
  return std::nullopt;
}

bool is_empty(const tensor_map& map) {
  for (size_t d = 0; d < static_cast<size_t>(map.rank) && d < map.extents.size(); ++d) {
    if (map.extents[d] == 0) return true;
  }
  return false;
}

}  // namespace tlx::device
