// Which warp runs next, how long, and when asynchronous work lands: a policy picked by the seed, so that a few seeds cover what rarely happens on a GPU.
#include <algorithm>

#include "sim/ops.hpp"
#include "sim/state.hpp"

namespace tlx::sim {

namespace {

// Landing: seed modulo 4. Order: the rest. Twenty-four seeds in a row try every pair.
enum class order : std::uint8_t { uniform, starved_warp, starved_cta, priorities, to_the_end, in_turns };
order order_of(std::uint64_t seed) { return static_cast<order>(seed / 4 % 6); }

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 31;
  x *= 0x9E3779B97F4A7C15ULL;
  return x ^ x >> 29;
}

// By place in the grid: the same whichever thread runs the CTA, and whatever it ran before.
std::uint64_t number_of(const cta& c) { return c.id.x + (std::uint64_t{c.id.y} << 24) + (std::uint64_t{c.id.z} << 40); }

}  // namespace

bool engine::lands_now() {
  if (in_flight.empty()) return false;
  switch (how.seed % 4) {
    case 0: return chance(4) == 0;
    case 1: return chance(how.seed / 4 % 2 ? 4096 : 256) == 0;  // as late as can be: nearly always only when nobody else can go on
    case 2: return true;
    default: return chance(16) == 0;
  }
}

std::size_t engine::pick_landing() {
  if (in_flight.size() == 1) return 0;
  return how.seed / 4 % 3 == 2 ? in_flight.size() - 1 : random() % in_flight.size();  // a third of the seeds: the youngest first
}

std::size_t engine::pick_warp() {
  const std::size_t n = queue.size();
  if (n == 1) return 0;
  const std::size_t any = random() % n;
  if (random() % 64 == 0) return any;  // threads that poll must not keep others away for ever
  const auto avoid = [&](auto&& is_victim) {
    for (std::size_t k = 0; k < n; ++k) if (!is_victim(*queue[(any + k) % n])) return (any + k) % n;
    return any;
  };
  switch (order_of(how.seed)) {
    case order::starved_warp: return avoid([&](const warp& w) { return mix(how.seed) % w.home->warps.size() == w.index; });
    case order::starved_cta: return avoid([&](const warp& w) { return mix(how.seed) % std::max<std::size_t>(2, w.home->home->ctas.size()) == (w.home->home->ctas.size() > 1 ? w.home->rank : number_of(*w.home) % 2); });
    case order::priorities: {
      // Random priorities, drawn anew every few thousand instructions.
      const std::uint64_t epoch = how.seed + ((warp_instructions - instructions_at_start) >> 13 << 8);
      std::size_t best = 0;
      std::uint64_t most = 0;
      for (std::size_t k = 0; k < n; ++k) {
        const std::uint64_t p = mix(epoch ^ mix(number_of(*queue[k]->home) << 8 | queue[k]->index));
        if (k == 0 || p > most) { best = k; most = p; }
      }
      return best;
    }
    default: return any;
  }
}

unsigned engine::pick_budget() {
  switch (order_of(how.seed)) {
    case order::to_the_end: return 1 + chance(8192);
    case order::in_turns: return 1 + chance(4);
    default: return 1 + chance(8U << chance(6));
  }
}

}  // namespace tlx::sim
