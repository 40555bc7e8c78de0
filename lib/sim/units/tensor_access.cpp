// tcgen05.ld and st: which register of which lane is which word. PTX ISA 9.7.17.8; maps as closed forms.
#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/units/tensor_memory.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

complaint wrong(std::string text) { return {misuse::tmem_misuse, std::move(text)}; }

struct offset { int lane = 0, column = 0; };

offset place(const tmem_access& a, int t, int r) {
  switch (a.shape) {
    case tmem_shape::s32x32b: return {t, r};
    case tmem_shape::s16x64b: return {8 * (t & 1) + (t >> 2), ((t >> 1) & 1) + 2 * r};
    case tmem_shape::s16x128b: return {(t >> 2) + 8 * (r & 1), (t & 3) + 4 * (r >> 1)};
    case tmem_shape::s16x256b: return {(t >> 2) + 8 * ((r >> 1) & 1), 2 * (t & 3) + (r & 1) + 8 * (r >> 2)};
    case tmem_shape::s16x32bx2: return {t & 15, r};
  }
  return {};
}

int table_columns(const tmem_access& a) {
  const int n = a.repeat;
  switch (a.shape) {
    case tmem_shape::s16x64b: return 2 * n;
    case tmem_shape::s16x128b: return 4 * n;
    case tmem_shape::s16x256b: return 8 * n;
    default: return n;
  }
}

complaint check(const tmem_access& a) {
  if (tmem_registers(a.shape, a.repeat) == 0) return {misuse::malformed, cat("tcgen05.ld/st has no .x", a.repeat, " of this shape")};
  const int lane = tmem_lane(a.address), base = 32 * (a.warp % 4);
  const bool lane_ok = lane == base || (a.shape != tmem_shape::s32x32b && lane == base + 16);
  if (!lane_ok)
    return wrong(cat("tcgen05.ld/st at lane ", lane, ": warp ", a.warp, " reaches lanes ", base, "..", base + 31,
                     a.shape == tmem_shape::s32x32b ? " and must start at the first" : " and must start at the first or the 17th"));
  const column_span s = tmem_columns_of(a);
  if (s.first < 0 || s.first + s.count > tmem_columns) return wrong(cat("tcgen05.ld/st of columns ", s.first, "..", s.first + s.count - 1, " is beyond the 512 of tensor memory"));
  return {};
}

std::uint32_t word_at(const tmem_access& a, int t, int r, int half) {
  const offset o = place(a, t, r);
  int column = a.packed ? 2 * o.column + half : o.column;
  if (a.shape == tmem_shape::s16x32bx2 && t >= 16) column += a.half_split;
  return static_cast<std::uint32_t>((tmem_lane(a.address) + o.lane) * tmem_columns + tmem_column(a.address) + column);
}

}  // namespace

int tmem_registers(tmem_shape shape, int n) {
  if (n < 1 || n > 128 || !std::has_single_bit(static_cast<unsigned>(n))) return 0;
  const int each = shape == tmem_shape::s16x128b ? 2 : shape == tmem_shape::s16x256b ? 4 : 1;
  return each * n <= 128 ? each * n : 0;
}

column_span tmem_columns_of(const tmem_access& a) {
  const int count = table_columns(a) * (a.packed ? 2 : 1), first = tmem_column(a.address);
  if (a.shape != tmem_shape::s16x32bx2) return {first, count};
  return {first + std::min(0, a.half_split), std::abs(a.half_split) + count};
}

complaint tmem_map(const tmem_access& a, std::vector<std::uint32_t>& words) {
  words.clear();
  if (complaint c = check(a)) return c;
  const int registers = tmem_registers(a.shape, a.repeat);
  words.reserve(static_cast<std::size_t>(registers) * 64);
  for (int r = 0; r < registers; ++r)
    for (int t = 0; t < 32; ++t) {
      words.push_back(word_at(a, t, r, 0));
      if (a.packed) words.push_back(word_at(a, t, r, 1));
    }
  return {};
}

