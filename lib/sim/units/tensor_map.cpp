// Validation and our byte form of a tensor map, and tensormap.replace on it.
#include "sim/units/tensor_map.hpp"

#include <cstring>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

using device::map_element;

/// Extents and boxes are kept minus one, so that zero bytes are a valid start for tensormap.replace. An extent of 0 (an empty tensor) has a bit of its own.
struct fields {
  char magic[8];
  std::uint64_t base;
  std::uint64_t strides[4];
  std::uint32_t extents_less_one[5];
  std::uint16_t box_less_one[5];
  std::uint8_t element_strides_less_one[5];
  std::uint8_t element, rank_less_one, interleave, swizzle, atomicity, oob_nan, l2_promotion;
  std::uint8_t empty;  // bit d: dimension d has extent 0
};
static_assert(sizeof(fields) <= map_blob_bytes && std::is_trivially_copyable_v<fields>);
constexpr char magic_text[8] = {'t', 'l', 'x', '.', 'm', 'a', 'p', '1'};

bool load(std::span<const std::byte, map_blob_bytes> bytes, fields& f) {
  std::memcpy(&f, bytes.data(), sizeof f);
  return std::memcmp(f.magic, magic_text, sizeof magic_text) == 0;
}

bool padded(map_element e) { return e == map_element::u4x16_align16 || e == map_element::u6x16_align16; }
bool has_nan(map_element e) {
  switch (e) {
    case map_element::f16: case map_element::f32: case map_element::f64: case map_element::bf16: case map_element::tf32: case map_element::f32_ftz:
    case map_element::tf32_ftz: return true;
    default: return false;
  }
}

std::string refusal(const device::tensor_map& m, int swizzle_width) {
  if (m.rank < 1 || m.rank > 5) return cat("rank ", m.rank, " is outside 1..5");
  if (m.interleave_bytes != 0 && m.interleave_bytes != 16 && m.interleave_bytes != 32) return cat("interleave of ", m.interleave_bytes, " bytes is not 0, 16 or 32");
  if (m.interleave_bytes != 0 && m.rank < 3) return cat("an interleaved map needs rank 3 or more, this one has ", m.rank);
  if (m.interleave_bytes == 32 && swizzle_width != 32) return cat("interleave of 32 bytes needs the 32-byte swizzle, not ", swizzle_width);
  const std::uint64_t align = m.interleave_bytes == 32 || padded(m.element) ? 32 : 16;
  if (m.base % align != 0) return cat("the base address ", m.base, " is not a multiple of ", align);
  if (m.l2_promotion_bytes != 0 && m.l2_promotion_bytes != 64 && m.l2_promotion_bytes != 128 && m.l2_promotion_bytes != 256)
    return cat("L2 promotion of ", m.l2_promotion_bytes, " bytes is not 0, 64, 128 or 256");
  if (m.oob_nan && !has_nan(m.element)) return "NaN fill needs a floating-point element type";
  for (int i = 0; i < m.rank; ++i) {
    const std::size_t d = static_cast<std::size_t>(i);
    if (m.extents[d] > std::uint64_t{1} << 32) return cat("extent ", m.extents[d], " of dimension ", i, " exceeds 2^32");
    if (m.box[d] < 1 || m.box[d] > 256) return cat("box extent ", m.box[d], " of dimension ", i, " is outside 1..256");
    if (m.element_strides[d] < 1 || m.element_strides[d] > 8) return cat("element stride ", m.element_strides[d], " of dimension ", i, " is outside 1..8");
    if (i == 0) continue;
    const std::uint64_t stride = m.strides_bytes[d - 1];
    if (stride % align != 0) return cat("the stride of dimension ", i, ", ", stride, " bytes, is not a multiple of ", align);
    if (stride >= std::uint64_t{1} << 40) return cat("the stride of dimension ", i, ", ", stride, " bytes, is not below 2^40");
  }
  if (padded(m.element)) {
    if (m.extents[0] % 128 != 0) return cat("a padded sub-byte element type needs an inner extent that is a multiple of 128, not ", m.extents[0]);
    if (m.box[0] != 128) return cat("a padded sub-byte element type needs an inner box of 128 elements, not ", m.box[0]);
  }
  const std::uint64_t inner_bits = std::uint64_t{m.box[0]} * static_cast<std::uint64_t>(element_shared_bits(m.element));
  if (m.interleave_bytes == 0 && inner_bits % 128 != 0) return cat("the inner box extent is ", inner_bits, " bits, not a multiple of 16 bytes");
  if (swizzle_width != 0 && m.interleave_bytes == 0 && inner_bits > static_cast<std::uint64_t>(swizzle_width) * 8)
    return cat("the inner box extent of ", inner_bits / 8, " bytes exceeds the swizzle of ", swizzle_width, " bytes");
  return {};
}

