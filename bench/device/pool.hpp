// Normal bf16 values for large arrays: one pool, repeated from different places, so that an array of any length costs one copy and every element is known.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/problems.hpp"
#include "tlx/device/device.hpp"

namespace tlx::bench {

class pool {
 public:
  explicit pool(std::uint64_t seed) : values_(problems::random_values(period, tile::element::bf16, seed)) {}

  /// Fills `to` with `count` elements; element i is at(first, i).
  void fill(device::machine& m, device::address to, std::uint64_t count, std::uint64_t first) const {
    for (std::uint64_t done = 0, from = first % period; done < count; from = 0) {
      const std::uint64_t now = std::min(count - done, period - from);
      m.write(to + done * 2, values_.data() + from, now * 2);
      done += now;
    }
  }
  std::vector<std::uint16_t> copy(std::uint64_t count, std::uint64_t first) const {
    std::vector<std::uint16_t> out;
    out.reserve(count);
    for (std::uint64_t from = first % period; out.size() < count; from = 0) {
      const auto now = std::min<std::uint64_t>(count - out.size(), period - from);
      out.insert(out.end(), values_.begin() + static_cast<std::ptrdiff_t>(from), values_.begin() + static_cast<std::ptrdiff_t>(from + now));
    }
    return out;
  }
  std::uint16_t bits(std::uint64_t first, std::uint64_t i) const { return values_[(first + i) % period]; }
  double at(std::uint64_t first, std::uint64_t i) const { return problems::decode(bits(first, i), tile::element::bf16); }

 private:
  static constexpr std::uint64_t period = 4194301;  // prime: rows of every length come out different
  std::vector<std::uint16_t> values_;
};

}  // namespace tlx::bench
