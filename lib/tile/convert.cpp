// Plans layout conversions: tries nothing, then moves inside threads, then inside warps, then through shared memory.
#include "tlx/tile/convert.hpp"

#include <optional>
#include <string>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/banks.hpp"
#include "tlx/tile/layout_ops.hpp"

namespace tlx::tile {

namespace {

// For each new register the old one, if one list serves all threads; -1 where it does not.
std::vector<std::int16_t> register_sources(const local_inverse& from, const layout& to) {
  std::vector<std::int16_t> source(static_cast<std::size_t>(to.register_count()), -1);
  const bool alike = same_threads(from.of, to);  // then lane 0 of warp 0 speaks for all
  for (int r = 0; r < to.register_count(); ++r) {
    const int first = from.find_register(to.at(r, 0), 0);
    bool everywhere = first >= 0;
    for (int b = 0; b < to.block_count() && everywhere && !alike; ++b)
      for (int w = 0; w < to.warp_count() && everywhere; ++w)
        for (int l = 0; l < warp_lanes && everywhere; ++l) everywhere = from.of.at(first, l, w, b) == to.at(r, l, w, b);
    if (everywhere) source[static_cast<std::size_t>(r)] = static_cast<std::int16_t>(first);
  }
  return source;
}

struct place {
  int reg = -1, lane = 0;
};

// Where lane `lane` finds its new register `r` inside its warp; the same in every warp, or nothing.
std::optional<place> place_in_warp(const local_inverse& from, const layout& to, int r, int lane) {
  place p{from.find_register(to.at(r, lane), lane), lane};
  if (p.reg < 0 && !from.find_lane(to.at(r, lane), 0, 0, p.reg, p.lane)) return std::nullopt;
  for (int b = 0; b < to.block_count(); ++b)
    for (int w = 0; w < to.warp_count(); ++w)
      if (!(from.of.at(p.reg, p.lane, w, b) == to.at(r, lane, w, b))) return std::nullopt;
  return p;
}

// Fills rounds greedily: in each, every lane takes the first element it still misses whose lane is free to offer it.
bool plan_shuffles(const local_inverse& from, const layout& to, conversion& c) {
  const int registers = to.register_count();
  std::vector<place> wanted(static_cast<std::size_t>(registers) * warp_lanes);
  std::vector<bool> missing(wanted.size(), false);
  int left = 0;
  for (int r = 0; r < registers; ++r) {
    if (c.source[static_cast<std::size_t>(r)] >= 0) continue;
    for (int l = 0; l < warp_lanes; ++l) {
      const auto p = place_in_warp(from, to, r, l);
      if (!p) return false;
      const std::size_t i = static_cast<std::size_t>(r) * warp_lanes + static_cast<std::size_t>(l);
      wanted[i] = *p;
      missing[i] = true;
      ++left;
    }
  }
  while (left > 0) {
    shuffle_round round;
    round.offer.fill(-1);
    round.into.fill(-1);
    for (unsigned l = 0; l < warp_lanes; ++l) round.from[l] = static_cast<std::int16_t>(l);
    for (unsigned l = 0; l < warp_lanes; ++l)
      for (int r = 0; r < registers; ++r) {
        const std::size_t i = static_cast<std::size_t>(r) * warp_lanes + l;
        if (!missing[i]) continue;
        std::int16_t& offered = round.offer[static_cast<unsigned>(wanted[i].lane)];
        if (offered >= 0 && offered != wanted[i].reg) continue;
        offered = static_cast<std::int16_t>(wanted[i].reg);
        round.from[l] = static_cast<std::int16_t>(wanted[i].lane);
        round.into[l] = static_cast<std::int16_t>(r);
        missing[i] = false;
        --left;
        break;
      }
    for (std::int16_t& offered : round.offer)
      if (offered < 0) offered = 0;  // nobody asks this lane; any register will do
    c.rounds.push_back(round);
  }
  return true;
}

void plan_shared(const layout& from, const layout& to, element type, conversion& c) {
  int best = 0;
  for (const bool across : {false, true})
    for (const int width : {128, 64, 32, 16, 0}) {
      const shared_tile t{type, from.rows, from.cols, width, across};
      if (broken_rule(t) != nullptr) continue;
      const int write = widest_access(from, t), read = widest_access(to, t);
      const int write_conflicts = bank_conflicts(from, t, write, 0), read_conflicts = bank_conflicts(to, t, read, 0);
      if (write_conflicts == 0 || read_conflicts == 0) continue;
      // Accesses of a warp times phases of each (one per 128 bytes) times passes of each.
      const auto passes = [&](const layout& l, int bytes, int conflicts) {
        return l.register_count() * bits(type) / 8 / bytes * (bytes <= 4 ? 1 : bytes / 4) * conflicts;
      };
      const int cost = passes(from, write, write_conflicts) + passes(to, read, read_conflicts);
      if (best != 0 && cost >= best) continue;
      best = cost;
      c.scratch = t;
      c.write_bytes = write;
      c.read_bytes = read;
      c.write_conflicts = write_conflicts;
      c.read_conflicts = read_conflicts;
    }
  if (best == 0)
    raise(user_error({.id = "layout-conversion-impossible",
                      .what = cat("a tile of ", from.rows, "x", from.cols, " ", name(type), " cannot pass through shared memory"),
                      .because = "its rows are no whole number of bytes",
                      .fix = {"convert it as a wider element"}}));
}

// Whether each block finds in itself all that it needs.
bool stays_in_block(const layout& from, const layout& to) {
  if (from.block_count() == 1) return true;
  if (from.block == to.block) return true;
  const inverse_layout inv = inverse(from);
  for (int b = 0; b < to.block_count(); ++b)
    for (int w = 0; w < to.warp_count(); ++w)
      for (int r = 0; r < to.register_count(); ++r)
        for (int l = 0; l < warp_lanes; ++l) {
          owner o;
          if (!inv.find(to.at(r, l, w, b), o) || (o.block != b && !from.is_replicated_over_blocks())) return false;
        }
  return true;
}

}  // namespace

conversion plan(const layout& from, const layout& to, element type) {
  if (from.rows != to.rows || from.cols != to.cols || from.warp_count() != to.warp_count() || from.block_count() != to.block_count() || !stays_in_block(from, to))
    raise(user_error({.id = "layout-conversion-impossible",
                      .what = cat("a tile of ", from.rows, "x", from.cols, " over ", from.warp_count(), " warps and ", from.block_count(), " CTAs cannot become ", to.rows, "x",
                                  to.cols, " over ", to.warp_count(), " warps and ", to.block_count(), " CTAs"),
                      .because = "a conversion moves elements among the threads of one role of one CTA",
                      .fix = {"hand the tile over through a ring"}}));
  conversion c;
  if (from == to) return c;
  const local_inverse holder = make_local_inverse(from);
  c.source = register_sources(holder, to);
  bool complete = true, in_place = from.register_count() == to.register_count();
  for (std::size_t r = 0; r < c.source.size(); ++r) {
    complete = complete && c.source[r] >= 0;
    in_place = in_place && c.source[r] == static_cast<std::int16_t>(r);
  }
  if (complete) {
    c.kind = in_place ? conversion_kind::none : conversion_kind::registers;
    if (in_place) c.source.clear();
    return c;
  }
  if (plan_shuffles(holder, to, c)) {
    c.kind = conversion_kind::shuffle;
    return c;
  }
  c.kind = conversion_kind::shared;
  c.source.clear();
  c.rounds.clear();
  plan_shared(from, to, type, c);
  return c;
}

}  // namespace tlx::tile
