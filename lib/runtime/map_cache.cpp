#include "runtime/map_cache.hpp"

#include "tlx/device/binder.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::runtime {

namespace {

using device::map_element;
using device::tensor_map;

bool same(const tensor_map& a, const tensor_map& b) {
  return a.base == b.base && a.extents == b.extents && a.strides_bytes == b.strides_bytes && a.box == b.box && a.element_strides == b.element_strides &&
         a.element == b.element && a.rank == b.rank && a.swizzle_bytes == b.swizzle_bytes && a.interleave_bytes == b.interleave_bytes &&
         a.oob_nan == b.oob_nan && a.l2_promotion_bytes == b.l2_promotion_bytes;
}

// Over what tells maps of one kernel apart; same() looks at the rest.
size_t hash(const tensor_map& m) {
  std::uint64_t h = m.base * 0x9e3779b97f4a7c15u;
  h ^= m.extents[0] * 0xff51afd7ed558ccdu + m.extents[1] * 0xc4ceb9fe1a85ec53u + m.strides_bytes[0] * 0x94d049bb133111ebu;
  h += (m.box[0] | std::uint64_t{m.box[1]} << 16) * 0xbf58476d1ce4e5b9u;
  return static_cast<size_t>((h ^ h >> 32) * 0x9e3779b97f4a7c15u >> 40);
}

int driver_element(map_element e) {
  switch (e) {
    case map_element::u8: return cu::map_u8;
    case map_element::u16: return cu::map_u16;
    case map_element::u32: return cu::map_u32;
    case map_element::s32: return cu::map_s32;
    case map_element::u64: return cu::map_u64;
    case map_element::s64: return cu::map_s64;
    case map_element::f16: return cu::map_f16;
    case map_element::f32: return cu::map_f32;
    case map_element::f64: return cu::map_f64;
    case map_element::bf16: return cu::map_bf16;
    case map_element::tf32: return cu::map_tf32;
    case map_element::f32_ftz: return cu::map_f32_ftz;
    case map_element::tf32_ftz: return cu::map_tf32_ftz;
    case map_element::u4x16_align8: return cu::map_u4x16_align8;
    case map_element::u4x16_align16: return cu::map_u4x16_align16;
    case map_element::u6x16_align16: return cu::map_u6x16_align16;
  }
  return -1;
}

[[noreturn]] void refuse(const tensor_map& m, const std::string& what, const std::string& rule) {
  std::ostringstream text;
  text << what << " (base 0x" << std::hex << m.base << std::dec << ", " << device::element_name(m.element) << ", extents";
  for (int d = 0; d < m.rank && d < 5; ++d) text << ' ' << m.extents[static_cast<size_t>(d)];
  text << ", strides";
  for (int d = 0; d + 1 < m.rank && d < 4; ++d) text << ' ' << m.strides_bytes[static_cast<size_t>(d)];
  text << " bytes, box";
  for (int d = 0; d < m.rank && d < 5; ++d) text << ' ' << m.box[static_cast<size_t>(d)];
  text << ", swizzle " << m.swizzle_bytes << ")";
  raise(user_error({.id = "tensor-map-refused",
                    .what = text.str(),
                    .because = rule,
                    .fix = {"change the tensor or the box so that the rule holds, or read it without a tensor map"}}));
}

// One of the enumerators for 0, 32, 64, 128, ... or an error.
template <size_t N>
int choose(const tensor_map& m, int bytes, const std::array<std::pair<int, int>, N>& table, const char* what) {
  for (const auto& [wanted, code] : table) {
    if (wanted == bytes) return code;
  }
  refuse(m, cat("tensor map with ", what, " of ", bytes, " bytes"), cat("no such ", what));
}

// The documented limits of cuTensorMapEncodeTiled, checked here because the driver only says "invalid argument".
void check_rules(const tensor_map& m) {
  if (m.rank < 1 || m.rank > 5) refuse(m, cat("tensor map of rank ", m.rank), "a tensor map has 1 to 5 dimensions");
  const bool packed_16 = m.element == map_element::u4x16_align16 || m.element == map_element::u6x16_align16;
  const std::uint64_t align = packed_16 || m.interleave_bytes == 32 ? 32 : 16;
  if (m.base % align != 0) refuse(m, cat("tensor map with a base ", m.base % align, " bytes past a multiple of ", align), cat("the base is a multiple of ", align, " bytes"));
  const auto rank = static_cast<size_t>(m.rank);
  for (size_t d = 0; d < rank; ++d) {
    if (m.extents[d] > (std::uint64_t{1} << 32)) refuse(m, cat("tensor map with extent ", m.extents[d], " in dimension ", d), "extents are at most 2^32");
    if (m.box[d] < 1 || m.box[d] > 256) refuse(m, cat("tensor map with box extent ", m.box[d], " in dimension ", d), "box extents are 1 to 256");
    if (m.element_strides[d] < 1 || m.element_strides[d] > 8) {
      refuse(m, cat("tensor map with element stride ", m.element_strides[d], " in dimension ", d), "element strides are 1 to 8");
    }
    if (d + 1 < rank && (m.strides_bytes[d] % align != 0 || m.strides_bytes[d] >= (std::uint64_t{1} << 40))) {
      refuse(m, cat("tensor map with stride ", m.strides_bytes[d], " bytes in dimension ", d + 1), cat("strides are multiples of ", align, " bytes and below 2^40"));
    }
  }
  if (packed_16 || m.interleave_bytes != 0) return;
  const std::uint64_t inner_bits = std::uint64_t{m.box[0]} * static_cast<std::uint64_t>(device::element_bits(m.element));
  if (inner_bits % 128 != 0) refuse(m, cat("tensor map with an innermost box of ", inner_bits / 8, " bytes"), "the innermost box extent is a multiple of 16 bytes");
  if (m.swizzle_bytes > 0 && inner_bits > 8 * static_cast<std::uint64_t>(m.swizzle_bytes)) {
    refuse(m, cat("tensor map with an innermost box of ", inner_bits / 8, " bytes"), "the innermost box extent fits the swizzle span");
  }
}

cu::result ask(const driver& d, const map_call& c, device::address base, cu::tensor_map& out) {
  return d.encode_tiled(&out, c.element, static_cast<unsigned>(c.rank), reinterpret_cast<void*>(base), c.extents.data(), c.strides_bytes.data(), c.box.data(), c.element_strides.data(), c.interleave, c.swizzle,
                        c.promotion, c.fill);
}

void encode_fresh(const driver& d, const tensor_map& recipe, device::address nowhere, cu::tensor_map& out) {
  check_rules(recipe);
  tensor_map m = recipe;
  if (device::is_empty(m)) {
    // A map cannot have an extent of 0. One element of memory that holds zeros is the nearest: every load of the tensor reads zeros,
    // as it would out of bounds. A store to coordinate 0 would land there; kernels have no reason to make one.
    m.base = nowhere;
    for (size_t dim = 0; dim < static_cast<size_t>(m.rank); ++dim) m.extents[dim] = 1;
    if (m.element == map_element::u4x16_align16 || m.element == map_element::u6x16_align16) m.extents[0] = 128;
  }
  const cu::result code = ask(d, map_call(m), m.base, out);
  if (code != cu::success) refuse(recipe, "cuTensorMapEncodeTiled returned " + describe(d, code), "the driver refuses this combination");
}

}  // namespace

