// Inputs that find mistakes: every kind of special value, ties of every rounding, large cancellations, and plain random ones. Seeded, and the same with
// every standard library.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/compare/sample.hpp"

namespace tlx::compare {

class generator {
 public:
  explicit generator(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x1234567) {}
  std::uint64_t word() {  // splitmix64
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// low to high, both included.
  int between(int low, int high) { return low + static_cast<int>(word() % static_cast<std::uint64_t>(high - low + 1)); }
  double unit() { return static_cast<double>(word() >> 11) * 0x1p-53; }
  template <class T> const T& of(const std::vector<T>& all) { return all[static_cast<std::size_t>(word() % all.size())]; }

 private:
  std::uint64_t state_;
};

/// Bits of one element from a number (rounded to nearest), and back. 8 to 64 bits in the low bits of the word.
std::uint64_t encode(element e, double value);
double decode(element e, std::uint64_t bits);
int width(element e);  // bytes

/// Special codes of an element type: zeros, subnormals, ones, neighbours, extremes, infinities, NaNs of several payloads; for integers the corners.
const std::vector<std::uint64_t>& special(element e);

/// How random values are drawn.
enum class draw {
  mixed,     // special codes, random bits and moderate values
  moderate,  // about -4 to 4; integers small
  bits,      // any code
  spread,    // moderate significands with exponents over the whole range, both signs: cancellations
  tame,      // as spread, but no NaN, infinity or overflow of short sums
};
std::uint64_t draw_one(generator& g, element e, draw how);
bytes draw_many(generator& g, element e, std::size_t count, draw how);

/// Elements in memory order.
std::uint64_t get(const bytes& from, element e, std::size_t index);
void put(bytes& to, element e, std::size_t index, std::uint64_t bits);

}  // namespace tlx::compare
