// Where operand bytes lie (canonical layouts of wgmma and tcgen05) and how they decode.
#include "sim/units/descriptor.hpp"

#include <algorithm>
#include <cstring>

#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

complaint wrong(std::string text) { return {misuse::descriptor_misuse, std::move(text)}; }

std::uint32_t field(std::uint64_t bits, int low, int width) { return static_cast<std::uint32_t>((bits >> low) & ((std::uint64_t{1} << width) - 1)); }

void common_fields(std::uint64_t bits, shared_descriptor& d) {
  d.start = field(bits, 0, 14) << 4;
  d.leading = field(bits, 16, 14) << 4;
  d.stride = field(bits, 32, 14) << 4;
  d.base_offset = field(bits, 49, 3);
}

/// XOR of address bits; the base offset names the 128-byte line at which the pattern starts.
std::uint32_t swizzled(operand_swizzle mode, std::uint32_t a, std::uint32_t base_offset) {
  const std::uint32_t line = (a >> 7) - base_offset;
  switch (mode) {
    case operand_swizzle::none: return a;
    case operand_swizzle::b32: return a ^ (line & 1U) << 4;
    case operand_swizzle::b64: return a ^ (line & 3U) << 4;
    case operand_swizzle::b128: return a ^ (line & 7U) << 4;
    case operand_swizzle::b128_atom32: return a ^ (line & 3U) << 5;
  }
  return a;
}

std::uint32_t width_of(operand_swizzle mode) { return mode == operand_swizzle::b32 ? 32U : mode == operand_swizzle::b64 ? 64U : 128U; }

/// `major` counts 16-byte pieces along the contiguous direction, `line` elements along the other one.
std::uint32_t piece_address(const shared_descriptor& d, bool mn_major, std::uint32_t line, std::uint32_t major) {
  if (d.swizzle == operand_swizzle::none) {
    const std::uint32_t within = d.start + line % 8 * 16;
    return mn_major ? within + major * d.stride + line / 8 * d.leading : within + line / 8 * d.stride + major * d.leading;
  }
  const std::uint32_t width = width_of(d.swizzle);
  if (!mn_major) return swizzled(d.swizzle, d.start + line / 8 * d.stride + line % 8 * width + major * 16, d.base_offset);
  const std::uint32_t pieces = width / 16;
  const std::uint32_t lines = d.swizzle == operand_swizzle::b128_atom32 ? 4 : 8;
  return swizzled(d.swizzle, d.start + major / pieces * d.leading + major % pieces * 16 + line / lines * d.stride + line % lines * width, d.base_offset);
}

int per_piece(const operand_form& f) { return f.padded ? 16 : 128 / bits_of(f.element); }
int extent_major(const operand_form& f) { return f.mn_major ? f.rows : f.k; }
int extent_lines(const operand_form& f) { return f.mn_major ? f.k : f.rows; }
int pieces_of(const operand_form& f) { return (extent_major(f) + per_piece(f) - 1) / per_piece(f); }

template <class T>
T load(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

/// Unsigned codes of narrow elements, `bits` each, low first.
void decode_codes(const std::byte* p, int bits, int count, const float* table, float* out) {
  std::uint64_t word = 0;
  int have = 0, next = 0;
  for (int i = 0; i < count; ++i) {
    if (have < bits) {
      word |= static_cast<std::uint64_t>(load<std::uint32_t>(p + next)) << have;
      next += 4;
      have += 32;
    }
    out[i] = table[word & ((1U << bits) - 1U)];
    word >>= bits;
    have -= bits;
  }
}

void decode_piece(number element, int count, const std::byte* p, float* out) {
  switch (element) {
    case number::f16:
      for (int i = 0; i < 8; ++i) out[i] = f16_to_f32(load<std::uint16_t>(p + 2 * i));
      return;
    case number::bf16:
      for (int i = 0; i < 8; ++i) out[i] = bf16_to_f32(load<std::uint16_t>(p + 2 * i));
      return;
    case number::tf32: case number::f32:
      for (int i = 0; i < 4; ++i) out[i] = std::bit_cast<float>(load<std::uint32_t>(p + 4 * i) & (element == number::tf32 ? 0xFFFFE000U : ~0U));
      return;
    case number::e4m3: case number::e5m2: {
      const float* table = widen_table(element);
      for (int i = 0; i < 16; ++i) out[i] = table[std::to_integer<std::size_t>(p[i])];
      return;
    }
    default: decode_codes(p, bits_of(element), count, widen_table(element), out);
  }
}
void decode_piece(number element, int count, const std::byte* p, std::int16_t* out) {
  for (int i = 0; i < count; ++i)
    out[i] = element == number::u8 ? std::to_integer<std::int16_t>(p[i]) : static_cast<std::int16_t>(static_cast<std::int8_t>(p[i]));
}

template <class T>
complaint gather(const shared_descriptor& d, const operand_form& f, std::span<const std::byte> shared, T* dense) {
  const int count = per_piece(f), pieces = pieces_of(f), lines = extent_lines(f), major = extent_major(f);
  T part[32];
  for (int line = 0; line < lines; ++line)
    for (int c = 0; c < pieces; ++c) {
      const std::uint32_t at = piece_address(d, f.mn_major, static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(c));
      if (std::size_t{at} + 16 > shared.size())
        return {misuse::out_of_bounds, cat("a matrix operand reads shared bytes ", at, "..", at + 16, ", the CTA has ", shared.size())};
      const int left = std::min(count, major - c * count);
      if (!f.mn_major && left == count) {
        decode_piece(f.element, count, shared.data() + at, dense + static_cast<std::ptrdiff_t>(line) * f.k + c * count);
        continue;
      }
      decode_piece(f.element, count, shared.data() + at, part);
      for (int i = 0; i < left; ++i) {
        const std::ptrdiff_t m = c * count + i;
        dense[f.mn_major ? m * f.k + line : line * static_cast<std::ptrdiff_t>(f.k) + m] = part[i];
      }
    }
  return {};
}

}  // namespace

