// The gradients of flash_attention() in one walk: a CTA for each block of keys makes dk and dv, and adds its part of dq to sums in memory. Five products where two walks
// need seven; the sums' order, and so dq's last bits, change from run to run.
//
//   prepare   level = lse * log2(e) and delta = rowsum(d_o * o), padded; zeros for the sums
//   walk      dk, dv; the sums: float32, transposed (D x query), since it is the transposed dq that two warpgroups can halve by rows
//   finish    dq = the sums, scaled, in the type of the operands
#pragma once
#include "tlx/kernels/flash_attention_backward.hpp"

namespace tlx::kernels {

/// As in flash_backward_arguments; level, delta: (batch, head, query) and sums: (batch, head, D, query), with queries padded to whole tiles of flash_padding.
template <class T>
struct flash_one_walk_arguments {
  BOOST_HANA_DEFINE_STRUCT(flash_one_walk_arguments, (view<T, 4>, q), (view<T, 4>, k), (view<T, 4>, v), (view<T, 4>, o), (view<T, 4>, d_o), (view<float, 3>, lse), (view<float, 3>, level),
                           (view<float, 3>, delta), (view<float, 4>, sums), (view<T, 4>, dq), (view<T, 4>, dk), (view<T, 4>, dv), (view<float, 1>, slopes), (scalar<float>, scale),
                           (scalar<float>, exponent), (scalar<float>, gradient_scale), (scalar<std::int32_t>, left), (scalar<std::int32_t>, right), (scalar<std::int32_t>, section));
};
template <int Rows, class T> flash_tiles<Rows> query_tiles(const flash_one_walk_arguments<T>& in) { return flash_tiles<Rows>(in); }
template <int Rows, class T> flash_tiles<Rows, true> key_tiles(const flash_one_walk_arguments<T>& in) { return flash_tiles<Rows, true>(in, true); }

/// Queries of a tile of the kernels before and after the walk; the walk's own blocks may not be larger than what divides it.
inline constexpr int flash_padding = 64;

/// level, delta, and zeros for the sums. A row that sees no key has a level of infinity: its exponentials are zeros.
template <class T, int D>
void flash_attention_prepare(block& cta, const flash_one_walk_arguments<T>& in) {
  using detail::log2e, detail::none;
  constexpr int Rows = flash_padding;
  cta.warps({4});
  cta.tile(query_tiles<Rows>(in), [&](const query_box& t) {
    const auto rows = [&](const auto& v) { return cast<float>(fetch<Rows, D>(tokens_at(v, t, t.first_query, t.row, t.head))); };
    const auto o = rows(in.o), g = rows(in.d_o);
    store(rows_at(in.delta, t), row_sum(o * g));
    const auto lse = fetch<Rows, 1>(rows_at(in.lse, t));
    store(rows_at(in.level, t), where(lse > none, lse * log2e, -none));
    store(in.sums.at(t.batch, t.head, 0, t.row).axes(2, 3), splat<float, D, Rows>(cta.home(), 0.0f));
  });
}

template <class T, int D>
void flash_attention_finish(block& cta, const flash_one_walk_arguments<T>& in) {
  constexpr int Rows = flash_padding, Columns = 64;
  cta.warps({4});
  cta.tile(query_tiles<Rows>(in), [&](const query_box& t) {
    for (int first = 0; first < D; first += Columns) {
      const auto sum = fetch<Rows, Columns>(in.sums.at(t.batch, t.head, first, t.row).axes(3, 2));
      store(in.dq.at(t.batch, t.row, t.head, first).axes(1, 3), cast<T>(sum * in.gradient_scale));
    }
  });
}

/// Keys of a tile, queries of a block, slots of the rings.
template <int Rows, int Queries, int QuerySlots, int GradientSlots>
struct flash_walk_plan {
  static constexpr int rows = Rows, queries = Queries, query_slots = QuerySlots, gradient_slots = GradientSlots;
};

template <class T, int D, class Plan>
void flash_attention_walk(block& cta, const flash_one_walk_arguments<T>& in, const flash_options& options = {}) {
  using namespace literals;
  using detail::none;
  constexpr int Rows = Plan::rows, Queries = Plan::queries;
  static_assert(flash_padding % Queries == 0, "tlx: a block of queries that reaches beyond the padded rows");
  dsl::context& c = cta.home();
  auto tiles = cta.persistent(key_tiles<Rows>(in));
  auto kv = cta.ring<1>("k and v", shared<T, Rows, D>, shared<T, Rows, D>);
  auto q = cta.ring<Plan::query_slots>("q", shared<T, Queries, D>);
  auto d_o = cta.ring<Plan::gradient_slots>("do, level and delta", shared<T, Queries, D>, shared<float, 1, Queries>, shared<float, 1, Queries>);
  auto ds_ring = cta.ring<1>("ds", shared<T, Rows, Queries>);
  const warp_count working{cta.has_tensor_memory() ? 4 : Rows / 16};
  // On Hopper both accumulators, scores, exponentials and operands in flight are just below 240; elsewhere the compiler divides.
  const registers loading{cta.has_tensor_memory() ? 0 : 24}, multiplying{cta.has_tensor_memory() ? 0 : 240};
  cta.roles(tiles,
    role("load", 1_warp, loading, [&](const query_box& t) {
      const query_blocks<Rows, Queries> blocks(t, in, options);
      {
        auto slot = kv.fill();
        load(get<0>(slot), tokens_at(in.k, t, t.first_key, t.row, t.head));
        load(get<1>(slot), tokens_at(in.v, t, t.first_key, t.row, t.head));
      }
      for_each(blocks.count(), [&](const index& i) {
        const index query = blocks.query(i), head = blocks.head(i);
        load(q.fill(), tokens_at(in.q, t, t.first_query, query, head));
        auto slot = d_o.fill();
        load(get<1>(slot), along_columns(in.level, t, head, query));
        load(get<2>(slot), along_columns(in.delta, t, head, query));
        load(get<0>(slot), tokens_at(in.d_o, t, t.first_query, query, head));
      });
    }),
    role("work", working, multiplying, [&](const query_box& t) {
      const query_blocks<Rows, Queries> blocks(t, in, options);
      auto dk = cta.make(accumulator<float, Rows, D>), dv = cta.make(accumulator<float, Rows, D>);
      const index own = t.keys - t.row;
      [&] {
        auto mine = kv.drain();
        for_each(blocks.count(), [&](const index& i) {
          const index query = blocks.query(i), head = blocks.head(i);
          auto queries = q.drain();
          const auto ds = [&] {
            auto s = mma(get<0>(mine), transpose(queries));
            auto gradients = d_o.drain();  // closes before the work at the end of the round
            auto dp = mma(get<1>(mine), transpose(get<0>(gradients)));
            const auto made = scored(read(s), in, options, head, col_index<1, Queries>(c) + (query + t.keys - t.queries - t.row) - row_index<Rows, 1>(c));
            auto x = cta.carry(fma(made.x, in.exponent, -read(get<1>(gradients))));
            // Keys behind the last one have no part in dq: their exponentials could be infinite.
            const predicate cut = own < Rows;
            when(options.right || options.left ? cut || blocks.bounded(query) : cut, [&] { x.set(where(row_index<Rows, 1>(c) < own, blocks.seen(c, x.get(), query), none)); });
            const auto p = exp2(x.get());
            mma(dv, cast<T>(p), get<0>(gradients), accumulate(i > 0));
            const auto g = p * (read(dp) - read(get<2>(gradients)));
            return cast<T>(made.factor ? g * *made.factor : g);
          }();
          write(ds_ring.fill(), ds);
          auto other = ds_ring.drain();
          auto dq = mma(transpose(get<0>(mine)), other);
          if (cta.has_tensor_memory()) mma(dk, other, queries, accumulate(i > 0));
          else mma(dk, ds, queries, accumulate(i > 0));  // beside the addition of dq
          add_to(in.sums.at(t.batch, head, 0, query).axes(2, 3), read(dq));
        });
      }();
      store(tokens_at(in.dv, t, t.first_key, t.row, t.head), cast<T>(read(dv)));
      store(tokens_at(in.dk, t, t.first_key, t.row, t.head), cast<T>(read(dk) * in.gradient_scale));
    }));
}

}  // namespace tlx::kernels