constexpr int width_of_mode[5] = {0, 32, 64, 128, 96};

bool swizzle_of(int mode, int atomicity, swizzle_mode& out) {
  if (mode != 3) {
    constexpr swizzle_mode plain[5] = {swizzle_mode::none, swizzle_mode::b32, swizzle_mode::b64, swizzle_mode::none, swizzle_mode::b96};
    out = plain[mode];
    return atomicity == 0;
  }
  constexpr swizzle_mode wide[4] = {swizzle_mode::b128, swizzle_mode::b128_atom32, swizzle_mode::b128_atom32_flip8, swizzle_mode::b128_atom64};
  out = wide[atomicity];
  return true;
}

// tensormap.replace numbers the element types differently from the driver.
constexpr map_element replace_elements[16] = {map_element::u8,  map_element::u16,     map_element::u32, map_element::s32,  map_element::u64,
                                              map_element::s64, map_element::f16,     map_element::f32, map_element::f32_ftz, map_element::f64,
                                              map_element::bf16, map_element::tf32,   map_element::tf32_ftz, map_element::u4x16_align8,
                                              map_element::u4x16_align16, map_element::u6x16_align16};

}  // namespace

int element_bits(map_element e) {
  switch (e) {
    case map_element::u8: return 8;
    case map_element::u16: case map_element::f16: case map_element::bf16: return 16;
    case map_element::u64: case map_element::s64: case map_element::f64: return 64;
    case map_element::u4x16_align8: case map_element::u4x16_align16: return 4;
    case map_element::u6x16_align16: return 6;
    default: return 32;
  }
}
int element_shared_bits(map_element e) { return padded(e) ? 8 : element_bits(e); }

std::string tensor_map_refusal(const device::tensor_map& m) {
  if (m.swizzle_bytes != 0 && m.swizzle_bytes != 32 && m.swizzle_bytes != 64 && m.swizzle_bytes != 128)
    return cat("a swizzle of ", m.swizzle_bytes, " bytes is not 0, 32, 64 or 128");
  return refusal(m, m.swizzle_bytes);
}

map_blob encode_tensor_map(const device::tensor_map& m) {
  if (const std::string why = tensor_map_refusal(m); !why.empty())
    raise(user_error({.id = "tensor-map-refused", .what = why, .because = "a tensor map must satisfy the limits of cuTensorMapEncodeTiled",
                      .fix = {"change the tensor's layout, the box or the swizzle so that the rule holds"}}));
  fields f{};
  std::memcpy(f.magic, magic_text, sizeof magic_text);
  f.base = m.base;
  for (std::size_t d = 0; d < 5; ++d) {
    const bool used = d < static_cast<std::size_t>(m.rank);
    if (d < 4 && d + 1 < static_cast<std::size_t>(m.rank)) f.strides[d] = m.strides_bytes[d];
    f.extents_less_one[d] = used && m.extents[d] != 0 ? static_cast<std::uint32_t>(m.extents[d] - 1) : 0;
    if (used && m.extents[d] == 0) f.empty = static_cast<std::uint8_t>(f.empty | 1U << d);
    f.box_less_one[d] = used ? static_cast<std::uint16_t>(m.box[d] - 1) : std::uint16_t{0};
    f.element_strides_less_one[d] = used ? static_cast<std::uint8_t>(m.element_strides[d] - 1) : std::uint8_t{0};
  }
  f.element = static_cast<std::uint8_t>(m.element);
  f.rank_less_one = static_cast<std::uint8_t>(m.rank - 1);
  f.interleave = static_cast<std::uint8_t>(m.interleave_bytes / 16);
  f.swizzle = static_cast<std::uint8_t>(m.swizzle_bytes == 0 ? 0 : m.swizzle_bytes == 32 ? 1 : m.swizzle_bytes == 64 ? 2 : 3);
  f.oob_nan = m.oob_nan ? 1 : 0;
  f.l2_promotion = static_cast<std::uint8_t>(m.l2_promotion_bytes / 64);
  map_blob blob{};
  std::memcpy(blob.data(), &f, sizeof f);
  return blob;
}