complaint decode_wgmma_descriptor(std::uint64_t bits, shared_descriptor& out) {
  common_fields(bits, out);
  if (field(bits, 14, 2) != 0 || field(bits, 30, 2) != 0 || field(bits, 46, 3) != 0 || field(bits, 52, 10) != 0)
    return wrong(cat("the wgmma matrix descriptor ", bits, " has a reserved bit set"));
  constexpr operand_swizzle modes[4] = {operand_swizzle::none, operand_swizzle::b128, operand_swizzle::b64, operand_swizzle::b32};
  out.swizzle = modes[field(bits, 62, 2)];
  return {};
}

complaint decode_tcgen05_descriptor(std::uint64_t bits, shared_descriptor& out) {
  common_fields(bits, out);
  if (field(bits, 46, 3) != 1) return wrong(cat("bits 46..48 of a tcgen05 matrix descriptor must be 1, they are ", field(bits, 46, 3)));
  if (field(bits, 14, 2) != 0 || field(bits, 30, 2) != 0 || field(bits, 53, 8) != 0) return wrong(cat("the tcgen05 matrix descriptor ", bits, " has a reserved bit set"));
  if (field(bits, 52, 1) != 0) return {misuse::unsupported, "matrix descriptors with an absolute leading-dimension address"};
  switch (field(bits, 61, 3)) {
    case 0: out.swizzle = operand_swizzle::none; return {};
    case 1: out.swizzle = operand_swizzle::b128_atom32; return {};
    case 2: out.swizzle = operand_swizzle::b128; return {};
    case 4: out.swizzle = operand_swizzle::b64; return {};
    case 6: out.swizzle = operand_swizzle::b32; return {};
    default: return wrong(cat("layout type ", field(bits, 61, 3), " of a tcgen05 matrix descriptor does not exist"));
  }
}

element_place place_of(const shared_descriptor& d, const operand_form& f, int row, int k) {
  const int along = f.mn_major ? row : k, line = f.mn_major ? k : row, count = per_piece(f);
  return {piece_address(d, f.mn_major, static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(along / count)),
          static_cast<std::uint32_t>(along % count * bits_of(f.element))};
}

void operand_pieces(const shared_descriptor& d, const operand_form& f, std::vector<std::uint32_t>& addresses) {
  const int pieces = pieces_of(f), lines = extent_lines(f);
  addresses.clear();
  addresses.reserve(static_cast<std::size_t>(pieces) * static_cast<std::size_t>(lines));
  for (int line = 0; line < lines; ++line)
    for (int c = 0; c < pieces; ++c) addresses.push_back(piece_address(d, f.mn_major, static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(c)));
}

void merge_pieces(std::span<const std::uint32_t> addresses, std::vector<byte_range>& ranges) {
  ranges.clear();
  for (const std::uint32_t a : addresses) ranges.push_back({a, a + 16});
  std::sort(ranges.begin(), ranges.end(), [](const byte_range& x, const byte_range& y) { return x.begin < y.begin; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin <= ranges[kept].end) {
      ranges[kept].end = std::max(ranges[kept].end, ranges[i].end);
    } else {
      ranges[++kept] = ranges[i];
    }
  }
  if (!ranges.empty()) ranges.resize(kept + 1);
}

complaint gather_floats(const shared_descriptor& d, const operand_form& f, std::span<const std::byte> shared, float* dense) { return gather(d, f, shared, dense); }
complaint gather_integers(const shared_descriptor& d, const operand_form& f, std::span<const std::byte> shared, std::int16_t* dense) {
  return gather(d, f, shared, dense);
}

}  // namespace tlx::sim