map_call::map_call(const tensor_map& m)
    : extents(m.extents), strides_bytes(m.strides_bytes), box(m.box), element_strides(m.element_strides), element(driver_element(m.element)), rank(m.rank),
      interleave(choose<3>(m, m.interleave_bytes, {{{0, cu::interleave_none}, {16, cu::interleave_16}, {32, cu::interleave_32}}}, "interleave")),
      swizzle(choose<4>(m, m.swizzle_bytes, {{{0, cu::swizzle_none}, {32, cu::swizzle_32}, {64, cu::swizzle_64}, {128, cu::swizzle_128}}}, "swizzle")),
      promotion(choose<4>(m, m.l2_promotion_bytes, {{{0, cu::promotion_none}, {64, cu::promotion_64}, {128, cu::promotion_128}, {256, cu::promotion_256}}}, "L2 promotion")),
      fill(m.oob_nan ? cu::fill_nan : cu::fill_zero) {}

void map_cache::encode(const driver& d, const tensor_map& recipe, device::address nowhere, cu::tensor_map& out) {
  const size_t set = hash(recipe) % sets;
  for (const slot& s : slots_[set]) {
    if (s.used && same(s.recipe, recipe)) {
      out = s.encoded;
      return;
    }
  }
  encode_fresh(d, recipe, nowhere, out);
  encoded_.fetch_add(1, std::memory_order_relaxed);
  slot& s = slots_[set][next_way_[set]++ % ways];
  s.used = true;
  s.recipe = recipe;
  s.encoded = out;
}

void map_cache::encode_moved(const driver& d, const map_call& call, device::address base, cu::tensor_map& out) {
  const cu::result code = ask(d, call, base, out);
  if (code != cu::success) {
    tensor_map m;
    m.base = base;
    m.rank = call.rank;
    m.extents = call.extents;
    m.strides_bytes = call.strides_bytes;
    m.box = call.box;
    refuse(m, "cuTensorMapEncodeTiled returned " + describe(d, code) + " for an address that is new", "the driver refuses this combination");
  }
  encoded_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tlx::runtime