complaint decode_tensor_map(std::span<const std::byte, map_blob_bytes> bytes, decoded_map& out) {
  fields f{};
  if (!load(bytes, f)) return {misuse::descriptor_misuse, "the 128 bytes given as a tensor map are not a tensor map"};
  if (f.rank_less_one > 4 || f.element > static_cast<std::uint8_t>(map_element::u6x16_align16) || f.interleave > 2 || f.swizzle > 4 || f.atomicity > 3)
    return {misuse::descriptor_misuse, "the tensor map holds a field outside its range: its bytes were overwritten"};
  device::tensor_map& m = out.map;
  m = {};
  m.base = f.base;
  for (std::size_t d = 0; d < 5; ++d) {
    if (d < 4) m.strides_bytes[d] = f.strides[d];
    m.extents[d] = (f.empty >> d & 1U) != 0 ? 0 : std::uint64_t{f.extents_less_one[d]} + 1;
    m.box[d] = std::uint32_t{f.box_less_one[d]} + 1;
    m.element_strides[d] = std::uint32_t{f.element_strides_less_one[d]} + 1;
  }
  m.element = static_cast<map_element>(f.element);
  m.rank = f.rank_less_one + 1;
  m.interleave_bytes = f.interleave * 16;
  m.swizzle_bytes = width_of_mode[f.swizzle];
  m.oob_nan = f.oob_nan != 0;
  m.l2_promotion_bytes = f.l2_promotion * 64;
  if (!swizzle_of(f.swizzle, f.atomicity, out.swizzle)) return {misuse::descriptor_misuse, "a swizzle atomicity other than 16 bytes needs the 128-byte swizzle"};
  if (const std::string why = refusal(m, m.swizzle_bytes); !why.empty()) return {misuse::descriptor_misuse, cat("the tensor map is not valid: ", why)};
  return {};
}

complaint replace_map_field(std::span<std::byte, map_blob_bytes> bytes, map_field field, int ordinal, std::uint64_t value) {
  fields f{};
  if (!load(bytes, f)) {
    for (const std::byte b : bytes)
      if (b != std::byte{0}) return {misuse::descriptor_misuse, "tensormap.replace on 128 bytes that are neither a tensor map nor zero"};
    std::memcpy(f.magic, magic_text, sizeof magic_text);
  }
  const bool by_dimension = field == map_field::box_dim || field == map_field::global_dim || field == map_field::global_stride || field == map_field::element_stride;
  if (by_dimension && (ordinal < 0 || ordinal > (field == map_field::global_stride ? 3 : 4)))
    return {misuse::malformed, cat("tensormap.replace names dimension ", ordinal)};
  const std::size_t d = by_dimension ? static_cast<std::size_t>(ordinal) : 0;
  const auto reject = [&](const char* what) { return complaint{misuse::descriptor_misuse, cat("tensormap.replace: ", value, " is no ", what)}; };
  switch (field) {
    case map_field::global_address: f.base = value; break;
    case map_field::rank:
      if (value > 4) return reject("rank minus one");
      f.rank_less_one = static_cast<std::uint8_t>(value);
      break;
    case map_field::box_dim:
      if (value < 1 || value > 256) return reject("box extent (1..256)");
      f.box_less_one[d] = static_cast<std::uint16_t>(value - 1);
      break;
    case map_field::global_dim:
      if (value < 1 || value > std::uint64_t{1} << 32) return reject("extent (1..2^32)");
      f.extents_less_one[d] = static_cast<std::uint32_t>(value - 1);
      f.empty = static_cast<std::uint8_t>(f.empty & ~(1U << d));
      break;
    case map_field::global_stride: f.strides[d] = value; break;
    case map_field::element_stride:
      if (value < 1 || value > 8) return reject("element stride (1..8)");
      f.element_strides_less_one[d] = static_cast<std::uint8_t>(value - 1);
      break;
    case map_field::elemtype:
      if (value > 15) return reject("element type (0..15)");
      f.element = static_cast<std::uint8_t>(replace_elements[value]);
      break;
    case map_field::interleave_layout:
      if (value > 2) return reject("interleave layout (0..2)");
      f.interleave = static_cast<std::uint8_t>(value);
      break;
    case map_field::swizzle_mode:
      if (value > 4) return reject("swizzle mode (0..4)");
      f.swizzle = static_cast<std::uint8_t>(value);
      break;
    case map_field::swizzle_atomicity:
      if (value > 3) return reject("swizzle atomicity (0..3)");
      f.atomicity = static_cast<std::uint8_t>(value);
      break;
    case map_field::fill_mode:
      if (value > 1) return reject("fill mode (0 or 1)");
      f.oob_nan = static_cast<std::uint8_t>(value);
      break;
  }
  std::memcpy(bytes.data(), &f, sizeof f);
  return {};
}

}  // namespace tlx::sim