complaint tmem_load(const tensor_memory& t, const tmem_access& a, std::uint32_t* registers, std::uint32_t* poison) {
  if (complaint c = check(a)) return c;
  const int count = tmem_registers(a.shape, a.repeat);
  const std::uint32_t* words = t.words();
  const bool look = t.any_poison();
  if (a.shape == tmem_shape::s32x32b && !a.packed) {  // the common shape: lane by lane
    if (poison != nullptr) std::fill(poison, poison + count, 0U);
    for (int lane = 0; lane < 32; ++lane) {
      const int first = (tmem_lane(a.address) + lane) * tmem_columns + tmem_column(a.address);
      for (int r = 0; r < count; ++r) registers[r * 32 + lane] = words[first + r];
      if (!look || poison == nullptr) continue;
      for (int r = 0; r < count; ++r) poison[r] |= static_cast<std::uint32_t>(t.poisoned(first + r)) << lane;
    }
    return {};
  }
  for (int r = 0; r < count; ++r) {
    std::uint32_t bad = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint32_t w = word_at(a, lane, r, 0);
      std::uint32_t value = words[w];
      bool dirty = look && t.poisoned(static_cast<int>(w));
      if (a.packed) {
        const std::uint32_t next = word_at(a, lane, r, 1);
        value = (value & 0xFFFFU) | words[next] << 16;
        dirty = dirty || (look && t.poisoned(static_cast<int>(next)));
      }
      registers[r * 32 + lane] = value;
      bad |= static_cast<std::uint32_t>(dirty) << lane;
    }
    if (poison != nullptr) poison[r] = bad;
  }
  return {};
}

complaint tmem_store(tensor_memory& t, const tmem_access& a, const std::uint32_t* registers) {
  if (complaint c = check(a)) return c;
  const int count = tmem_registers(a.shape, a.repeat);
  std::uint32_t* words = t.words();
  if (a.shape == tmem_shape::s32x32b && !a.packed) {
    for (int lane = 0; lane < 32; ++lane) {
      const int first = (tmem_lane(a.address) + lane) * tmem_columns + tmem_column(a.address);
      for (int r = 0; r < count; ++r) {
        words[first + r] = registers[r * 32 + lane];
        t.set_poison(first + r, false);
      }
    }
    return {};
  }
  for (int r = 0; r < count; ++r)
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint32_t w = word_at(a, lane, r, 0), value = registers[r * 32 + lane];
      words[w] = a.packed ? value & 0xFFFFU : value;
      t.set_poison(static_cast<int>(w), false);
      if (!a.packed) continue;
      const std::uint32_t next = word_at(a, lane, r, 1);
      words[next] = value >> 16;
      t.set_poison(static_cast<int>(next), false);
    }
  return {};
}

complaint tmem_reduce(const tmem_access& a, tmem_reduction op, bool absolute, bool nan, const std::uint32_t* registers, std::uint32_t* result) {
  const int count = tmem_registers(a.shape, a.repeat);
  if ((a.shape != tmem_shape::s32x32b && a.shape != tmem_shape::s16x32bx2) || count < 2)
    return {misuse::malformed, "tcgen05.ld.red exists for 32x32b and 16x32bx2 from .x2 on"};
  const bool floats = op == tmem_reduction::min_f32 || op == tmem_reduction::max_f32;
  if (!floats && (absolute || nan)) return {misuse::malformed, "tcgen05.ld.red has .abs and .NaN for f32 only"};
  for (int lane = 0; lane < 32; ++lane) {
    const auto value = [&](int r) {
      const std::uint32_t x = registers[r * 32 + lane];
      return absolute ? x & 0x7FFFFFFFU : x;
    };
    std::uint32_t best = value(0);
    for (int r = 1; r < count; ++r) {
      const std::uint32_t x = value(r);
      const std::int32_t sx = static_cast<std::int32_t>(x), sb = static_cast<std::int32_t>(best);
      switch (op) {
        case tmem_reduction::min_f32: best = std::bit_cast<std::uint32_t>(min_f32(std::bit_cast<float>(best), std::bit_cast<float>(x), {.nan = nan})); break;
        case tmem_reduction::max_f32: best = std::bit_cast<std::uint32_t>(max_f32(std::bit_cast<float>(best), std::bit_cast<float>(x), {.nan = nan})); break;
        case tmem_reduction::min_u32: best = std::min(best, x); break;
        case tmem_reduction::max_u32: best = std::max(best, x); break;
        case tmem_reduction::min_s32: best = static_cast<std::uint32_t>(std::min(sb, sx)); break;
        case tmem_reduction::max_s32: best = static_cast<std::uint32_t>(std::max(sb, sx)); break;
      }
    }
    result[lane] = best;
  }
  return {};
}

}  // namespace tlx::sim
